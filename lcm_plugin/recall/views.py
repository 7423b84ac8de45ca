"""Stored rows as a model reads them, word for word, cut only where a page ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lcm_plugin.messages.markup import shorten_ids
from lcm_plugin.messages.parts import rebuild
from lcm_plugin.messages.table import REASONING_KEYS
from lcm_plugin.recall.times import format_instant
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import Part, StoredMessage, Summary, message_ref

Count = Callable[[str], int]
MAX_OTHER_KEYS_CHARS = 4_000
_SHOWN_KEYS = frozenset({"role", "content", "tool_calls", *REASONING_KEYS})
_CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Slice:
    """A piece of a text: where it begins and ends in it, in characters, and its tokens."""

    text: str
    start: int
    end: int
    tokens: int


def take(text: str, start: int, cap: int, count: Count) -> Slice:
    """The longest piece from ``start`` of about ``cap`` tokens at most; at least one character."""
    width = max(1, cap) * _CHARS_PER_TOKEN
    while True:
        piece = text[start : start + width]
        tokens = count(piece)
        if tokens <= cap or len(piece) <= 1:
            return Slice(piece, start, start + len(piece), tokens)
        width = max(1, min(len(piece) - 1, int(len(piece) * cap / tokens * 0.95)))


def message_view(
    stored: StoredMessage, zone: str, offset: int, cap: int, count: Count
) -> tuple[dict[str, Any], int, int | None]:
    """A message's head and as much of its parts as fits; the tokens, and the offset to go on with.

    ``offset`` counts characters over the texts of all parts. A message of one text has ``content``, any
    other ``parts``. A text that a database cannot hold as it is also comes JSON-escaped, as ``exact``.
    """
    head = stored.head
    view: dict[str, Any] = {
        "id": head.ref,
        "kind": "message",
        "conversation_id": head.conversation_id,
        "role": head.role,
        "time": format_instant(head.created_at, zone),
        "tokens": head.tokens,
    }
    if head.sender:
        view["sender"] = head.sender
    if head.withdrawn_at is not None:
        view["taken_back"] = True
    if offset == 0:
        view |= _other_keys(stored)
    # A part without a path is this package's own note, not a text of the message.
    parts = [part for part in stored.parts if part.path]
    pieces, used, rest = _pieces(parts, offset, cap, count)
    if [part.path for part in parts] == ["content"]:
        piece = pieces[0] if pieces else {"text": ""}
        view["content"] = piece["text"]
        view |= {key: value for key, value in piece.items() if key not in ("path", "type", "text")}
    else:
        view["parts"] = pieces
    if not parts and stored.skeleton is not None and isinstance(notice := _content(stored), str):
        view["removed"] = notice
        del view["parts"]
    if rest is not None:
        view["truncated"] = True
        view["next_offset"] = rest
    return view, used, rest


def summary_view(reader: Reader, summary: Summary, zone: str) -> dict[str, Any]:
    """A summary's content, what it covers and what it was made of."""
    view: dict[str, Any] = {
        "id": summary.summary_id,
        "kind": summary.kind,
        "conversation_id": summary.conversation_id,
        "depth": summary.depth,
        "from": format_instant(summary.earliest_at, zone),
        "to": format_instant(summary.latest_at, zone),
        "tokens": summary.tokens,
        "covers_messages": summary.message_count,
        "covers_tokens": summary.message_tokens,
        "sources": sources_of(reader, summary),
        "content": summary.content,
    }
    if summary.file_ids:
        view["files"] = list(summary.file_ids)
    if removed := reader.removed_below(summary.summary_id):
        view["sources_removed"] = removed
    return view


def sources_of(reader: Reader, summary: Summary) -> str:
    """The ids of a summary's sources, runs of messages shortened to ``msg_3-msg_9``."""
    if summary.depth == 0:
        return shorten_ids([message_ref(number) for number in reader.source_messages(summary.summary_id)])
    return shorten_ids(reader.source_summaries(summary.summary_id))


def _pieces(
    parts: Sequence[Part], offset: int, cap: int, count: Count
) -> tuple[list[dict[str, Any]], int, int | None]:
    shown: list[dict[str, Any]] = []
    position, used = 0, 0
    for part in parts:
        end = position + len(part.text)
        if end < offset or (end == offset and offset > 0 and part.text):
            position = end
            continue
        if shown and used >= cap:
            return shown, used, position
        piece = take(part.text, max(0, offset - position), max(1, cap - used), count)
        shown.append(_part_view(part, piece))
        used += piece.tokens
        if piece.end < len(part.text):
            return shown, used, position + piece.end
        position = end
    return shown, used, None


def _part_view(part: Part, piece: Slice) -> dict[str, Any]:
    view: dict[str, Any] = {"path": part.path, "type": part.type}
    for key in ("tool_name", "tool_call_id", "file_id"):
        if (value := getattr(part, key)) is not None:
            view[key] = value
    view["text"] = piece.text
    if part.exact is not None and piece.start == 0 and piece.end == len(part.text):
        view["exact"] = part.exact
    if piece.start:
        view["from_char"] = piece.start
    return view


def _content(stored: StoredMessage) -> Any:
    """What stands as content in a message without parts: what is said of a text that was removed."""
    return rebuild(stored).get("content")


def _other_keys(stored: StoredMessage) -> dict[str, Any]:
    """What a message holds beside its parts: ids, names and keys that only its host knows."""
    if stored.skeleton is None:
        return {}
    message = rebuild(stored)
    others = {key: value for key, value in message.items() if key not in _SHOWN_KEYS}
    if not others:
        return {}
    if len(json.dumps(others)) > MAX_OTHER_KEYS_CHARS:
        return {"other_keys": sorted(others)}
    return {"other_keys": others}
