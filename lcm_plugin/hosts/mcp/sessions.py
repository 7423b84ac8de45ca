"""The answer of ``lcm_status``: which sessions are stored, newest first, and how each begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lcm_plugin.messages.blocks import text_of
from lcm_plugin.messages.parts import rebuild
from lcm_plugin.recall.times import format_instant

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine
    from lcm_plugin.store.protocol import Reader
    from lcm_plugin.store.records import Conversation

_BEGINNING_CHARS = 160
_LOOK_AT = 4


def describe_sessions(engine: Engine, found: Sequence[Conversation], limit: int) -> dict[str, Any]:
    """The newest ``limit`` of some conversations, by the time of their last message."""
    zone = engine.config.timezone
    with engine.store.read() as reader:
        dated = sorted(((_last_time(reader, row), row.conversation_id, row) for row in found), reverse=True)
        shown = [_one(reader, row, last, zone) for last, _, row in dated[:limit]]
    return {"sessions": shown, "more": len(found) - len(shown)}


def _one(reader: Reader, row: Conversation, last: int, zone: str) -> dict[str, Any]:
    opening = reader.messages(row.conversation_id, limit=_LOOK_AT)
    asked = (text_of(rebuild(one)) for one in opening if one.head.role == "user")
    return {
        "session_key": row.session_key,
        "conversation_id": row.conversation_id,
        "messages": row.message_count,
        "first": format_instant(opening[0].head.created_at if opening else row.created_at, zone),
        "last": format_instant(last, zone),
        "begins": " ".join(next(asked, "").split())[:_BEGINNING_CHARS],
    }


def _last_time(reader: Reader, row: Conversation) -> int:
    newest = reader.heads(row.conversation_id, limit=1)
    return newest[-1].created_at if newest else row.updated_at
