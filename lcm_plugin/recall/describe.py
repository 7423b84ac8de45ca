"""``lcm_describe``: one thing by its id, whole, page by page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from lcm_plugin.config import LcmConfig
from lcm_plugin.errors import InputError
from lcm_plugin.files.externalise import PayloadStore
from lcm_plugin.messages.markup import shorten_ids
from lcm_plugin.messages.parts import rebuild
from lcm_plugin.messages.table import REASONING_KEYS
from lcm_plugin.recall.filesearch import decode_text
from lcm_plugin.recall.fitting import Count, Items, Slice, as_sent, cost_of, fitting_head, take, widest
from lcm_plugin.recall.scope import Ref, Scope, not_found, parse_refs
from lcm_plugin.recall.times import format_instant
from lcm_plugin.recall.tools import DescribeArguments
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import FileRecord, Part, StoredMessage, Summary, message_ref

MAX_LISTED = 100
MAX_OTHER_KEYS_CHARS = 4_000
_SHOWN_KEYS = frozenset({"role", "content", "tool_calls", *REASONING_KEYS})
# Of the cap, what the ids that an answer has no room for may take.
_REST_SHARE = 0.3


class Describer:
    """Answers within one scope and one read transaction."""

    def __init__(
        self, reader: Reader, scope: Scope, payloads: PayloadStore, count: Count, config: LcmConfig
    ) -> None:
        self._reader = reader
        self._scope = scope
        self._payloads = payloads
        self._count = count
        self._zone = config.timezone
        self._max_tokens = config.max_expand_tokens

    def describe(self, asked: DescribeArguments, granted_tokens: int | None = None) -> dict[str, Any]:
        """One object for one id, ``items`` for several. Raises `NotFound` for what is out of scope."""
        most = self._max_tokens if granted_tokens is None else granted_tokens
        cap = min(asked.token_cap or most, most)
        refs = parse_refs(asked.id)
        if len(refs) == 1:
            return self._one(refs[0], asked, cap)
        return self._several(refs, asked, cap)

    def _several(self, refs: Sequence[Ref], asked: DescribeArguments, cap: int) -> dict[str, Any]:
        """Several ids share the cap; those for which nothing is left are named to be asked for again."""
        rest = self._rest(refs, cap)
        items = Items(cap - cost_of({"items": [], "truncated": True} | rest, self._count), self._count)
        for index, ref in enumerate(refs):
            if not items.add(partial(self._one, ref, asked), self._tokens_of(ref)):
                return {"items": items.views, "truncated": True} | self._rest(refs[index:], cap)
        return {"items": items.views}

    def _rest(self, refs: Sequence[Ref], cap: int) -> dict[str, Any]:
        """The ids to go on with, as far as there is room: in runs where they are many, the rest counted."""
        most = int(cap * _REST_SHARE)
        ids = [ref.text for ref in refs]
        if cost_of(ids, self._count) > most:
            ids = shorten_ids(ids).split()
        while len(ids) > 1 and cost_of(ids, self._count) > most:
            del ids[len(ids) // 2 :]
        not_named = len(refs) - len(parse_refs(ids))
        return {"continue_with": ids} | ({"not_named": not_named} if not_named else {})

    def _tokens_of(self, ref: Ref) -> int:
        """The tokens of a thing's whole text."""
        if ref.kind == "message":
            return find_message(self._reader, self._scope, ref).head.tokens
        if ref.kind == "summary":
            return find_summary(self._reader, self._scope, ref).tokens
        return self._max_tokens

    def _one(self, ref: Ref, asked: DescribeArguments, room: int) -> dict[str, Any]:
        if ref.kind == "summary":
            return self._summary(ref, asked.offset, room)
        if ref.kind == "message":
            return self._message(ref, asked.offset, room)
        return self._file(ref, asked, room)

    def _message(self, ref: Ref, offset: int, room: int) -> dict[str, Any]:
        stored = find_message(self._reader, self._scope, ref)
        covered = self._reader.covering_leaf([stored.head.message_id])
        beside = {"summary_id": covered[stored.head.message_id]} if covered else {}
        return message_view(stored, self._zone, offset, room, self._count, beside)

    def _summary(self, ref: Ref, offset: int, room: int) -> dict[str, Any]:
        summary = find_summary(self._reader, self._scope, ref)
        beside = {
            "level": summary.level,
            "model": summary.model,
            "covered": self._covered(summary),
            "source_costs": self._source_costs(summary),
            "derived": self._costs(self._reader.derived_from(summary.summary_id)),
        }
        return summary_view(self._reader, summary, self._zone, offset, room, self._count, beside)

    def _covered(self, summary: Summary) -> str:
        first, last = self._ends(summary)
        return f"{message_ref(first)}-{message_ref(last)}" if first != last else message_ref(first)

    def _ends(self, summary: Summary) -> tuple[int, int]:
        """The first and the last message below a summary."""
        ends = []
        for side in (0, -1):
            node = summary
            while node.depth > 0:
                below = self._reader.source_summaries(node.summary_id)[side]
                node = self._reader.summaries([below])[below]
            ends.append(self._reader.source_messages(node.summary_id)[side])
        return ends[0], ends[1]

    def _source_costs(self, summary: Summary) -> list[dict[str, Any]]:
        """What reading each source costs; for a leaf it is said once for all its messages."""
        if summary.depth == 0:
            return [{"messages": summary.message_count, "tokens": summary.source_tokens}]
        return self._costs(self._reader.source_summaries(summary.summary_id))

    def _costs(self, summary_ids: Sequence[str]) -> list[dict[str, Any]]:
        found = self._reader.summaries(summary_ids[:MAX_LISTED])
        return [
            {
                "id": one,
                "depth": found[one].depth,
                "tokens": found[one].tokens,
                "covers_tokens": found[one].message_tokens,
            }
            for one in summary_ids[:MAX_LISTED]
            if one in found
        ]

    def _file(self, ref: Ref, asked: DescribeArguments, room: int) -> dict[str, Any]:
        record = find_file(self._reader, self._scope, ref)
        view: dict[str, Any] = {
            "id": record.file_id,
            "kind": "file",
            "conversation_id": record.conversation_id,
            "name": record.name,
            "mime_type": record.mime_type,
            "bytes": record.byte_size,
            "lines": record.line_count,
            "stored": format_instant(record.created_at, self._zone),
            "complete": not record.truncated,
        }
        if asked.offset == 0:
            view["exploration"] = record.exploration
        head = fitting_head(view, ("id", "kind"), room, self._count)
        data = self._payloads.read_file(self._reader, record.file_id)
        if asked.start_byte is not None or asked.end_byte is not None:
            return widest(lambda tokens: head | _bytes(data, asked, tokens), room, self._count)
        text = decode_text(data)
        if text is None:
            head["content_note"] = "binary; read it with start_byte and end_byte, as base64"
            return head
        return widest(lambda tokens: head | self._lines(text, asked, tokens), room, self._count)

    def _lines(self, text: str, asked: DescribeArguments, tokens: int) -> dict[str, Any]:
        start, end = 0, len(text)
        if asked.start_line is not None or asked.end_line is not None:
            start, end = _line_range(text, asked.start_line or 1, asked.end_line)
        piece = take(text[:end], min(start + asked.offset, end), tokens, self._count)
        view: dict[str, Any] = {"content": piece.text}
        if piece.end < end:
            view |= {"truncated": True, "next_offset": piece.end - start}
        return view


def _bytes(data: bytes, asked: DescribeArguments, tokens: int) -> dict[str, Any]:
    import base64

    start, end = asked.start_byte or 0, min(asked.end_byte or len(data), len(data))
    if start >= end:
        raise InputError(f"bytes {start} to {end} are empty; the file has {len(data)} bytes")
    # Base64 of random bytes costs about one token per byte and a half.
    most = max(1, int(tokens * 1.5))
    piece = data[start : min(end, start + most)]
    view: dict[str, Any] = {"base64": base64.b64encode(piece).decode(), "start_byte": start}
    if start + len(piece) < end:
        view |= {"truncated": True, "next_byte": start + len(piece)}
    return view


def find_summary(reader: Reader, scope: Scope, ref: Ref) -> Summary:
    """A summary in scope; raises `NotFound` in the same words for foreign and unknown ids."""
    summary = reader.summaries([ref.text]).get(ref.text) if ref.kind == "summary" else None
    if summary is None or summary.conversation_id not in scope:
        raise not_found(ref.text)
    return summary


def find_message(reader: Reader, scope: Scope, ref: Ref) -> StoredMessage:
    """A message in scope; raises `NotFound` likewise."""
    stored = reader.messages_by_id([ref.message_id]).get(ref.message_id) if ref.kind == "message" else None
    if stored is None or stored.head.conversation_id not in scope:
        raise not_found(ref.text)
    return stored


def find_file(reader: Reader, scope: Scope, ref: Ref) -> FileRecord:
    """A payload's record in scope; raises `NotFound` likewise."""
    record = reader.file(ref.text) if ref.kind == "file" else None
    if record is None or record.conversation_id not in scope:
        raise not_found(ref.text)
    return record


def _line_range(text: str, first: int, last: int | None) -> tuple[int, int]:
    """The character range of lines ``first`` to ``last``, counted from 1, both included."""
    lines = text.splitlines(keepends=True)
    if first > len(lines) or (last is not None and last < first):
        raise InputError(f"lines {first} to {last or 'end'} are empty; the file has {len(lines)} lines")
    start = sum(map(len, lines[: first - 1]))
    return start, start + sum(map(len, lines[first - 1 : last]))


def message_view(
    stored: StoredMessage,
    zone: str,
    offset: int,
    room: int,
    count: Count,
    beside: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """A message's head, ``beside`` it, and as much of its parts as fits ``room`` tokens as sent.

    ``offset`` counts characters over the texts of all parts. A message of one text has ``content``, any
    other ``parts``. A text that a database cannot hold as it is also comes JSON-escaped, as ``exact``.
    """
    head = fitting_head(
        _message_head(stored, zone, offset) | dict(beside), ("id", "kind", "role"), room, count
    )
    # A part without a path is this package's own note, not a text of the message.
    parts = [part for part in stored.parts if part.path]

    def make(tokens: int) -> dict[str, Any]:
        view = dict(head)
        pieces, rest = _pieces(parts, offset, tokens, count)
        if [part.path for part in parts] == ["content"]:
            piece = pieces[0] if pieces else {"text": ""}
            view["content"] = piece["text"]
            view |= {key: value for key, value in piece.items() if key not in ("path", "type", "text")}
        elif not parts and stored.skeleton is not None and isinstance(notice := _content(stored), str):
            view["removed"] = notice
        else:
            view["parts"] = pieces
        return view | ({"truncated": True, "next_offset": rest} if rest is not None else {})

    return widest(make, room, count)


def _message_head(stored: StoredMessage, zone: str, offset: int) -> dict[str, Any]:
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
    return view | (_other_keys(stored) if offset == 0 else {})


def summary_view(
    reader: Reader,
    summary: Summary,
    zone: str,
    offset: int,
    room: int,
    count: Count,
    beside: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """What a summary covers, what it was made of, ``beside`` it, and as much of its content as fits ``room``."""
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
    }
    if summary.file_ids:
        view["files"] = list(summary.file_ids)
    if removed := reader.removed_below(summary.summary_id):
        view["sources_removed"] = removed
    head = fitting_head(view | dict(beside), ("id", "kind", "depth"), room, count)

    def make(tokens: int) -> dict[str, Any]:
        piece = take(summary.content, min(offset, len(summary.content)), tokens, count)
        cut = piece.end < len(summary.content)
        return head | {"content": piece.text} | ({"truncated": True, "next_offset": piece.end} if cut else {})

    return widest(make, room, count)


def sources_of(reader: Reader, summary: Summary) -> str:
    """The ids of a summary's sources, runs of messages shortened to ``msg_3-msg_9``."""
    if summary.depth == 0:
        return shorten_ids([message_ref(number) for number in reader.source_messages(summary.summary_id)])
    return shorten_ids(reader.source_summaries(summary.summary_id))


def _pieces(
    parts: Sequence[Part], offset: int, tokens: int, count: Count
) -> tuple[list[dict[str, Any]], int | None]:
    """The parts from an offset on, their heads counted, and the offset to go on with."""
    shown: list[dict[str, Any]] = []
    position, used = 0, 0
    for part in parts:
        end = position + len(part.text)
        if end < offset or (end == offset and offset > 0 and part.text):
            position = end
            continue
        if shown and used >= tokens:
            return shown, position
        piece = take(part.text, max(0, offset - position), max(1, tokens - used), count)
        shown.append(_part_view(part, piece))
        used += piece.tokens if len(parts) == 1 else cost_of(shown[-1], count)
        if piece.end < len(part.text):
            return shown, position + piece.end
        position = end
    return shown, None


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
    if len(as_sent(others)) > MAX_OTHER_KEYS_CHARS:
        return {"other_keys": sorted(others)}
    return {"other_keys": others}
