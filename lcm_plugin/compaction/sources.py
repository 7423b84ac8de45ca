"""What a chunk says, as blocks of text for the summariser, and what it covers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lcm_plugin.compaction.chunks import Chunk
from lcm_plugin.messages.blocks import is_call_body, is_instruction
from lcm_plugin.messages.sendable import parse_json
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import Part, StoredMessage, Summary
from lcm_plugin.summarize.base import SourceBlock

_SILENT_TYPES = frozenset({"reasoning", "compaction"})


@dataclass(frozen=True, slots=True)
class Span:
    """What a chunk covers, down to the messages."""

    earliest_at: int
    latest_at: int
    first_seq: int
    last_seq: int
    messages: int
    descendants: int
    message_tokens: int
    file_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """A chunk as it is handed to the summariser.

    ``blocks`` leaves out what says nothing; ``previous`` is the summary just before the chunk, context
    that is not to be repeated.
    """

    blocks: tuple[SourceBlock, ...]
    span: Span
    previous: str = ""


def read_source(reader: Reader, conversation_id: int, chunk: Chunk) -> Source:
    """Reads a chunk's sources once."""
    previous = _previous_summary(reader, conversation_id, chunk)
    if chunk.depth == 0:
        stored = reader.messages_by_id([item.message.message_id for item in chunk.items if item.message])
        ordered = [
            stored[item.message.message_id]
            for item in chunk.items
            if item.message and item.message.message_id in stored
        ]
        blocks = (message_block(message) for message in ordered)
        return Source(tuple(block for block in blocks if block), _span_of_messages(ordered), previous)
    found = reader.summaries([str(item.summary_id) for item in chunk.items])
    summaries = [found[str(item.summary_id)] for item in chunk.items]
    return Source(tuple(map(summary_block, summaries)), _span_of_summaries(summaries), previous)


def message_block(stored: StoredMessage) -> SourceBlock | None:
    """A message's words, calls and results; None for system prompts and what a model never saw."""
    head = stored.head
    if is_instruction(head.role) or head.hidden:
        return None
    texts = [text for part in stored.parts if (text := _part_text(part))]
    if not texts:
        return None
    tools = list(dict.fromkeys(part.tool_name for part in stored.parts if part.tool_name))
    return SourceBlock(
        id=head.ref,
        role=head.role,
        text="\n".join(texts),
        at=head.created_at,
        until=head.created_at,
        sender=head.sender or "",
        tool=", ".join(tools),
    )


def summary_block(summary: Summary) -> SourceBlock:
    """A summary as source of a deeper one."""
    return SourceBlock(
        id=summary.summary_id,
        role="summary",
        text=summary.content,
        at=summary.earliest_at,
        until=summary.latest_at,
    )


def source_refs(chunk: Chunk) -> Sequence[str]:
    """Ids of what a chunk consists of, in order."""
    return [item.ref for item in chunk.items]


def _previous_summary(reader: Reader, conversation_id: int, chunk: Chunk) -> str:
    before = reader.newest_items(conversation_id, before=chunk.start, limit=1)
    if not before or before[0].summary_id is None:
        return ""
    found = reader.summaries([before[0].summary_id])
    return found[before[0].summary_id].content


def _span_of_messages(messages: Sequence[StoredMessage]) -> Span:
    heads = [stored.head for stored in messages]
    return Span(
        earliest_at=min(head.created_at for head in heads),
        latest_at=max(head.created_at for head in heads),
        first_seq=heads[0].seq,
        last_seq=heads[-1].seq,
        messages=len(heads),
        descendants=len(heads),
        message_tokens=sum(head.tokens for head in heads),
        file_ids=_unique(part.file_id for stored in messages for part in stored.parts if part.file_id),
    )


def _span_of_summaries(summaries: Sequence[Summary]) -> Span:
    return Span(
        earliest_at=min(summary.earliest_at for summary in summaries),
        latest_at=max(summary.latest_at for summary in summaries),
        first_seq=min(summary.first_seq for summary in summaries),
        last_seq=max(summary.last_seq for summary in summaries),
        messages=sum(summary.message_count for summary in summaries),
        descendants=sum(summary.descendant_count + 1 for summary in summaries),
        message_tokens=sum(summary.message_tokens for summary in summaries),
        file_ids=_unique(file_id for summary in summaries for file_id in summary.file_ids),
    )


def _unique(ids: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(ids))


def _part_text(part: Part) -> str:
    if part.type in _SILENT_TYPES or not part.text:
        return ""
    if part.type == "tool" and is_call_body(part.path):
        return f"{part.tool_name or 'call'}({_one_line(part.text)})"
    return part.text


def _one_line(text: str) -> str:
    try:
        value = parse_json(text)
    except ValueError:
        return text
    return json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value
