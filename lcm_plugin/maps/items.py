"""Where the items of a map come from: messages, summaries, files, or the answers of an earlier map."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from lcm_plugin.errors import InputError
from lcm_plugin.maps.splitting import Split, pieces, split_of
from lcm_plugin.recall.describe import find_file, find_message, find_summary
from lcm_plugin.recall.filesearch import decode_text
from lcm_plugin.recall.scope import Ref, Scope, parse_refs
from lcm_plugin.store.maps.records import MapRecord
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import Summary
from lcm_plugin.store.search import Filter, SearchRow

# An id or a place, and the text.
Item: TypeAlias = tuple[str, str]
_PAGE = 500


@dataclass(frozen=True, slots=True)
class ItemReader:
    """Reads items from a store, as far as a scope allows. ``find_map`` finds a map that the caller may read."""

    reader: Reader
    scope: Scope
    read_file: Callable[[Reader, str], bytes]
    find_map: Callable[[Reader, str], MapRecord]

    def named(self, ids: Sequence[str], split: Split | None) -> Iterator[Item]:
        """What ids stand for, in their order. Raises `NotFound` for one out of scope."""
        for text in ids:
            if text.strip().startswith("map_"):
                yield from self._answers(self.find_map(self.reader, text.strip()))
                continue
            for ref in parse_refs(text):
                yield from self._of(ref, split)

    def filtered(self, rows: Filter) -> Iterator[Item]:
        """All messages that pass a filter and say something, oldest first. Hidden and taken-back ones are left out."""
        numbers = sorted(row.row_id for row in self.reader.scan("message", rows))
        for start in range(0, len(numbers), _PAGE):
            page = numbers[start : start + _PAGE]
            stored = self.reader.messages_by_id(page)
            yield from self._messages([number for number in page if not stored[number].head.hidden])

    def listed(self, refs: Sequence[str]) -> Iterator[Item]:
        """Messages by their ids, in the order in which they were said."""
        yield from self._messages(sorted(Ref("message", ref).message_id for ref in refs))

    def _of(self, ref: Ref, split: Split | None) -> Iterator[Item]:
        if ref.kind == "message":
            find_message(self.reader, self.scope, ref)
            yield from self._messages([ref.message_id])
        elif ref.kind == "summary":
            yield from self._messages(self._below(find_summary(self.reader, self.scope, ref)))
        else:
            record = find_file(self.reader, self.scope, ref)
            text = decode_text(self.read_file(self.reader, ref.text))
            if text is None:
                raise InputError(f"{ref.text} is not text, so it cannot be split into items")
            name = record.name or ref.text
            how = split or split_of(name)
            for place, piece in pieces(io.StringIO(text, newline=""), how, name):
                yield f"{ref.text} {place}", piece

    def _below(self, summary: Summary) -> list[int]:
        """The messages that a summary covers, however deep."""
        found, waiting, seen = list[int](), [summary.summary_id], {summary.summary_id}
        while waiting:
            current = waiting.pop()
            found += self.reader.source_messages(current)
            below = [one for one in self.reader.source_summaries(current) if one not in seen]
            seen.update(below)
            waiting += below
        return sorted(found)

    def _messages(self, numbers: Sequence[int]) -> Iterator[Item]:
        for start in range(0, len(numbers), _PAGE):
            page = numbers[start : start + _PAGE]
            rows = self.reader.search_rows("message", page)
            for number in page:
                row = rows.get(number)
                if row is not None and row.conversation_id in self.scope and row.text.strip():
                    yield row.ref, as_line(row)

    def _answers(self, record: MapRecord) -> Iterator[Item]:
        after = 0
        while page := self.reader.map_items(record.map_id, after=after, limit=_PAGE, state="done"):
            for item in page:
                yield f"{record.map_id} {item.place}", item.answer or "null"
            after = page[-1].place


def as_line(row: SearchRow) -> str:
    """A message as an item: who, then the words."""
    return f"{row.sender or row.role}: {row.text}"
