"""Imports files: surveys them, stores the new rows, and records due compaction."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lcm_plugin.engine import Engine
from lcm_plugin.errors import InputError
from lcm_plugin.interchange.importers.branches import take_back
from lcm_plugin.interchange.importers.conversation_writer import ConversationWriter
from lcm_plugin.interchange.importers.formats import (
    FORMATS,
    SUFFIXES,
    Format,
    check_file,
    format_of,
    why_unknown,
)
from lcm_plugin.interchange.importers.injected import holds_injected, is_injected, without_injected
from lcm_plugin.interchange.importers.packed import plain_name, unpacked
from lcm_plugin.interchange.importers.records import (
    Broken,
    ConversationRecord,
    Entry,
    Record,
    Repeat,
    SourceConversation,
    Unfinished,
)
from lcm_plugin.interchange.importers.report import ConversationReport, FileReport, Keys
from lcm_plugin.interchange.importers.sources.opencode import belongs_to_session
from lcm_plugin.interchange.importers.survey import Survey
from lcm_plugin.sessions.access import Access
from lcm_plugin.store.records import MessageHead
from lcm_plugin.text import plural
from lcm_plugin.types import Message, Session

OnBroken = Literal["skip", "refuse"]
AUTO = "auto"
_MOST_SHOWN = 5


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file and the format it is read as. ``named`` says that it was given, and not found in a folder."""

    path: Path
    format: Format
    named: bool = True

    def records(self) -> Iterator[Record]:
        """The file's records, unpacked if it is compressed."""
        if self.format.unpacks:
            yield from self.format.read(self.path)
            return
        with unpacked(self.path) as plain:
            yield from self.format.read(plain)


def find_sources(
    paths: Sequence[str], format_name: str = AUTO, others: Collection[Path] = ()
) -> tuple[list[SourceFile], list[str]]:
    """The files to import, and those of a folder that no format knows. Raises `InputError`.

    A folder stands for all files below it that a format knows, but for the ``others``.
    """
    if format_name != AUTO and format_name not in FORMATS:
        raise InputError(f"unknown format {format_name!r}: one of {AUTO}, {', '.join(FORMATS)}")
    sources: list[SourceFile] = []
    unknown: list[str] = []
    for given in map(Path, paths):
        for path in files_below(given) if given.is_dir() else [given]:
            if path in others:
                continue
            found = format_of(path) if format_name == AUTO else _named(path, format_name)
            if found is not None:
                sources.append(SourceFile(path, found, named=not given.is_dir()))
            elif given.is_dir():
                unknown.append(str(path))
            else:
                why = why_unknown(path) or f"name one with --format ({', '.join(FORMATS)})"
                raise InputError(f"{path}: no format that can be imported; {why}")
    if not sources and not others:
        raise InputError(f"{', '.join(map(str, paths))}: nothing to import")
    return sources, unknown


def survey_all(
    sources: Sequence[SourceFile],
    template: str = "",
    engine: Engine | None = None,
    count: Callable[[Message], int] | None = None,
    *,
    keep_records: bool = False,
    progress: Callable[[int], None] = lambda done: None,
) -> list[tuple[SourceFile, FileReport]]:
    """The files in the order in which `load` is to take them, forks after what they left, and the report of each.

    Nothing is written; see `look_over`. ``progress`` takes how many files are done.
    """
    found = []
    for number, source in enumerate(sources, 1):
        found.append((source, look_over(source, template, engine, count, keep_records=keep_records)))
        progress(number)
    ordered: list[tuple[SourceFile, FileReport]] = []
    waiting, before = found, set[str]()
    while waiting:
        to_come = {key for _, report in waiting for key in _main_keys(report)} - before
        ready: list[tuple[SourceFile, FileReport]] = []
        late: list[tuple[SourceFile, FileReport]] = []
        for pair in waiting:
            left = _origins(pair[1]) - _main_keys(pair[1])
            (late if left & to_come else ready).append(pair)
        # Of sessions that begin alike, where none is said to be the copy, the first is imported whole.
        ready, waiting = (ready, late) if ready else (late[:1], late[1:])
        for source, report in ready:
            if _origins(report) & before:
                report = look_over(source, template, engine, count, before, keep_records=keep_records)
            ordered.append((source, report))
        before |= {key for _, report in ready for key in _main_keys(report)}
    return ordered


def look_over(
    source: SourceFile,
    template: str = "",
    engine: Engine | None = None,
    count: Callable[[Message], int] | None = None,
    imported_before: Set[str] = frozenset(),
    *,
    keep_records: bool = False,
) -> FileReport:
    """The report of an import that writes nothing.

    ``engine`` finds out what is stored already; None means that nothing is. ``count`` counts a message's tokens,
    which costs most; None leaves it out. ``imported_before`` are the keys that an import would have stored by then.
    """
    report = FileReport(str(source.path), source.format.name)
    keys = Keys(source.format.name, template)
    for conversation, records in _conversations(source.records(), report, keep_records):
        before = imported_before | _main_keys(report)
        one = report.begin(conversation, keys)
        survey = Survey(one, conversation, source.format.name, engine, count, before - {one.key})
        for record in records:
            survey.take(record)
        survey.close()
    keys.check(report.names)
    return report


def load(
    engine: Engine,
    source: SourceFile,
    template: str = "",
    *,
    keep_records: bool = False,
    progress: Callable[[int], None] = lambda done: None,
) -> FileReport:
    """Stores the new rows of a file. Safe to repeat, also after a kill.

    ``keep_records`` keeps records that hosts write in bulk. ``progress`` takes how many rows are done.
    """
    report = FileReport(str(source.path), source.format.name)
    keys = Keys(source.format.name, template)
    mains: dict[str, tuple[int, ConversationReport]] = {}
    abandoned: dict[str, dict[int, MessageHead]] = {}
    done = 0
    default_at = source.path.stat().st_mtime_ns // 1_000_000
    for conversation, records in _conversations(source.records(), report, keep_records):
        name, one = f"{conversation.name}@{conversation.since}", report.begin(conversation, keys)
        access = engine.sessions.access_of_key(one.key)
        if access is not Access.FULL:
            one.note(f"{one.key} is {access}: nothing of it is stored")
            continue
        main, _ = mains.get(name, (None, None))
        with ConversationWriter(engine, source.format.name, conversation, one, main, default_at) as writer:
            for record in records:
                writer.add(record)
                progress(done + one.records)
        if not conversation.branch and not conversation.sub and writer.conversation_id is not None:
            mains[name] = (writer.conversation_id, one)
        if writer.abandoned:
            abandoned.setdefault(name, {}).update(writer.abandoned)
        _record_debt(engine, one)
        done += one.records
        progress(done)
    for name, heads in abandoned.items():
        _take_back(engine, *mains[name], list(heads.values()))
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


def check_talk(surveyed: Iterable[tuple[SourceFile, FileReport]]) -> None:
    """Raises `InputError` for a file that was given and holds no message: its format may be another one."""
    for source, report in surveyed:
        if source.named and not report.has_talk:
            raise InputError(f"{report.path}: {report.why_left_out}; nothing of it is stored")


def _conversations(
    records: Iterator[Record], report: FileReport, keep_records: bool
) -> Iterator[tuple[SourceConversation, Iterator[ConversationRecord]]]:
    """Each conversation with its records; those that the caller leaves are skipped."""
    pending: list[SourceConversation] = []

    def until_next() -> Iterator[ConversationRecord]:
        for record in records:
            if isinstance(record, SourceConversation):
                pending.append(record)
                return
            if isinstance(record, Broken):
                report.add_broken(record)
            elif isinstance(record, Unfinished):
                report.unfinished = record.line
            elif isinstance(record, Repeat):
                report.repeats[record.kind] += 1
            elif isinstance(record, Entry) and is_injected(record):
                report.repeats["text of ours"] += 1
            elif isinstance(record, Entry) and holds_injected(record):
                yield without_injected(record)
            elif isinstance(record, Entry) and record.bulk and not keep_records:
                report.dropped[record.bulk] += 1
            else:
                yield record

    rest = until_next()
    while True:
        deque(rest, maxlen=0)
        if not pending:
            return
        rest = until_next()
        yield pending.pop(), rest


def _main_keys(report: FileReport) -> set[str]:
    return {one.key for one in report.conversations if one.kind != "branch"}


def _origins(report: FileReport) -> set[str]:
    """The keys of the sessions that the file's forks left."""
    return {key for one in report.conversations for key in one.forked_from}


def _take_back(
    engine: Engine, conversation_id: int, report: ConversationReport, heads: Sequence[MessageHead]
) -> None:
    with engine.store.write() as writer:
        count = take_back(engine, writer, conversation_id, heads, engine.clock())
    if count:
        report.note(
            f"{plural(count, 'message')} taken back: the session went another way; they stay in its conversation"
        )


def _record_debt(engine: Engine, report: ConversationReport) -> None:
    """Records that a compaction is due, for a worker or the next turn; no model is called."""
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


def files_below(folder: Path) -> Iterator[Path]:
    """The files below a folder that a format may know, by their names."""
    for path in sorted(folder.rglob("*")):
        if (
            Path(plain_name(path)).suffix.lower() in SUFFIXES
            and path.is_file()
            and not belongs_to_session(path)
        ):
            yield path


def _named(path: Path, format_name: str) -> Format:
    check_file(path)
    return FORMATS[format_name]
