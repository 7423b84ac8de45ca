"""Which plan stays in view: noted with each leaf, when it is known what is compacted and what stands raw behind it."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from lcm_plugin.lru import LruCache
from lcm_plugin.store.protocol import Reader, Writer
from lcm_plugin.store.records import Summary

_MOST_CALLS = 1_000
_REMEMBERED = 1_024


class PlanNotes:
    """Notes which plan stays in view. Thread-safe.

    Between which messages of a conversation no tool keeps a plan is remembered: each leaf of a sweep asks, and calls do not
    change.
    """

    def __init__(self, globs: Sequence[str]) -> None:
        self._globs = globs
        self._without: LruCache[int, tuple[int, int]] = LruCache(_REMEMBERED)

    def note(self, writer: Writer, leaf: Summary, now: int) -> None:
        """Notes the newest call of a plan's tool, if the leaf covers it; none, if it stands raw behind the leaf.

        Where neither the leaf nor what follows has such a call, the one that was noted before stays.
        """
        if not self._globs:
            return
        here, first = leaf.conversation_id, leaf.first_seq - 1
        after, last = self._without.get(here, (first, first))
        if after > first or last < first:
            after = last = first
        calls = writer.newest_tool_calls(here, after=last, limit=_MOST_CALLS)
        keeping = {tool for tool in {tool for _, _, tool, _ in calls} if keeps_plan(self._globs, tool)}
        if not keeping:
            self._without.put(here, (after, calls[0][0] if calls else last))
            return
        found = next(
            ((seq, message) for seq, message, tool, hidden in calls if tool in keeping and not hidden), None
        )
        if found is not None:
            seq, message_id = found
            writer.set_plan(here, None if _is_raw(writer, here, seq) else message_id, now)


def keeps_plan(globs: Sequence[str], tool: str) -> bool:
    """Whether a tool keeps a plan; case does not matter."""
    return any(fnmatchcase(tool.lower(), glob.lower()) for glob in globs)


def _is_raw(reader: Reader, conversation_id: int, seq: int) -> bool:
    item = next(iter(reader.oldest_items(conversation_id, after=seq - 1, limit=1)), None)
    return item is not None and item.ordinal == seq and item.message is not None
