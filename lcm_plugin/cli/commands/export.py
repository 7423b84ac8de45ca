"""``lcm export``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from lcm_plugin.cli.errors import warn_of_missing
from lcm_plugin.cli.open_engine import reading
from lcm_plugin.cli.options import AsJson, Database
from lcm_plugin.cli.output import print_json, progress, say
from lcm_plugin.text import plural, size

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine
    from lcm_plugin.store.protocol import Reader
    from lcm_plugin.store.records import Conversation

_STANDARD_OUTPUT = "-"


class Format(StrEnum):
    """The format of an export."""

    JSONL = "jsonl"
    MARKDOWN = "markdown"
    HTML = "html"


_BY_SUFFIX = {
    ".jsonl": Format.JSONL,
    ".md": Format.MARKDOWN,
    ".markdown": Format.MARKDOWN,
    ".html": Format.HTML,
    ".htm": Format.HTML,
}


def export(
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="PATH", help="The file to write; - for standard output.")
    ],
    sessions: Annotated[
        str,
        typer.Argument(
            metavar="SESSIONS", help="A number, a session key or id, or a glob; all if not given."
        ),
    ] = "",
    format_: Annotated[
        Format | None,
        typer.Option("--format", "-f", help="What to write; by PATH's ending when left out."),
    ] = None,
    database: Database = None,
    active: Annotated[bool, typer.Option("--active", help="Only conversations in use.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite PATH.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write conversations into one file: to move them, to read them, to keep them.

    jsonl holds every row, summaries, context and large files, and `lcm import` makes an equal database of it;
    markdown is for reading; html is one page with search and the tree of summaries that needs no network. PATH
    appears whole or not at all. Works while a host runs.

    Examples: `lcm export --output all.jsonl` · `lcm export agent:main:main -o talk.html` ·
    `lcm export 'agent:**' --active -o talks.md` · `lcm export 3 -f jsonl -o - | gzip > 3.jsonl.gz`
    """
    from lcm_plugin.sessions.names import talk_count

    chosen_format = format_ or _format_of(output)
    with reading(database) as engine, engine.store.read() as reader:
        rows = _chosen(engine, sessions, active)
        talk = sum(talk_count(reader, row) for row in rows)
        records = sum(row.message_count for row in rows) - talk
        total = talk + records if chosen_format is Format.JSONL else talk
        with (
            _target(output, force) as file,
            progress("writing", total, "messages", quiet=output == _STANDARD_OUTPUT) as advance,
        ):
            whole = not sessions and not active
            report = _write(chosen_format, engine, reader, file, rows, advance, whole=whole)
    report |= {
        "path": output,
        "format": chosen_format.value,
        "conversations": len(rows),
        "messages": talk,
        "records": records,
    }
    if output == _STANDARD_OUTPUT:
        return
    report["bytes"] = Path(output).expanduser().stat().st_size
    if as_json:
        print_json(report)
        return
    beside = f" and {plural(records, 'record')}" if records and chosen_format is Format.JSONL else ""
    counts = f"{plural(len(rows), 'conversation')}, {plural(talk, 'message')}{beside}"
    say(f"{output}: {counts}, {size(report['bytes'])}")


def _format_of(output: str) -> Format:
    found = _BY_SUFFIX.get(Path(output).suffix.lower())
    if found is None:
        raise typer.BadParameter(
            f"the ending of {output!r} names no format; add --format jsonl, markdown or html",
            param_hint="--format",
        )
    return found


def _chosen(engine: Engine, sessions: str, active: bool) -> list[Conversation]:
    from lcm_plugin.errors import NotFound

    if sessions:
        found = engine.library.matching(sessions)
    else:
        found = list(engine.library.conversations())
    found = [row for row in found if row.active or not active]
    if not found:
        raise NotFound(f"no conversation of {engine.store.location} {'is in use' if active else 'to export'}")
    return found


@contextmanager
def _target(output: str, force: bool) -> Iterator[BinaryIO]:
    from lcm_plugin.interchange.transfer.atomic import whole_file

    if output == _STANDARD_OUTPUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with whole_file(Path(output).expanduser(), overwrite=force) as file:
        yield file


def _write(
    chosen: Format,
    engine: Engine,
    reader: Reader,
    file: BinaryIO,
    rows: Sequence[Conversation],
    advance: Callable[[int], None],
    *,
    whole: bool,
) -> dict[str, Any]:
    """Writes the conversations; returns the figures that only this format reports."""
    now = engine.clock()
    if chosen is Format.HTML:
        from lcm_plugin.interchange.export.html import write_page

        write_page(
            reader,
            file.write,
            rows,
            engine.config,
            limits=partial(engine.compaction.known_limits, reader),
            now=now,
            payloads=engine.payloads,
            progress=advance,
        )
        return {}
    if chosen is Format.MARKDOWN:
        from lcm_plugin.interchange.export.markdown import write_markdown

        write_markdown(reader, file.write, rows, zone=engine.config.timezone, now=now, progress=advance)
        return {}
    from lcm_plugin.interchange.transfer.jsonl_write import write_jsonl
    from lcm_plugin.interchange.transfer.payloads import PayloadPlace
    from lcm_plugin.services import payload_folder

    place = PayloadPlace(payload_folder(engine.config, engine.store))
    ids = [row.conversation_id for row in rows]
    done = write_jsonl(reader, place, file.write, conversations=ids, whole=whole, now=now, progress=advance)
    warn_of_missing(done.missing_files)
    return {"rows": done.rows, "files": done.files, "missing_files": done.missing_files}
