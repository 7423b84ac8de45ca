"""``lcm import``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lcm_plugin.cli.errors import complain
from lcm_plugin.cli.import_report import print_details, print_native, print_outcome
from lcm_plugin.cli.open_engine import reading, writing
from lcm_plugin.cli.options import AsJson, Database
from lcm_plugin.cli.output import print_json, progress, say, working

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine
    from lcm_plugin.interchange.importers.importing import SourceFile
    from lcm_plugin.interchange.importers.native import NativeReport
    from lcm_plugin.interchange.importers.report import FileReport


class OnBroken(StrEnum):
    """How lines that cannot be read are treated."""

    REFUSE = "refuse"
    SKIP = "skip"


_Files = Annotated[list[Path], typer.Argument(metavar="FILE", help="Files or folders of other tools.")]
_Format = Annotated[
    str, typer.Option("--format", "-f", metavar="NAME", help="The format, where the files do not show it.")
]
_Session = Annotated[
    str,
    typer.Option(metavar="KEY", help="Session key to keep it under; {id} in it is the source's session id."),
]
_Apply = Annotated[bool, typer.Option("--apply", help="Store it. Without this nothing is written.")]
_Broken = Annotated[OnBroken, typer.Option(help="What to do about lines that cannot be read.")]
_Keep = Annotated[
    bool,
    typer.Option("--keep-records", help="Keep copies of requests and listings that a host logs in bulk."),
]
_Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show each file, conversation and remark.")]


@dataclass(slots=True)
class _Wishes:
    """What the options ask for."""

    format_name: str
    session: str
    broken: OnBroken
    apply: bool
    keep_records: bool


_BULK = 4_000_000
"""Bytes of histories that take longer to count by merging than tiktoken's tables take to load."""


@dataclass(slots=True)
class _Outcome:
    """The reports of a run, and the files of folders that no format knows."""

    reports: list[FileReport] = field(default_factory=list)
    natives: list[NativeReport] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def import_(
    files: _Files,
    format_name: _Format = "auto",
    session: _Session = "",
    apply: _Apply = False,
    broken: _Broken = OnBroken.REFUSE,
    keep_records: _Keep = False,
    verbose: _Verbose = False,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Bring in histories of other tools, with their times, branches, forks, sub-agents and summaries.

    Says first what it would do; --apply does it. Files are only read. Running it again stores what is new since, and
    goes on where a killed run stopped. Abandoned branches of an edited chat become archived conversations of the
    same session. No model is called; what must be compacted is owed and done by `lcm worker` or the next turn.

    Examples: `lcm import ~/.claude/projects ~/.codex/sessions` · `lcm import conversations.zip --apply` ·
    `lcm import ~/.openclaw/lcm.db --apply` · `lcm import chat.jsonl --session agent:main:main --apply`
    """
    from lcm_plugin.interchange.importers.importing import check_broken
    from lcm_plugin.recall.catchup import index_all

    wishes = _Wishes(format_name, session, broken, apply, keep_records)
    with ExitStack() as stack:
        engine = stack.enter_context(writing(database, create=True)) if apply else _existing(stack, database)
        outcome = _run(files, wishes, engine)
        if apply and engine is not None:
            with working("filling the search index"):
                index_all(engine.store, engine.events)
    if as_json:
        print_json(
            {
                "applied": apply,
                "files": [one.as_dict() for one in outcome.natives]
                + [one.as_dict() for one in outcome.reports],
                "unknown_files": outcome.unknown,
            }
        )
    else:
        for native in outcome.natives:
            print_native(native, applied=apply)
        if verbose:
            print_details(outcome.reports, outcome.unknown)
        if outcome.reports or outcome.unknown:
            print_outcome(outcome.reports, outcome.unknown, applied=apply)
        if not apply:
            say("Nothing was written. Add --apply to store it.")
    if not apply:
        check_broken(outcome.reports, broken.value)


def _existing(stack: ExitStack, database: str | None) -> Engine | None:
    """The database that a dry run compares with; None when there is none yet."""
    from lcm_plugin.errors import StoreUnavailable

    try:
        return stack.enter_context(reading(database))
    except StoreUnavailable:
        return None


def _run(files: Sequence[Path], wishes: _Wishes, engine: Engine | None) -> _Outcome:
    from lcm_plugin.interchange.importers.importing import AUTO, find_sources
    from lcm_plugin.interchange.importers.native import NAME, native_exports

    own = list(files) if wishes.format_name == NAME else []
    if wishes.format_name == AUTO:
        own = native_exports(files)
    outcome = _Outcome([], [_native(path, engine if wishes.apply else None) for path in own])
    others = [str(path) for path in files if path not in own]
    if others:
        with working("finding files"):
            sources, outcome.unknown = find_sources(others, wishes.format_name, own)
        _count_fast(sources)
        outcome.reports = _foreign(sources, wishes, engine)
    return outcome


def _count_fast(sources: Sequence[SourceFile]) -> None:
    """Lets tiktoken count when there is so much that its tables pay."""
    from lcm_plugin.messages.merging import COUNTS

    if sum(source.path.stat().st_size for source in sources) > _BULK:
        COUNTS.use_tables()


def _foreign(sources: Sequence[SourceFile], wishes: _Wishes, engine: Engine | None) -> list[FileReport]:
    from lcm_plugin.interchange.importers.importing import check_broken, check_talk, survey_all
    from lcm_plugin.interchange.importers.report import Keys
    from lcm_plugin.messages.tokens import TokenCounter

    count = None if wishes.apply else TokenCounter().message
    with progress("looking", len(sources), "files") as update:
        surveyed = survey_all(
            sources, wishes.session, engine, count, keep_records=wishes.keep_records, progress=update
        )
    reports = [report for _, report in surveyed]
    # One key takes one session, over all files.
    Keys("", wishes.session).check(name for report in reports for name in report.names)
    check_talk(surveyed)
    if not wishes.apply or engine is None:
        return reports
    check_broken(reports, wishes.broken.value)
    return _load(engine, surveyed, wishes)


def _load(
    engine: Engine, surveyed: Sequence[tuple[SourceFile, FileReport]], wishes: _Wishes
) -> list[FileReport]:
    from lcm_plugin.interchange.importers.importing import load

    done: list[FileReport] = []
    before = reached = 0
    whole = sum(report.records for _, report in surveyed)
    with (
        _interruptible(
            lambda: (
                f"{reached:,} of {whole:,} records were read; what is stored stays, and the same command goes on"
            )
        ),
        progress("importing", whole, "records") as update,
    ):

        def advance(count: int) -> None:
            nonlocal reached
            reached = before + count
            update(reached)

        for source, report in surveyed:
            if report.has_talk:
                report = load(
                    engine, source, wishes.session, keep_records=wishes.keep_records, progress=advance
                )
            done.append(report)
            before += report.records
    return done


@contextmanager
def _interruptible(outcome: Callable[[], str]) -> Iterator[None]:
    """Ctrl-C prints the outcome."""
    try:
        yield
    except KeyboardInterrupt:
        complain(f"interrupted: {outcome()}")
        raise


def _native(path: Path, engine: Engine | None) -> NativeReport:
    from lcm_plugin.interchange.importers.native import load_native, look_over_native

    found = look_over_native(path)
    if engine is None:
        return found
    with (
        _interruptible(lambda: f"nothing of {path} was stored"),
        progress("importing", found.messages, "messages") as update,
    ):
        return load_native(engine, path, update)
