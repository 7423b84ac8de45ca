"""Which plan stays in view: noted with each leaf, when it is known what is compacted and what stands raw behind it."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from lcm_plugin.store.protocol import Reader, Writer
from lcm_plugin.store.records import Summary

_MOST_CALLS = 1_000


def note_plan(writer: Writer, leaf: Summary, globs: Sequence[str], now: int) -> None:
    """Notes the newest call of a plan's tool, if the leaf covers it; none, if it stands raw behind the leaf.

    Where neither the leaf nor what follows has such a call, the one that was noted before stays.
    """
    here = leaf.conversation_id
    calls = writer.newest_tool_calls(here, after=leaf.first_seq - 1, limit=_MOST_CALLS) if globs else []
    keeping = {tool for tool in {tool for _, _, tool in calls} if keeps_plan(globs, tool)}
    found = next(((seq, message) for seq, message, tool in calls if tool in keeping), None)
    if found is not None:
        seq, message_id = found
        writer.set_plan(here, None if _is_raw(writer, here, seq) else message_id, now)


def keeps_plan(globs: Sequence[str], tool: str) -> bool:
    """Whether a tool keeps a plan; case does not matter."""
    return any(fnmatchcase(tool.lower(), glob.lower()) for glob in globs)


def _is_raw(reader: Reader, conversation_id: int, seq: int) -> bool:
    item = next(iter(reader.oldest_items(conversation_id, after=seq - 1, limit=1)), None)
    return item is not None and item.ordinal == seq and item.message is not None
