"""Regular-expression search: newest first, over all rows, within a time."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from lcm_plugin.recall.match import Matches, Span
from lcm_plugin.recall.rank import Ranked
from lcm_plugin.recall.regex import compile_regex, required_condition
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.search import Filter, IndexUnusable, RowKind, SearchRow

SECONDS = 2.0
MAX_SPANS = 50


@dataclass(slots=True)
class RegexFound:
    """Matching rows, newest first. ``more``: there may be others. ``stopped_at``: where time ran out."""

    rows: list[Ranked] = field(default_factory=list)
    more: bool = False
    index_failed: bool = False
    stopped_at: SearchRow | None = None


class RegexSearch:
    """One pattern over any number of texts."""

    def __init__(self, pattern: str, seconds: float = SECONDS) -> None:
        self._regex: Any = compile_regex(pattern)
        self._condition = required_condition(pattern)
        self._deadline = time.monotonic() + seconds

    def rows(self, reader: Reader, kind: RowKind, rows: Filter, wanted: int) -> RegexFound:
        """The newest ``wanted`` rows that match."""
        found = RegexFound()
        try:
            self._collect(found, reader, kind, rows, wanted)
        except IndexUnusable:
            self._condition = None
            found = RegexFound(index_failed=True)
            self._collect(found, reader, kind, rows, wanted)
        return found

    def spans(self, text: str) -> tuple[Span, ...]:
        """Where the pattern matches, leaving out empty matches unless there are no others."""
        spans: list[Span] = []
        try:
            for match in self._regex.finditer(text):
                spans.append(match.span())
                if len(spans) == MAX_SPANS:
                    break
        except UnicodeEncodeError:
            return self.spans(text.encode("utf-8", "replace").decode())
        return tuple(span for span in spans if span[0] < span[1]) or tuple(spans[:1])

    @property
    def out_of_time(self) -> bool:
        """Whether the search's time is over."""
        return time.monotonic() > self._deadline

    def _collect(self, found: RegexFound, reader: Reader, kind: RowKind, rows: Filter, wanted: int) -> None:
        for row in reader.scan(kind, rows, self._condition):
            if spans := self.spans(row.text):
                if len(found.rows) == wanted:
                    found.more = True
                    return
                found.rows.append(Ranked(row, Matches((spans,)), 0.0))
            if self.out_of_time:
                found.more, found.stopped_at = True, row
                return
