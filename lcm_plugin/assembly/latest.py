"""The newest plan: what a todo or plan tool was last given or gave back, once its turn was compacted.

Which call that is was noted by the newest compaction (`compaction.plans`): a plan that comes later stands raw below, and
the context before it stays the same until the next compaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lcm_plugin.assembly.render import LatestPlan
from lcm_plugin.assembly.view import View
from lcm_plugin.compaction.plans import keeps_plan
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import Part

_GROUP_ROWS = 16


def latest_plan(reader: Reader, view: View, globs: tuple[str, ...]) -> LatestPlan | None:
    """The compacted plan of the tools that match, unless ``/new`` took it out; read once for a view."""
    if view.conversation.plan_id is None:
        return None
    if globs not in view.latest:
        view.latest[globs] = _read(reader, view, globs, view.conversation.plan_id)
    return view.latest[globs]


def _read(reader: Reader, view: View, globs: Sequence[str], message_id: int) -> LatestPlan | None:
    """The longer of what the call was given and what came back: the other says only that it was done."""
    calling = reader.messages_by_id([message_id]).get(message_id)
    if calling is None or calling.head.hidden or calling.head.seq < view.conversation.restart_seq:
        return None
    head = calling.head
    if any(item.ordinal == head.seq and item.message is not None for item in view.items):
        return None
    made = [part for part in calling.parts if part.tool_name and keeps_plan(globs, part.tool_name)]
    if not made:
        return None
    last = made[-1]
    given = _text(part for part in made if part.tool_call_id == last.tool_call_id)
    later = reader.messages(head.conversation_id, after_seq=head.seq, limit=_GROUP_ROWS)
    answers = [row for row in later if row.head.group_seq == head.seq]
    returned = _text(
        part
        for row in answers
        for part in row.parts
        if part.tool_call_id and part.tool_call_id == last.tool_call_id
    )
    text = max(given, returned, key=len)
    return LatestPlan(head.ref, str(last.tool_name), head.created_at, text) if text else None


def _text(parts: Iterable[Part]) -> str:
    return "\n".join(part.text for part in parts if part.text.strip())
