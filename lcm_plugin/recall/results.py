"""Hits as a model reads them, and the cursor with which a search goes on."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lcm_plugin.errors import InputError
from lcm_plugin.recall.filesearch import LineHit
from lcm_plugin.recall.match import make_snippet, shorten
from lcm_plugin.recall.rank import Ranked
from lcm_plugin.recall.scope import Scope
from lcm_plugin.recall.times import format_instant
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.search import Filter, RowKind, SearchRow

SNIPPET_CHARS, CONTEXT_CHARS = 300, 160
_HITS_AT_ONCE = 16
MAX_CONTEXT_CHARS = 24_000
_CURSOR_VERSION = 1


@dataclass(slots=True)
class Page:
    """What the hits of one page share."""

    reader: Reader
    context: int
    zone: str
    scope: Scope
    rows: Filter
    shown: list[tuple[RowKind, SearchRow]] = field(default_factory=list)

    def with_contexts(self, hits: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The hits with session keys, covering summaries, marks of what was taken back and the messages round them."""
        keys = self._session_keys()
        messages = [row.row_id for kind, row in self.shown if kind == "message"]
        covered, taken_back = self.reader.covering_leaf(messages), self.reader.withdrawn_among(messages)
        for hit, (kind, row) in zip(hits, self.shown, strict=True):
            hit["session_key"] = keys.get(row.conversation_id, "")
            if kind == "message" and row.row_id in covered:
                hit["summary_id"] = covered[row.row_id]
            if kind == "message" and row.row_id in taken_back:
                hit["taken_back"] = True
        if self.context:
            self._add_contexts(
                [(h, row) for h, (kind, row) in zip(hits, self.shown, strict=True) if kind == "message"]
            )
        return hits

    def _add_contexts(self, hits: Sequence[tuple[dict[str, Any], SearchRow]]) -> None:
        """Adds the messages round each hit, until they take too much room."""
        room = MAX_CONTEXT_CHARS
        for start in range(0, len(hits), _HITS_AT_ONCE):
            some = hits[start : start + _HITS_AT_ONCE]
            near = self._around([row for _, row in some])
            for hit, row in some:
                if room <= 0:
                    return
                room -= self._add_context(hit, row, near)

    def _around(self, rows: Sequence[SearchRow]) -> dict[tuple[int, int], SearchRow]:
        stretches = [
            (row.conversation_id, row.position - self.context, row.position + self.context) for row in rows
        ]
        return {(row.conversation_id, row.position): row for row in self.reader.rows_within(stretches)}

    def _session_keys(self) -> dict[int, str]:
        ids = dict.fromkeys(row.conversation_id for _, row in self.shown)
        found = ((number, self.reader.conversation(number)) for number in ids)
        return {number: conversation.session_key for number, conversation in found if conversation}

    def _add_context(
        self, hit: dict[str, Any], row: SearchRow, near: Mapping[tuple[int, int], SearchRow]
    ) -> int:
        steps = (step for step in range(-self.context, self.context + 1) if step)
        others = [
            one for step in steps if (one := near.get((row.conversation_id, row.position + step))) is not None
        ]
        for name, side in (
            ("before", [one for one in others if one.position < row.position]),
            ("after", [one for one in others if one.position > row.position]),
        ):
            if side:
                hit[name] = [_neighbour(one) for one in side]
        return sum(min(len(one.text), CONTEXT_CHARS) for one in others)


def row_hit(page: Page, kind: RowKind, ranked: Ranked) -> dict[str, Any]:
    """A message or summary as a hit; `Page.with_contexts` adds what takes further look-ups."""
    row = ranked.row
    page.shown.append((kind, row))
    hit: dict[str, Any] = {
        "id": row.ref,
        "kind": kind,
        "conversation_id": row.conversation_id,
        "time": format_instant(row.at, page.zone),
        "role": row.role,
        "snippet": make_snippet(row.text, ranked.matches.sorted_spans, SNIPPET_CHARS),
        "tokens": row.tokens,
    }
    if row.sender:
        hit["sender"] = row.sender
    if kind == "summary":
        hit["depth"] = row.depth
        hit["until"] = format_instant(row.until, page.zone)
    if ranked.nearby:
        hit["match"] = "nearby: its neighbours hold the words"
    return hit


def file_hit(hit: LineHit, zone: str) -> dict[str, Any]:
    """A line of a file as a hit."""
    return {
        "id": hit.record.file_id,
        "kind": "file",
        "conversation_id": hit.record.conversation_id,
        "time": format_instant(hit.record.created_at, zone),
        "name": hit.record.name,
        "line": hit.line,
        "snippet": make_snippet(hit.text, hit.spans, SNIPPET_CHARS),
    }


def _neighbour(row: SearchRow) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": row.ref, "role": row.role, "text": shorten(row.text, CONTEXT_CHARS)}
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
