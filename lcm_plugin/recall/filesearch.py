"""Search in payloads that were moved to files, line by line."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from lcm_plugin.errors import LcmError
from lcm_plugin.recall.match import NO_MATCH, Matcher, Matches
from lcm_plugin.recall.query import ParsedQuery
from lcm_plugin.recall.regex import RegexSearch
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import FileRecord

MAX_CHARS = 16_000_000
MAX_LINES_PER_FILE = 20
PAGE = 200

ReadFile = Callable[[Reader, str], bytes]


@dataclass(frozen=True, slots=True)
class LineHit:
    """A line of a file that matches. ``line`` counts from 1; ``score`` is the number of units it holds."""

    record: FileRecord
    line: int
    text: str
    matches: Matches
    score: int


@dataclass(slots=True)
class FilesFound:
    """Hits, and what could not be searched: binary files, files cut at a size, files that are gone."""

    hits: list[LineHit] = field(default_factory=list)
    binary: list[str] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    not_searched: int = 0

    @property
    def out_of_time(self) -> bool:
        """Whether files were left out because the time was over."""
        return self.not_searched > 0


def files_in(reader: Reader, conversation_ids: Iterable[int]) -> list[FileRecord]:
    """The payload records of conversations, the newest first."""
    records: list[FileRecord] = []
    for conversation_id in conversation_ids:
        after = ""
        while page := reader.files(conversation_id, after=after, limit=PAGE):
            records += page
            after = page[-1].file_id
    return sorted(records, key=lambda record: (-record.created_at, record.file_id))


def search_files(
    reader: Reader,
    records: Sequence[FileRecord],
    read_file: ReadFile,
    what: ParsedQuery | RegexSearch,
    wanted: int,
    *,
    seconds: float | None = None,
) -> FilesFound:
    """Lines that match, file by file; with a query the lines that hold most of it come first.

    After ``seconds`` no further file is opened.
    """
    end = None if seconds is None else time.monotonic() + seconds
    find = _regex_finder(what) if isinstance(what, RegexSearch) else _query_finder(what)
    found = FilesFound()
    for index, record in enumerate(records):
        late = end is not None and time.monotonic() >= end
        if late or (isinstance(what, RegexSearch) and what.out_of_time):
            found.not_searched = len(records) - index
            break
        text = _text_of(reader, record, read_file, found)
        if text is not None:
            found.hits += _matching_lines(record, text, find)
        if isinstance(what, RegexSearch) and len(found.hits) >= wanted:
            break
    if not isinstance(what, RegexSearch):
        found.hits.sort(key=lambda hit: -hit.score)
    return found


def decode_text(data: bytes) -> str | None:
    """A payload as text, or None when it is not text."""
    if b"\x00" in data[:4_096]:
        return None
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None


def _text_of(reader: Reader, record: FileRecord, read_file: ReadFile, found: FilesFound) -> str | None:
    try:
        text = decode_text(read_file(reader, record.file_id))
    except LcmError:
        found.missing.append(record.file_id)
        return None
    if text is None:
        found.binary.append(record.file_id)
        return None
    if len(text) > MAX_CHARS:
        found.cut.append(record.file_id)
    return text[:MAX_CHARS]


def _matching_lines(
    record: FileRecord, text: str, find: Callable[[str], tuple[Matches, int]]
) -> list[LineHit]:
    hits: list[LineHit] = []
    if not find(text)[1]:
        return hits
    for number, line in enumerate(text.splitlines(), 1):
        matches, score = find(line)
        if score:
            hits.append(LineHit(record, number, line, matches, score))
    hits.sort(key=lambda hit: -hit.score)
    return hits[:MAX_LINES_PER_FILE]


def _regex_finder(search: RegexSearch) -> Callable[[str], tuple[Matches, int]]:
    def find(line: str) -> tuple[Matches, int]:
        spans = search.spans(line)
        return Matches((spans,)), int(bool(spans))

    return find


def _query_finder(query: ParsedQuery) -> Callable[[str], tuple[Matches, int]]:
    matcher = Matcher(query)

    def find(line: str) -> tuple[Matches, int]:
        matches = matcher.find(line)
        if not matcher.accepts(matches):
            return NO_MATCH, 0
        return matches, sum(bool(spans) for spans in matches.spans)

    return find
