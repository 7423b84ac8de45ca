"""What a chunk says, as blocks of text for the summariser."""

from __future__ import annotations

import json
from collections.abc import Sequence

from lcm_plugin.compaction.chunks import Chunk
from lcm_plugin.store.base import Reader
from lcm_plugin.store.records import Part, StoredMessage, Summary
from lcm_plugin.summarize.base import SourceBlock

_SILENT_TYPES = frozenset({"reasoning", "compaction"})


def chunk_blocks(reader: Reader, chunk: Chunk) -> tuple[SourceBlock, ...]:
    """One block per message or summary of a chunk, in order; what says nothing is left out."""
    ids = [item.message.message_id for item in chunk.items if item.message]
    if ids:
        stored = reader.messages_by_id(ids)
        blocks = [message_block(stored[message_id]) for message_id in ids if message_id in stored]
        return tuple(block for block in blocks if block is not None)
    summaries = reader.summaries([str(item.summary_id) for item in chunk.items])
    return tuple(summary_block(summaries[str(item.summary_id)]) for item in chunk.items)


def message_block(stored: StoredMessage) -> SourceBlock | None:
    """A message's words, calls and results; None for system prompts and what a model never saw."""
    head = stored.head
    if head.role == "system" or head.hidden:
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


def previous_summary(reader: Reader, conversation_id: int, chunk: Chunk) -> str:
    """The text of the summary just before a chunk: context that is not to be repeated."""
    before = reader.newest_items(conversation_id, before=chunk.items[0].ordinal, limit=1)
    if not before or before[0].summary_id is None:
        return ""
    found = reader.summaries([before[0].summary_id])
    return found[before[0].summary_id].content


def _part_text(part: Part) -> str:
    if part.type in _SILENT_TYPES or not part.text:
        return ""
    if part.path.endswith((".arguments", ".input", ".args")):
        return f"{part.tool_name or 'call'}({_one_line(part.text)})"
    return part.text


def _one_line(text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value


def source_refs(chunk: Chunk) -> Sequence[str]:
    """Ids of what a chunk consists of, in order."""
    return [item.ref for item in chunk.items]
