"""A conversation as a person looks at it: messages in blocks, summaries with their sources, the context."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lcm_plugin.messages.sendable import parse_json
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import Part, StoredMessage, Summary

BlockKind = Literal["text", "reasoning", "call", "result", "file", "other"]
MOST_CHARACTERS = 20_000
"""Of a block's text, what a page shows at first."""
_SOURCES_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a message. ``name`` is a tool's, ``call_id`` links a call with its result."""

    kind: BlockKind
    text: str
    name: str = ""
    call_id: str = ""
    file_id: str = ""


@dataclass(frozen=True, slots=True)
class SummaryView:
    """A summary and the ids of its sources, ``msg_…`` or ``sum_…``, in order."""

    summary: Summary
    sources: tuple[str, ...]


def blocks_of(stored: StoredMessage) -> list[Block]:
    """The visible blocks of a message, in order; a payload that moved to a file is shown by its reference."""
    is_result = stored.head.role in ("tool", "function") or bool(stored.head.answers)
    shown = (part for part in stored.parts if part.path and part.text.strip())
    return [_block(part, is_result) for part in shown]


def summaries_of(reader: Reader, conversation_id: int) -> Iterator[SummaryView]:
    """A conversation's summaries in the order in which they were made."""
    after: str | None = None
    while rows := reader.list_summaries(conversation_id, after=after, limit=_SOURCES_AT_ONCE):
        sources = reader.sources_of([row.summary_id for row in rows])
        for row in rows:
            yield SummaryView(row, tuple(sources.get(row.summary_id, ())))
        after = rows[-1].summary_id


def indented_json(text: str) -> str:
    """A JSON text set out over lines; any other text as it is."""
    try:
        value = parse_json(text)
    except ValueError:
        return text
    return json.dumps(value, indent=2, ensure_ascii=False) if isinstance(value, (dict, list)) else text


def _block(part: Part, is_result: bool) -> Block:
    name, call_id, file_id = part.tool_name or "", part.tool_call_id or "", part.file_id or ""
    kind: BlockKind
    if part.type == "reasoning":
        kind = "reasoning"
    elif part.type == "file":
        kind = "file"
    elif part.type == "tool":
        kind = "result" if is_result and not part.path.startswith("tool_calls") else "call"
    elif part.type == "text":
        kind = "result" if is_result and call_id else "text"
    else:
        kind, name = "other", part.type
    text = part.text
    if kind == "file" and text.startswith("data:"):
        address, _, rest = text.partition(";base64,")
        # What moved to a file left its reference behind the address; what did not is no text to read.
        text = rest if file_id else f"{address} ({len(text):,} characters)"
    return Block(kind, text, name, call_id, file_id)


def is_record(stored: StoredMessage) -> bool:
    """Whether a row is a record beside the talk: hidden, and not for want of words."""
    says = any(part.text.strip() or part.metadata for part in stored.parts)
    return stored.head.hidden and stored.head.withdrawn_at is None and says


def message_data(
    stored: StoredMessage, picture: Callable[[Block], str], most: int = MOST_CHARACTERS
) -> dict[str, Any]:
    """A message for a page or a program; ``picture`` gives the address of a block's picture, empty for none.

    ``cut`` of a block is how many characters are left out behind the first ``most``.
    """
    head = stored.head
    values = {
        "id": head.ref,
        "seq": head.seq,
        "role": head.role,
        "at": head.created_at,
        "tokens": head.tokens,
        "sender": head.sender,
        "hidden": head.hidden,
        "taken_back": head.withdrawn_at is not None,
        "blocks": [_block_data(block, picture, most) for block in blocks_of(stored)],
    }
    return {name: value for name, value in values.items() if value not in (None, False, [])}


def _block_data(block: Block, picture: Callable[[Block], str], most: int) -> dict[str, Any]:
    values: dict[str, Any] = {
        "kind": block.kind,
        "text": block.text[:most],
        "cut": max(0, len(block.text) - most),
        "name": block.name,
        "call": block.call_id,
        "file": block.file_id,
        "picture": picture(block) if block.kind == "file" else "",
    }
    return {name: value for name, value in values.items() if value or name == "text"}


def summary_data(summary: Summary, sources: Sequence[str]) -> dict[str, Any]:
    """A summary for a page or a program."""
    return {
        "id": summary.summary_id,
        "depth": summary.depth,
        "text": summary.content,
        "tokens": summary.tokens,
        "from": summary.earliest_at,
        "to": summary.latest_at,
        "first": summary.first_seq,
        "last": summary.last_seq,
        "messages": summary.message_count,
        "covered": summary.message_tokens,
        "level": summary.level,
        "model": summary.model,
        "fallback": summary.fallback,
        "made": summary.created_at,
        "made_ms": summary.made_ms,
        "sources": list(sources),
    }
