"""The request that a turn began with, when only the turn's beginning was compacted.

A very long turn may be compacted up to its newest messages. What is left then begins in the middle of the
turn, so its request is shown once more, word for word, between the summaries and the rest. Which request
that is depends on where the newest summary ends, not on what comes later; so it stays until the next
compaction.
"""

from __future__ import annotations

from lcm_plugin.assembly.render import Rendered, Renderer
from lcm_plugin.assembly.view import View, is_request
from lcm_plugin.messages.blocks import is_instruction
from lcm_plugin.store.base import Reader
from lcm_plugin.store.records import Item


def turn_opening(reader: Reader, renderer: Renderer, view: View) -> Rendered | None:
    """The compacted request of the turn that the raw messages after the newest summary belong to."""
    position = _newest_summary(view)
    if position is None:
        return None
    first = next((item for item in view.items[position + 1 :] if _is_visible(item)), None)
    if first is not None and is_request(first):
        return None
    conversation = view.conversation
    head = reader.newest_user(
        conversation.conversation_id, before=first.message.seq if first and first.message else None
    )
    if head is None or head.seq < conversation.restart_seq or _stands_raw(view, head.seq):
        return None
    request = renderer.render(reader, [Item(head.seq, "message", head.tokens, message=head)])[0]
    return renderer.words_only(request) if request else None


def insert_opening(items: list[Rendered], opening: Rendered) -> list[Rendered]:
    """The items with the request behind the newest summary."""
    summaries = [index for index, item in enumerate(items) if item.kind == "summary"]
    at = summaries[-1] + 1 if summaries else 0
    return [*items[:at], opening, *items[at:]]


def _newest_summary(view: View) -> int | None:
    for position in range(len(view.items) - 1, -1, -1):
        if view.items[position].message is None:
            return position
    return None


def _is_visible(item: Item) -> bool:
    head = item.message
    return head is not None and not head.hidden and not is_instruction(head.role)


def _stands_raw(view: View, seq: int) -> bool:
    return any(item.ordinal == seq and item.message is not None for item in view.items)
