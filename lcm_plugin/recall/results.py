"""Hits as a model reads them, and the cursor with which a search goes on."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from lcm_plugin.errors import InputError
from lcm_plugin.recall.filesearch import LineHit
from lcm_plugin.recall.match import make_snippet, shorten
from lcm_plugin.recall.rank import Ranked
from lcm_plugin.recall.times import format_instant
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.search import RowKind, SearchRow

# What an answer may cost: so many tokens a hit, and at least so many.
TOKENS_PER_HIT, LEAST_TOKENS = 150, 1_500
# A hit with the shortest piece of its text.
LEAST_HIT_TOKENS = 120
# The share of it that hits may take before the messages round them are added.
HITS_SHARE = 0.7
ENVELOPE_TOKENS = 120
# How much of a text a hit shows: the widest at which all hits fit.
WIDTHS = (1_600, 1_000, 600, 400, 300, 200, 120, 80, 40)
NEIGHBOUR_CHARS = 240
# How far neighbours are looked for past records that nobody said.
REACH = 4
LINE_CHARS = 300
_CURSOR_VERSION = 1

Hit: TypeAlias = tuple[RowKind, Ranked]


@dataclass(frozen=True, slots=True)
class Page:
    """Writes the hits of one page so that the whole answer fits.

    ``shows`` tells which neighbours may be shown.
    """

    reader: Reader
    context: int
    zone: str
    count: Callable[[str], int]
    token_cap: int
    shows: Callable[[SearchRow], bool]

    def write(
        self, hits: Sequence[Hit], others: Sequence[dict[str, Any]], notices: Sequence[str]
    ) -> list[dict[str, Any]]:
        """The hits and then ``others`` as dicts for a model, with the messages round them as far as there is room."""
        room = self.token_cap - ENVELOPE_TOKENS - self._tokens(others) - self._tokens(notices)
        written = self._as_wide_as_fits(hits, room)
        if self.context and written:
            self._add_neighbours(hits, written, room - self._tokens(written))
        return [*written, *others]

    def _as_wide_as_fits(self, hits: Sequence[Hit], room: int) -> list[dict[str, Any]]:
        notes = self._notes(hits)
        share = HITS_SHARE if self.context else 1.0
        written: list[dict[str, Any]] = []
        for width in WIDTHS:
            written = [
                self._hit(kind, one, width) | note for (kind, one), note in zip(hits, notes, strict=True)
            ]
            if self._tokens(written) <= room * share:
                break
        return written

    def _hit(self, kind: RowKind, ranked: Ranked, width: int) -> dict[str, Any]:
        row = ranked.row
        snippet = make_snippet(row.text, ranked.matches.sorted_spans, width)
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

    def _notes(self, hits: Sequence[Hit]) -> list[dict[str, Any]]:
        """What each hit says beside its text: its conversation, the summary over it, that it was taken back."""
        messages = [one.row.row_id for kind, one in hits if kind == "message"]
        covered, taken_back = self.reader.covering_leaf(messages), self.reader.withdrawn_among(messages)
        keys = self._session_keys(hits)
        notes = []
        for kind, one in hits:
            row, key = one.row, keys.get(one.row.conversation_id, "")
            note: dict[str, Any] = {"conversation_id": row.conversation_id, "session_key": key}
            if kind == "message" and row.row_id in covered:
                note["summary_id"] = covered[row.row_id]
            if kind == "message" and row.row_id in taken_back:
                note["taken_back"] = True
            notes.append(note)
        return notes

    def _session_keys(self, hits: Sequence[Hit]) -> dict[int, str]:
        ids = dict.fromkeys(one.row.conversation_id for _, one in hits)
        found = ((number, self.reader.conversation(number)) for number in ids)
        return {number: conversation.session_key for number, conversation in found if conversation}

    def _add_neighbours(self, hits: Sequence[Hit], written: Sequence[dict[str, Any]], room: int) -> None:
        """The messages round each hit, best hit first, each message once."""
        rows = [one.row for kind, one in hits if kind == "message"]
        near = self._around(rows)
        shown = {row.ref for row in rows}
        by_ref = {hit["id"]: hit for hit in written}
        for row in rows:
            for name, side in self._sides(row, near):
                neighbours = [_neighbour(one) for one in side if one.ref not in shown]
                room -= self._tokens(neighbours)
                if room < 0:
                    return
                if neighbours:
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
        return self.count(json.dumps(value, ensure_ascii=False)) if value else 0


def file_hit(hit: LineHit, zone: str) -> dict[str, Any]:
    """A line of a file as a hit."""
    return {
        "id": hit.record.file_id,
        "kind": "file",
        "conversation_id": hit.record.conversation_id,
        "time": format_instant(hit.record.created_at, zone),
        "name": hit.record.name,
        "line": hit.line,
        "snippet": make_snippet(hit.text, hit.spans, LINE_CHARS),
    }


def _neighbour(row: SearchRow) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": row.ref, "role": row.role, "text": shorten(row.text, NEIGHBOUR_CHARS)}
    if row.sender:
        shown["sender"] = row.sender
    return shown


@dataclass(frozen=True, slots=True)
class Cursor:
    """``newest``: the highest row id per kind at the first page. ``position``: where each kind goes on."""

    search: str
    newest: Mapping[str, int]
    position: Mapping[str, int]

    def encode(self) -> str:
        """The cursor as a text."""
        raw = json.dumps(
            [_CURSOR_VERSION, self.search, dict(self.newest), dict(self.position)], separators=(",", ":")
        )
        return base64.urlsafe_b64encode(raw.encode()).decode().rstrip("=")


def fingerprint(search: Mapping[str, Any]) -> str:
    """A short hash of what a search asks for."""
    raw = json.dumps(search, sort_keys=True, default=str).encode("utf-8", "surrogatepass")
    return hashlib.sha256(raw).hexdigest()[:16]


def decode(text: str, search: str) -> Cursor:
    """The cursor of a text; raises `InputError` when it is none or belongs to another search."""
    try:
        raw = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        version, owner, newest, position = raw
        cursor = Cursor(
            str(owner),
            {str(kind): int(value) for kind, value in newest.items()},
            {str(kind): int(value) for kind, value in position.items()},
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError("cursor is not one that lcm_grep returned") from error
    if version != _CURSOR_VERSION or owner != search:
        raise InputError("cursor belongs to another search; repeat its arguments or leave the cursor out")
    return cursor
