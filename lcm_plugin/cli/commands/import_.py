"""``lcm import``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lcm_plugin.cli.open_engine import reading, writing
from lcm_plugin.cli.options import AsJson, Database
from lcm_plugin.cli.output import (
    moment,
    print_json,
    print_pairs,
    print_table,
    print_text,
    progress,
    say,
    working,
)
from lcm_plugin.text import plural

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine
    from lcm_plugin.interchange.importers.importing import SourceFile
    from lcm_plugin.interchange.importers.native import NativeReport
    from lcm_plugin.interchange.importers.report import ConversationReport, FileReport

_MOST_SESSIONS = 20
_MOST_FILES = 5


class OnBroken(StrEnum):
    """How lines that cannot be read are treated."""

    REFUSE = "refuse"
    SKIP = "skip"


_Files = Annotated[list[Path], typer.Argument(metavar="FILE…", help="Files or folders of another tool.")]
_Format = Annotated[
    str,
    typer.Option(
        "--format",
        "-f",
        metavar="NAME",
        help="auto, openai, claude-code, codex, openclaw, chatgpt, hermes, lossless-claw, hermes-lcm or lcm.",
    ),
]
_Session = Annotated[
    str,
    typer.Option(metavar="KEY", help="Session key to keep it under; {id} in it is the source's session id."),
]
_Apply = Annotated[bool, typer.Option("--apply", help="Store it. Without this nothing is written.")]
_Broken = Annotated[OnBroken, typer.Option(help="What to do about lines that cannot be read.")]


def import_(
    files: _Files,
    format_name: _Format = "auto",
    session: _Session = "",
    apply: _Apply = False,
    broken: _Broken = OnBroken.REFUSE,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Bring in histories of other tools, with their times, branches, sub-agents and summaries.

    Says first what it would do; --apply does it. Files are only read. Running it again stores what is new since, and
    goes on where a killed run stopped. Abandoned branches of an edited chat become archived conversations of the
    same session. No model is called; what must be compacted is owed and done by `lcm worker` or the next turn.

    Examples: `lcm import ~/.claude/projects` · `lcm import conversations.zip --apply` ·
    `lcm import ~/.openclaw/lcm.db --apply` · `lcm import chat.jsonl --session agent:main:main --apply`
    """
    from lcm_plugin.interchange.importers.native import NAME, holds_native_export
    from lcm_plugin.recall.catchup import index_all

    own = [
        path for path in files if format_name == NAME or (format_name == "auto" and holds_native_export(path))
    ]
    others = [str(path) for path in files if path not in own]
    with ExitStack() as stack:
        engine = stack.enter_context(writing(database, create=True)) if apply else _existing(stack, database)
        natives = [_native(path, engine if apply else None) for path in own]
        reports, unknown = (
            _foreign(others, format_name, session, broken, engine, apply) if others else ([], [])
        )
        if apply and engine is not None:
            with working("filling the search index"):
                index_all(engine.store, engine.events)
    if as_json:
        print_json(
            {
                "applied": apply,
                "files": [one.as_dict() for one in natives] + [one.as_dict() for one in reports],
                "unknown_files": unknown,
            }
        )
        return
    for native in natives:
        _print_native(native, applied=apply)
    if len(reports) > _MOST_FILES:
        _print_many(reports, applied=apply)
    else:
        for report in reports:
            _print_report(report, applied=apply)
    for path in unknown:
        print_text(f"left out, no format known: {path}")
    if not apply:
        say("\nNothing was written. Add --apply to store it.")


def _existing(stack: ExitStack, database: str | None) -> Engine | None:
    """The database that a dry run compares with; None when there is none yet."""
    from lcm_plugin.errors import StoreUnavailable

    try:
        return stack.enter_context(reading(database))
    except StoreUnavailable:
        return None


def _foreign(
    paths: Sequence[str],
    format_name: str,
    session: str,
    broken: OnBroken,
    engine: Engine | None,
    apply: bool,
) -> tuple[list[FileReport], list[str]]:
    from lcm_plugin.interchange.importers.importing import check_broken, find_sources, look_over
    from lcm_plugin.messages.tokens import TokenCounter

    sources, unknown = find_sources(paths, format_name)
    count = None if apply else TokenCounter().message
    reports = []
    with progress("looking", len(sources), "files") as update:
        for number, source in enumerate(sources, 1):
            reports.append(look_over(source, session, engine, count))
            update(number)
    _check_session(session, reports)
    if apply and engine is not None:
        check_broken(reports, broken.value)
        reports = _load(engine, sources, session, sum(report.records for report in reports))
    return reports, unknown


def _load(engine: Engine, sources: Sequence[SourceFile], session: str, total: int) -> list[FileReport]:
    from lcm_plugin.interchange.importers.importing import load

    done: list[FileReport] = []
    before = 0
    with progress("importing", total, "records") as update:

        def advance(count: int) -> None:
            update(before + count)

        for source in sources:
            done.append(load(engine, source, session, progress=advance))
            before += done[-1].records
    return done


def _check_session(session: str, reports: Sequence[FileReport]) -> None:
    """One key takes one session, over all files."""
    from lcm_plugin.interchange.importers.report import Keys

    names = {one.session for report in reports for one in report.conversations}
    Keys("", session).check(names)


def _native(path: Path, engine: Engine | None) -> NativeReport:
    from lcm_plugin.interchange.importers.native import load_native, look_over_native

    found = look_over_native(path)
    if engine is None:
        return found
    with progress("importing", found.messages, "messages") as update:
        return load_native(engine, path, update)


def _print_native(report: NativeReport, *, applied: bool) -> None:
    print_text(f"{report.path} (lcm)")
    counts = {"message": report.messages, "summary": report.summaries, "file": report.files}
    held = ", ".join(plural(count, noun) for noun, count in counts.items())
    pairs = [("the file holds", held)]
    pairs.append(("stored" if applied else "would store", plural(report.conversations, "conversation")))
    if report.known:
        pairs.append(("known", f"{report.known:,} conversations are here already"))
    if report.archived:
        pairs.append(("archived", f"{report.archived:,} whose key has an active conversation here"))
    print_pairs(pairs)


def _print_many(reports: Sequence[FileReport], *, applied: bool) -> None:
    """Many files in one table, and remarks on some of them."""
    rows = [
        (
            report.path,
            report.format,
            f"{report.total('new'):,}",
            f"{report.total('known'):,}",
            f"{len(report.conversations):,}",
            f"{report.broken_count:,}",
        )
        for report in reports
    ]
    print_table(("file", "format", "new", "known", "conversations", "broken"), rows, yields="file")
    print_pairs(_totals(reports, applied=applied))
    for report in reports:
        _print_remarks(report)


def _print_report(report: FileReport, *, applied: bool) -> None:
    print_text(f"{report.path} ({report.format})")
    print_pairs(_totals([report], applied=applied))
    rows = [
        (one.kind, one.key, f"{one.new:,}", f"{one.known:,}", moment(one.latest), one.title)
        for one in report.conversations
    ]
    print_table(
        ("kind", "session key", "new", "known", "until", "title"), rows[:_MOST_SESSIONS], yields="title"
    )
    if len(rows) > _MOST_SESSIONS:
        say(f"… and {len(rows) - _MOST_SESSIONS:,} more; --json lists them all")
    _print_remarks(report)


def _totals(reports: Sequence[FileReport], *, applied: bool) -> list[tuple[str, str]]:
    def total(name: str) -> int:
        return sum(report.total(name) for report in reports)

    conversations = [one for report in reports for one in report.conversations]
    begins = [one.earliest for one in conversations if one.earliest is not None]
    ends = [one.latest for one in conversations if one.latest is not None]
    pairs = [
        (
            "stored" if applied else "would store",
            f"{total('new'):,} rows, {total('hidden'):,} of them records beside the talk",
        ),
        ("known", f"{total('known'):,} rows are here already"),
        ("conversations", _kinds(conversations)),
        ("summaries", f"{total('summaries'):,}"),
        ("tokens", f"{total('tokens'):,}"),
        ("from", moment(min(begins, default=None))),
        ("to", moment(max(ends, default=None))),
    ]
    repeats: Counter[str] = sum((report.repeats for report in reports), Counter())
    if repeats:
        said = ", ".join(f"{count:,} {kind}" for kind, count in repeats.most_common())
        pairs.append(("left out", f"{said}: they repeat other records"))
    if broken := sum(report.broken_count for report in reports):
        pairs.append(("broken", f"{plural(broken, 'place')} cannot be read"))
    return pairs


def _print_remarks(report: FileReport) -> None:
    for broken in report.broken:
        print_text(f"  {report.place(broken)}")
    for one in report.conversations:
        for note in one.notes:
            print_text(f"  {one.key}: {note}")


def _kinds(conversations: Sequence[ConversationReport]) -> str:
    counts = Counter(one.kind for one in conversations)
    names = [plural(counts[kind], kind) for kind in ("session", "branch", "sub-agent") if counts[kind]]
    return ", ".join(names) or "none"
