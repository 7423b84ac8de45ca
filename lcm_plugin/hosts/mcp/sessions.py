"""The answer of ``lcm_status``: which sessions are stored, newest first, and how each begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lcm_plugin.recall.times import format_instant
from lcm_plugin.sessions.names import NAMES, NamedConversation, named

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine
    from lcm_plugin.store.protocol import Reader
    from lcm_plugin.store.records import Conversation


def describe_sessions(engine: Engine, found: Sequence[Conversation], limit: int) -> dict[str, Any]:
    """The newest ``limit`` of some conversations, by the time of their last message."""
    zone = engine.config.timezone
    with engine.store.read() as reader:
        dated = sorted(((_last_time(reader, row), row.conversation_id, row) for row in found), reverse=True)
        chosen = dated[:limit]
        faces = named(reader, [row for _, _, row in chosen])
        shown = [_one(reader, one, last, zone) for one, (last, _, _) in zip(faces, chosen, strict=True)]
    return {"sessions": shown, "more": len(found) - len(shown)}


def _one(reader: Reader, one: NamedConversation, last: int, zone: str) -> dict[str, Any]:
    row = one.row
    opening = reader.messages(row.conversation_id, limit=1)
    return {
        "session_key": row.session_key,
        "conversation_id": row.conversation_id,
        "messages": one.messages,
        "first": format_instant(opening[0].head.created_at if opening else row.created_at, zone),
        "last": format_instant(last, zone),
        "begins": one.begins,
        **{name: value for name in NAMES if (value := getattr(row, name))},
    }


def _last_time(reader: Reader, row: Conversation) -> int:
    newest = reader.heads(row.conversation_id, limit=1)
    return newest[-1].created_at if newest else row.updated_at
