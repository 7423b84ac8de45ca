"""``lcm backup`` and ``lcm restore``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lcm_plugin.cli.errors import INTERNAL, warn_of_missing
from lcm_plugin.cli.open_engine import reading, settings_for
from lcm_plugin.cli.options import AsJson, Database
from lcm_plugin.cli.output import print_json, say, working
from lcm_plugin.store.open import is_server
from lcm_plugin.text import plural, size

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine
    from lcm_plugin.types import Finding


def backup(
    target: Annotated[
        str | None, typer.Argument(help="The copy's path; beside the database if not given.")
    ] = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Write a checked copy of the database and its large files; safe while a host runs.

    The files lie in a folder beside the copy, named as the copy with .files at the end; on the same disk they take
    no space of their own. `lcm restore` puts a copy back.

    Examples: `lcm backup` · `lcm backup /srv/copies/lcm.db`
    """
    from lcm_plugin.maintenance.backup import back_up, copy_name

    with reading(database) as engine, working("copying") as tell:
        name = target or copy_name(engine.store.location, engine.clock())
        done = back_up(engine.store, engine.payloads.folder, name, lambda count: tell(f"{count:,} files"))
    warn_of_missing(done.missing, "were missing or damaged already")
    if as_json:
        print_json(asdict(done))
        return
    files = f", {plural(done.files, 'file')} ({size(done.file_bytes)})" if done.files else ""
    say(f"{done.path} ({size(done.bytes)}{files})")


def restore(
    copy: Annotated[str, typer.Argument(metavar="COPY", help="A copy that lcm backup wrote.")],
    database: Database = None,
    check: Annotated[bool, typer.Option("--check", help="Only check the copy and its files.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a database that is there, after a copy of it.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check a copy, and put it in the database's place with its large files.

    Stop the hosts first. With --check nothing is changed, and the exit code is 1 when the copy is not whole.

    Examples: `lcm restore lcm.db.20260317T214000Z.bak --check` · `lcm restore /srv/copies/lcm.db --force`
    """
    from lcm_plugin.errors import NotFound

    path = Path(copy).expanduser()
    if not path.is_file():
        raise NotFound(f"there is no copy at {copy}")
    from lcm_plugin.store.sqlite.restore import up_to_date

    with up_to_date(path) as current:
        with _opened_copy(path, current) as engine, working("checking"):
            errors = _errors(engine)
            messages = engine.library.status().messages
        if check or errors:
            _report_check(path, messages, errors, as_json=as_json)
            return
        _restore(path, current, messages, database, force=force, as_json=as_json)


def _restore(
    copy: Path, current: Path, messages: int, database: str | None, *, force: bool, as_json: bool
) -> None:
    """Puts ``current``, the copy with the present schema, in the database's place."""
    from lcm_plugin.engine import Engine
    from lcm_plugin.errors import InputError
    from lcm_plugin.maintenance.backup import restored_files
    from lcm_plugin.services import payload_folder_at

    config = settings_for(database)
    if is_server(config.database_target):
        raise InputError(
            "a copy is restored into a SQLite file; use 'lcm migrate-store' for a server's database"
        )
    target = Path(config.database_target).expanduser()
    saved = ""
    if target.exists() and target.stat().st_size:
        if target.resolve() == copy.resolve():
            raise InputError("the copy is the database itself")
        if not force:
            raise InputError(f"{target} exists already; --force replaces it, after a copy of it")
        with Engine.open(config, read_only=True) as engine, working("copying what is there"):
            saved = engine.backup()
    from lcm_plugin.store.sqlite.restore import restore as replace

    with _opened_copy(copy, current) as engine, working("restoring"):
        source = engine.payloads.folder
        files, missing = (
            (0, ())
            if source is None
            else restored_files(engine.store, source, payload_folder_at(config, str(target)))
        )
        replace(current, target)
    warn_of_missing(missing, "are missing")
    if as_json:
        print_json({"database": str(target), "messages": messages, "files": files, "saved": saved})
        return
    say(f"{target}: {plural(messages, 'message')}, {plural(files, 'file')}")
    if saved:
        say(f"What was there before is at {saved}")


@contextmanager
def _opened_copy(copy: Path, current: Path) -> Iterator[Engine]:
    """An engine on ``current`` with the files that lie beside the copy."""
    from lcm_plugin.config import LcmConfig
    from lcm_plugin.engine import Engine
    from lcm_plugin.maintenance.backup import files_beside

    files = files_beside(copy).root
    config = LcmConfig(database=str(current), large_files_dir=str(files) if files.is_dir() else "")
    with Engine.open(config, read_only=True) as engine:
        yield engine


def _errors(engine: Engine) -> list[Finding]:
    from lcm_plugin.types import Severity

    return [found for found in engine.check().findings if found.severity is Severity.ERROR]


def _report_check(path: Path, messages: int, errors: list[Finding], *, as_json: bool) -> None:
    if as_json:
        print_json(
            {"path": str(path), "ok": not errors, "messages": messages, "errors": [e.message for e in errors]}
        )
    elif errors:
        say(f"{path} is not whole, so nothing was restored: {plural(len(errors), 'error')}")
        for found in errors[:20]:
            say(f"{found.code}: {found.message}")
    else:
        say(f"{path} is whole: {plural(messages, 'message')}")
    if errors:
        raise typer.Exit(INTERNAL)
