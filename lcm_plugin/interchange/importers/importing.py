"""An import as a whole: look the files over, then store what is new of them, then record what is owed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lcm_plugin.engine import Engine
from lcm_plugin.errors import InputError
from lcm_plugin.interchange.importers.branches import turn_away
from lcm_plugin.interchange.importers.formats import FORMATS, SUFFIXES, Format, check_file, format_of
from lcm_plugin.interchange.importers.keys import Keys
from lcm_plugin.interchange.importers.lane_writer import LaneWriter
from lcm_plugin.interchange.importers.packed import plain_name, unpacked
from lcm_plugin.interchange.importers.records import (
    Broken,
    Entry,
    Fold,
    Lane,
    Node,
    Record,
    Repeat,
    Standing,
)
from lcm_plugin.interchange.importers.report import FileReport, LaneReport
from lcm_plugin.interchange.importers.survey import Survey
from lcm_plugin.recall.catchup import index_all
from lcm_plugin.sessions.access import Access
from lcm_plugin.types import Message, Session

OnBroken = Literal["skip", "refuse"]
AUTO = "auto"
_MOST_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Source:
    """A file and the format it is read as."""

    path: Path
    format: Format

    def records(self) -> Iterator[Record]:
        """What the file holds, unpacked if it is compressed."""
        with unpacked(self.path) as plain:
            yield from self.format.read(plain)


def find_sources(paths: Sequence[str], format_name: str = AUTO) -> tuple[list[Source], list[str]]:
    """The files to import, and those of a folder that no format knows. Raises `InputError`.

    A folder stands for all files below it that a format knows.
    """
    if format_name != AUTO and format_name not in FORMATS:
        raise InputError(f"unknown format {format_name!r}: one of {AUTO}, {', '.join(FORMATS)}")
    sources: list[Source] = []
    unknown: list[str] = []
    for given in map(Path, paths):
        for path in _files_below(given) if given.is_dir() else [given]:
            found = format_of(path) if format_name == AUTO else _named(path, format_name)
            if found is not None:
                sources.append(Source(path, found))
            elif given.is_dir():
                unknown.append(str(path))
            else:
                raise InputError(
                    f"{path}: no format that can be imported; name one with --format ({', '.join(FORMATS)})"
                )
    if not sources:
        raise InputError(f"{', '.join(map(str, paths))}: nothing to import")
    return sources, unknown


def look_over(
    source: Source,
    template: str = "",
    engine: Engine | None = None,
    count: Callable[[Message], int] | None = None,
) -> FileReport:
    """What an import of a file would store, nothing is written.

    ``engine`` tells what is stored already, None that nothing is. ``count`` counts a message's tokens, which costs
    most; None leaves it out.
    """
    report = FileReport(str(source.path), source.format.name)
    keys = Keys(source.format.name, template)
    names: set[str] = set()
    survey: Survey | None = None
    for record in source.records():
        if isinstance(record, Lane):
            if survey:
                survey.close()
            names.add(record.name)
            survey = Survey(_report_of(report, keys, record), record, source.format.name, engine, count)
        elif not _told(record, report) and survey:
            survey.take(record)
    if survey:
        survey.close()
    keys.check(names)
    return report


def load(
    engine: Engine,
    source: Source,
    template: str = "",
    *,
    progress: Callable[[int], None] = lambda done: None,
) -> FileReport:
    """Stores what is new of a file. ``progress`` takes how many rows are done. Safe to repeat, also after a kill."""
    report = FileReport(str(source.path), source.format.name)
    keys = Keys(source.format.name, template)
    mains: dict[str, tuple[int, LaneReport]] = {}
    away: dict[str, set[int]] = {}
    done = 0
    default_at = source.path.stat().st_mtime_ns // 1_000_000
    for lane, records in _lanes(source.records(), report):
        one = _report_of(report, keys, lane)
        if engine.gate.access_of_key(one.key) is not Access.FULL:
            one.note(f"{one.key} is {engine.gate.access_of_key(one.key)}: nothing of it is stored")
            _pass_over(records)
            continue
        main, _ = mains.get(lane.name, (None, None))
        with LaneWriter(engine, source.format.name, lane, one, main, default_at) as writer:
            for record in records:
                _take(writer, record)
                progress(done + one.records)
        if not lane.branch and not lane.sub and writer.conversation_id is not None:
            mains[lane.name] = (writer.conversation_id, one)
        if writer.turned_away:
            away.setdefault(lane.name, set()).update(writer.turned_away)
        _record_debt(engine, one)
        done += one.records
        progress(done)
    for name, seqs in away.items():
        _turn_away(engine, *mains[name], seqs)
    return report


def check_broken(reports: Iterable[FileReport], on_broken: OnBroken) -> None:
    """Raises `InputError` naming the places that cannot be read, when they are to be refused."""
    if on_broken == "skip":
        return
    places = [report.place(one) for report in reports for one in report.broken]
    count = sum(report.broken_count for report in reports)
    if places:
        more = f" and {count - _MOST_SHOWN} more" if count > _MOST_SHOWN else ""
        raise InputError(f"{'; '.join(places[:_MOST_SHOWN])}{more}; --broken skip leaves them out")


def fill_index(engine: Engine, stop: Callable[[], bool] = lambda: False) -> int:
    """Makes what was stored findable at once; returns how many rows."""
    return index_all(engine.store, engine.events, stop=stop)


def _lanes(records: Iterator[Record], report: FileReport) -> Iterator[tuple[Lane, Iterator[Record]]]:
    """Each lane with its records, which must be taken before the next lane."""
    pending: list[Lane] = []

    def until_next() -> Iterator[Record]:
        for record in records:
            if isinstance(record, Lane):
                pending.append(record)
                return
            if not _told(record, report):
                yield record

    _pass_over(until_next())
    while pending:
        yield pending.pop(), until_next()


def _turn_away(engine: Engine, conversation_id: int, report: LaneReport, seqs: set[int]) -> None:
    with engine.store.write() as writer:
        count = turn_away(writer, conversation_id, seqs, engine.clock())
    if count:
        report.note(
            f"{count} messages left the context: the session went another way; they stay in its conversation"
        )


def _take(writer: LaneWriter, record: Record) -> None:
    if isinstance(record, Entry):
        writer.add(record)
    elif isinstance(record, Fold):
        writer.fold(record)
    elif isinstance(record, Node):
        writer.add_node(record)
    elif isinstance(record, Standing):
        writer.add_standing(record)


def _told(record: Record, report: FileReport) -> bool:
    """Notes what is no part of a lane."""
    if isinstance(record, Broken):
        report.add_broken(record)
    elif isinstance(record, Repeat):
        report.repeats[record.kind] += 1
    else:
        return False
    return True


def _report_of(report: FileReport, keys: Keys, lane: Lane) -> LaneReport:
    one = LaneReport.of(lane, keys.of(lane), keys.of_parent(lane))
    report.lanes.append(one)
    return one


def _record_debt(engine: Engine, report: LaneReport) -> None:
    """What the context now exceeds is owed, so that a worker or the next turn compacts it; no model is called."""
    if not report.new or report.conversation_id is None:
        return
    with engine.store.read() as reader:
        conversation = reader.conversation(report.conversation_id)
    if conversation is None or not conversation.active:
        return
    decision = engine.evaluate(Session(report.key))
    if decision.due:
        with engine.store.write() as writer:
            writer.request_compaction(report.conversation_id, str(decision.reason), None, engine.clock())


def _files_below(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if Path(plain_name(path)).suffix.lower() in SUFFIXES and path.is_file():
            yield path


def _named(path: Path, format_name: str) -> Format:
    check_file(path)
    return FORMATS[format_name]


def _pass_over(records: Iterator[Record]) -> None:
    for _ in records:
        pass
