"""Hits as a model reads them, and the cursor with which a search goes on."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any, TypeAlias

from lcm_plugin.errors import InputError
from lcm_plugin.recall.filesearch import LineHit
from lcm_plugin.recall.fitting import Count, View, cost_of, fitting_head
from lcm_plugin.recall.match import make_snippet, shorten
from lcm_plugin.recall.rank import Ranked
from lcm_plugin.recall.times import format_instant
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.search import RowKind, SearchRow

# What an answer may cost: so many tokens a hit, and at least so many.
TOKENS_PER_HIT, LEAST_TOKENS = 150, 1_500
# A hit with the shortest piece of its text.
LEAST_HIT_TOKENS = 120
# The share of it that hits may take before the messages round them are added: an answer stands in a hit far more often
# than beside one.
HITS_SHARE = 0.85
# How much of a text a hit shows, in characters, and how exactly the widest that fits is looked for.
LEAST_WIDTH, MOST_WIDTH, WIDTH_STEP = 40, 1_600, 16
NEIGHBOUR_CHARS = 240
# How far neighbours are looked for past records that nobody said.
REACH = 4
LINE_CHARS = 300
# What a hit keeps when there is room for nothing else.
_ESSENTIAL = ("id", "kind", "role", "time", "depth", "snippet")
_CURSOR_VERSION = "2"
_OTHERS = "w"
_CURSOR_OF_OTHERS = re.compile(rf"{_CURSOR_VERSION}-[0-9a-f]+{_OTHERS}-")
_CURSOR_KINDS = {"m": "message", "s": "summary", "f": "file"}
_CURSOR_PLACE = re.compile(r"([msf])(\d{1,18})\.(\d{1,18})")

Hit: TypeAlias = tuple[RowKind, Ranked]


@dataclass(frozen=True, slots=True)
class Page:
    """Writes the hits of one page so that they fit ``room`` tokens as sent.

    ``own``: the conversation of the caller; ``everywhere``: the caller asked for others too, so that hits name theirs.
    ``shows`` returns which neighbours may be shown.
    """

    reader: Reader
    context: int
    zone: str
    count: Count
    room: int
    own: int | None
    everywhere: bool
    shows: Callable[[SearchRow], bool]

    def write(self, hits: Sequence[Hit], others: Sequence[View]) -> tuple[list[View], list[View]]:
        """Views of the hits and those of ``others`` that fit, as many as do, and the messages round hits in what is left.

        At least one is returned when there are any.
        """
        room = self.room - self._tokens(others)
        written = self._as_wide_as_fits(hits, room if others else self.room)
        while len(written) + len(others) > 1 and room < self._tokens(written):
            if others:
                others = others[:-1]
                room = self.room - self._tokens(others)
            else:
                written = written[:-1]
        if self.context and written:
            self._add_neighbours(hits[: len(written)], written, room - self._tokens(written))
        return written, list(others)

    def _as_wide_as_fits(self, hits: Sequence[Hit], room: int) -> list[View]:
        """The hits with the widest pieces of their texts that fit, wider the better a hit is."""
        if not hits:
            return []
        notes = self._notes(hits)
        room = int(room * (HITS_SHARE if self.context else 1.0))

        def written(width: int) -> list[View]:
            placed = enumerate(zip(hits, notes, strict=True))
            return [
                self._hit(kind, one, _width_at(place, width)) | note for place, ((kind, one), note) in placed
            ]

        best = written(LEAST_WIDTH)
        if self._tokens(best) > room:
            each = room // len(hits)
            return [fitting_head(hit, _ESSENTIAL, 2 * each, self.count) for hit in best]
        longest = min(MOST_WIDTH, max(len(one.row.text) for _, one in hits))
        narrow, wide = LEAST_WIDTH, ceil(longest * sqrt(len(hits))) + 1
        tried = wide - 1
        while wide - narrow > WIDTH_STEP:
            views = written(tried)
            if self._tokens(views) <= room:
                narrow, best = tried, views
            else:
                wide = tried
            tried = (narrow + wide) // 2
        return best

    def _hit(self, kind: RowKind, ranked: Ranked, width: int) -> dict[str, Any]:
        row = ranked.row
        snippet = make_snippet(row.text, ranked.matches, width)
        when = format_instant(row.at, self.zone)
        hit: dict[str, Any] = {"id": row.ref, "kind": kind, "role": row.role, "time": when}
        if row.sender:
            hit["sender"] = row.sender
        hit["snippet"] = snippet
        if len(row.text) > width:
            hit["tokens"] = row.tokens
        if kind == "summary":
            hit |= {"depth": row.depth, "until": format_instant(row.until, self.zone)}
        if ranked.nearby:
            hit["match"] = "nearby: its neighbours hold the words"
        return hit

    def _notes(self, hits: Sequence[Hit]) -> list[View]:
        """What each hit says beside its text: the summary over it, that it was taken back, and its conversation.

        A summary is named by the best hit below it, conversations only where a hit is not of the caller's own.
        """
        messages = [one.row.row_id for kind, one in hits if kind == "message"]
        covered, taken_back = self.reader.covering_leaf(messages), self.reader.withdrawn_among(messages)
        foreign = self.everywhere or any(one.row.conversation_id != self.own for _, one in hits)
        keys = self._session_keys(hits) if foreign else {}
        named: set[str] = set()
        notes = []
        for kind, one in hits:
            row = one.row
            note: View = {}
            if foreign:
                note = {
                    "conversation_id": row.conversation_id,
                    "session_key": keys.get(row.conversation_id, ""),
                }
            leaf = covered.get(row.row_id) if kind == "message" else None
            if leaf and leaf not in named:
                named.add(leaf)
                note["summary_id"] = leaf
            if kind == "message" and row.row_id in taken_back:
                note["taken_back"] = True
            notes.append(note)
        return notes

    def _session_keys(self, hits: Sequence[Hit]) -> dict[int, str]:
        ids = dict.fromkeys(one.row.conversation_id for _, one in hits)
        found = ((number, self.reader.conversation(number)) for number in ids)
        return {number: conversation.session_key for number, conversation in found if conversation}

    def _add_neighbours(self, hits: Sequence[Hit], written: Sequence[dict[str, Any]], room: int) -> None:
        """The messages round each hit that have room, best hit first, each message once."""
        rows = [one.row for kind, one in hits if kind == "message"]
        near = self._around(rows)
        shown = {row.ref for row in rows}
        by_ref = {hit["id"]: hit for hit in written}
        for row in rows:
            for name, side in self._sides(row, near):
                neighbours = [_neighbour(one) for one in side if one.ref not in shown]
                cost = cost_of({name: neighbours}, self.count) + 1 if neighbours else 0
                if neighbours and cost <= room:
                    room -= cost
                    by_ref[row.ref][name] = neighbours
                    shown |= {one["id"] for one in neighbours}

    def _sides(
        self, row: SearchRow, near: Mapping[int, Sequence[SearchRow]]
    ) -> Iterator[tuple[str, Sequence[SearchRow]]]:
        others = near.get(row.conversation_id, ())
        before = [one for one in others if row.position - self._reach <= one.position < row.position]
        after = [one for one in others if row.position < one.position <= row.position + self._reach]
        yield "before", before[-self.context :]
        yield "after", after[: self.context]

    def _around(self, rows: Sequence[SearchRow]) -> dict[int, list[SearchRow]]:
        stretches = [
            (row.conversation_id, row.position - self._reach, row.position + self._reach) for row in rows
        ]
        near: dict[int, list[SearchRow]] = {}
        for row in self.reader.rows_within(stretches):
            if row.text.strip() and self.shows(row):
                near.setdefault(row.conversation_id, []).append(row)
        return near

    @property
    def _reach(self) -> int:
        return self.context + REACH

    def _tokens(self, value: Sequence[Any]) -> int:
        return cost_of(value, self.count) if value else 0


def file_hit(hit: LineHit, zone: str) -> dict[str, Any]:
    """A line of a file, or a row of a map, as a hit."""
    return {
        "id": hit.record.file_id,
        "kind": hit.record.file_id.partition("_")[0],
        "conversation_id": hit.record.conversation_id,
        "time": format_instant(hit.record.created_at, zone),
        "name": hit.record.name,
        "line": hit.line,
        "snippet": make_snippet(hit.text, hit.matches, LINE_CHARS),
    }


def _width_at(place: int, width: int) -> int:
    """What the hit at a place shows when the first one shows ``width``: half of it at the fourth, a third at the ninth."""
    return max(LEAST_WIDTH, min(MOST_WIDTH, int(width / sqrt(place + 1))))


def _neighbour(row: SearchRow) -> dict[str, Any]:
    speaker = {"sender": row.sender} if row.sender else {"role": row.role}
    return {"id": row.ref, **speaker, "text": shorten(row.text, NEIGHBOUR_CHARS)}


@dataclass(frozen=True, slots=True)
class Cursor:
    """``newest``: the highest row id per kind at the first page. ``position``: where each kind goes on."""

    search: str
    newest: Mapping[str, int]
    position: Mapping[str, int]

    def encode(self) -> str:
        """The cursor as a short text: it stands in every answer that goes on."""
        places = (f"{kind[0]}{self.newest.get(kind, 0)}.{at}" for kind, at in self.position.items())
        return "-".join((_CURSOR_VERSION, self.search, *places))


def fingerprint(search: Mapping[str, Any]) -> str:
    """A short hash of what a search asks for."""
    raw = json.dumps(search, sort_keys=True, default=str).encode("utf-8", "surrogatepass")
    return hashlib.sha256(raw).hexdigest()[:8]


def of_others(search: str) -> str:
    """The fingerprint of the same search when it also looked into other sessions."""
    return search + _OTHERS


def is_of_others(cursor: str | None) -> bool:
    """Whether a cursor belongs to a search that also looked into other sessions."""
    return cursor is not None and _CURSOR_OF_OTHERS.match(cursor) is not None


def decode(text: str, search: str) -> Cursor:
    """The cursor of a text; raises `InputError` when it is none or belongs to another search."""
    version, _, rest = text.partition("-")
    owner, *places = rest.split("-")
    read = [_CURSOR_PLACE.fullmatch(place) for place in places]
    if version != _CURSOR_VERSION or not places or not all(read):
        raise InputError("cursor is not one that lcm_grep returned")
    if owner != search:
        raise InputError("cursor belongs to another search; repeat its arguments or leave the cursor out")
    found = [(_CURSOR_KINDS[one[1]], int(one[2]), int(one[3])) for one in read if one]
    return Cursor(owner, {kind: newest for kind, newest, _ in found}, {kind: at for kind, _, at in found})
