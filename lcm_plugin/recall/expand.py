"""``lcm_expand``: from a summary down to what it was made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lcm_plugin.config import LcmConfig
from lcm_plugin.errors import InputError
from lcm_plugin.files.externalise import PayloadStore
from lcm_plugin.recall.describe import find_message, find_summary, message_view, summary_view
from lcm_plugin.recall.fitting import Count, Items, cost_of
from lcm_plugin.recall.query import parse_query
from lcm_plugin.recall.scope import Grant, Scope, parse_refs
from lcm_plugin.recall.textsearch import TextSearch
from lcm_plugin.recall.tools import ExpandArguments
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import StoredMessage, Summary
from lcm_plugin.store.search import Filter

FOUND_SUMMARIES = 4
FOUND_MESSAGES = 20
PAGE = 200
# The largest offset there is room for.
MOST_ENTRIES = 999_999


@dataclass(frozen=True, slots=True)
class _Entry:
    """One node of the walk, in reading order."""

    summary: Summary | None = None
    message: StoredMessage | None = None
    closed: bool = False

    @property
    def ref(self) -> str:
        """Its id."""
        return self.summary.summary_id if self.summary else self.message.head.ref if self.message else ""

    @property
    def tokens(self) -> int:
        """The tokens of its whole text."""
        return self.summary.tokens if self.summary else self.message.head.tokens if self.message else 0


class Expander:
    """Walks within one scope and one read transaction."""

    def __init__(
        self, reader: Reader, scope: Scope, payloads: PayloadStore, count: Count, config: LcmConfig
    ) -> None:
        self._reader = reader
        self._scope = scope
        self._count = count
        self._zone = config.timezone
        self._max_tokens = config.max_expand_tokens

    def expand(self, asked: ExpandArguments, grant: Grant | None = None) -> dict[str, Any]:
        """The walk's entries from ``offset`` on, as many as fit the cap.

        A message that is larger than the cap is cut and says with which offset `lcm_describe` goes on.
        """
        most = grant.token_cap if grant else self._max_tokens
        cap = min(asked.token_cap or most, most)
        depth = min(asked.depth, grant.max_depth) if grant else asked.depth
        entries = self._walk_all(self._starts(asked), depth, asked.include_messages)
        items = Items(cap - cost_of(_answer([], cap, MOST_ENTRIES, ("",)), self._count), self._count)
        closed: list[str] = []
        for position, entry in enumerate(entries):
            if position < asked.offset:
                continue
            beside = cost_of([entry.ref], self._count) if entry.closed else 0
            if not items.add(partial(self._view, entry), entry.tokens, beside):
                return self._within_cap(_answer(items.views, items.used, position, closed), cap)
            if entry.closed:
                closed.append(entry.ref)
        return self._within_cap(_answer(items.views, items.used, None, closed), cap)

    def _within_cap(self, answer: dict[str, Any], cap: int) -> dict[str, Any]:
        """Under the least caps the entries alone say what to go on with: each has its id."""
        if cost_of(answer, self._count) > cap:
            answer.pop("continue_with", None)
        return answer

    def _starts(self, asked: ExpandArguments) -> list[Summary | StoredMessage]:
        if bool(asked.summary_ids) == bool(asked.query):
            raise InputError("lcm_expand: give either summary_ids or query")
        if asked.query:
            return list(self.find(asked.query))
        starts: list[Summary | StoredMessage] = []
        for ref in parse_refs(asked.summary_ids):
            if ref.kind == "message":
                starts.append(find_message(self._reader, self._scope, ref))
            else:
                starts.append(find_summary(self._reader, self._scope, ref))
        return starts

    def find(self, text: str) -> list[Summary]:
        """The summaries that best fit a query, and those that cover the messages that do."""
        if not self._scope.conversation_ids:
            return []
        query, rows = parse_query(text), Filter(self._scope.filter_ids)
        if not query.units:
            return []
        own = TextSearch(self._reader, "summary", query, rows).by_relevance(FOUND_SUMMARIES)
        below = TextSearch(self._reader, "message", query, rows).by_relevance(FOUND_MESSAGES)
        messages = [one.row.row_id for one in below.rows[:FOUND_MESSAGES]]
        covered = self._reader.covering_leaf(messages)
        ids = [covered[number] for number in messages if number in covered]
        ids += [one.row.ref for one in own.rows[:FOUND_SUMMARIES]]
        wanted = list(dict.fromkeys(ids))[:FOUND_SUMMARIES]
        found = self._reader.summaries(wanted)
        return [found[one] for one in wanted if one in found]

    def _walk_all(
        self, starts: Sequence[Summary | StoredMessage], depth: int, with_messages: bool
    ) -> Iterator[_Entry]:
        seen: set[str] = set()
        for start in starts:
            if isinstance(start, StoredMessage):
                yield _Entry(message=start)
            else:
                yield from self._walk(start, depth, with_messages, seen)

    def _walk(self, summary: Summary, depth: int, with_messages: bool, seen: set[str]) -> Iterator[_Entry]:
        if summary.summary_id in seen:
            return
        seen.add(summary.summary_id)
        closed = depth == 0 or (summary.depth == 0 and not with_messages)
        yield _Entry(summary=summary, closed=closed)
        if closed:
            return
        if summary.depth == 0:
            numbers = self._reader.source_messages(summary.summary_id)
            for start in range(0, len(numbers), PAGE):
                page = numbers[start : start + PAGE]
                stored = self._reader.messages_by_id(page)
                yield from (_Entry(message=stored[number]) for number in page if number in stored)
            return
        below = self._reader.source_summaries(summary.summary_id)
        found = self._reader.summaries(below)
        for one in below:
            yield from self._walk(found[one], depth - 1, with_messages, seen)

    def _view(self, entry: _Entry, room: int) -> dict[str, Any]:
        """An entry as far as it fits; one that is cut names the call that reads on."""
        view = self._within(entry, room)
        if "truncated" not in view:
            return view
        # Naming that call is longer than a plain offset: an id takes as many tokens as its digits happen to.
        longer = cost_of(_read_on(entry, MOST_ENTRIES), self._count) - cost_of(_PLAIN_OFFSET, self._count)
        view = self._within(entry, room - longer)
        del view["truncated"]
        view |= _read_on(entry, view.pop("next_offset"))
        # An id can take so many tokens that under the least cap it leaves no room for what only describes it.
        for key in ("kind", "depth"):
            if cost_of(view, self._count) > room:
                view.pop(key, None)
        return view

    def _within(self, entry: _Entry, room: int) -> dict[str, Any]:
        if entry.summary is not None:
            return summary_view(self._reader, entry.summary, self._zone, 0, room, self._count)
        assert entry.message is not None
        return message_view(entry.message, self._zone, 0, room, self._count)


def _read_on(entry: _Entry, offset: int) -> dict[str, Any]:
    return {"read_on": {"tool": "lcm_describe", "id": entry.ref, "offset": offset}}


_PLAIN_OFFSET = {"truncated": True, "next_offset": 0}


def _answer(
    items: list[dict[str, Any]], tokens: int, next_offset: int | None, closed: Sequence[str]
) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "items": items,
        "estimated_tokens": tokens,
        "truncated": next_offset is not None,
    }
    if next_offset is not None:
        answer["next_offset"] = next_offset
    if closed:
        answer["continue_with"] = list(closed)
    return answer
