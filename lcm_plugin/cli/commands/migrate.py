"""``lcm migrate-store``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lcm_plugin.cli.errors import complain, warn_of_missing
from lcm_plugin.cli.open_engine import settings_for
from lcm_plugin.cli.options import AsJson
from lcm_plugin.cli.output import print_json, progress, say
from lcm_plugin.store.open import is_server
from lcm_plugin.text import plural, size

if TYPE_CHECKING:
    from lcm_plugin.interchange.transfer.migrate import MigrationReport, Side


def migrate_store(
    source: Annotated[str, typer.Argument(metavar="FROM", help="The database to copy: a path or a URL.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="An empty database, or none yet.")],
    files: Annotated[
        str | None,
        typer.Option(
            metavar="DIR|db",
            help="Where TO keeps large files: a folder, or db for inside; the setting, else what is usual, when left out.",
        ),
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Delete an unfinished copy in TO and start from the beginning.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Copy a whole database from SQLite to PostgreSQL, back, or to one of the same kind.

    Every row is compared afterwards and the integrity checker runs on both. FROM is only read. A copy that was
    interrupted goes on when the same command is given again; until it is finished nobody can open it.

    Examples: `lcm migrate-store ~/lcm.db postgresql://lcm@db.example/agents` ·
    `lcm migrate-store postgresql:///agents copy.db --files db`
    """
    from pathlib import Path

    from lcm_plugin.engine import system_clock
    from lcm_plugin.errors import InputError, NotFound
    from lcm_plugin.interchange.transfer.migrate import migrate

    for database in (source, target):
        if is_server(database) and not database.startswith(("postgresql://", "postgres://")):
            raise InputError(
                f"{database.partition('://')[0]}://… is no database: give a path or a postgresql:// URL"
            )
    if not is_server(source) and not Path(source).expanduser().exists():
        raise NotFound(f"there is no database at {source}")
    with _side(source, None, read_only=True) as left:
        if (
            not is_server(target)
            and Path(target).expanduser().resolve() == Path(left.store.location).resolve()
        ):
            raise InputError("FROM and TO are the same database")
        with _side(target, files, read_only=False) as right:
            if left.store.location == right.store.location and source == target:
                raise InputError("FROM and TO are the same database")
            report = migrate(left, right, progress, restart=restart, now=system_clock())
            where = right.store.location
    if as_json:
        print_json({"target": where, **asdict(report)})
        return
    _print_report(report, where)


@contextmanager
def _side(database: str, files: str | None, *, read_only: bool) -> Iterator[Side]:
    from lcm_plugin.engine import Engine
    from lcm_plugin.interchange.transfer.migrate import Side
    from lcm_plugin.interchange.transfer.payloads import PayloadPlace
    from lcm_plugin.services import payload_folder
    from lcm_plugin.store.open import open_store

    chosen = {} if files is None else {"large_files_dir": files}
    config = settings_for(database, **chosen)
    store = open_store(config, read_only=read_only, unfinished=not read_only)
    with Engine(config, store) as engine:
        yield Side(store, PayloadPlace(payload_folder(config, store)), engine.check)


def _print_report(report: MigrationReport, where: str) -> None:
    total = sum(report.rows.values())
    again = "; an earlier run had begun it" if report.resumed else ""
    say(f"{where}: {total:,} rows, {report.rows.get('messages', 0):,} of them messages, all equal{again}")
    if report.files:
        say(f"{plural(report.files, 'large file')} ({size(report.file_bytes)})")
    if report.altered:
        complain(
            f"warning: {report.altered:,} rows held NUL, which PostgreSQL cannot; U+FFFD stands in its place"
        )
    warn_of_missing(report.missing_files, "were missing or damaged in FROM")
    if report.outdated:
        complain(
            "warning: FROM was written to meanwhile; what is new there is not in the copy. "
            "Stop its hosts and copy again"
        )
