"""The tool with which an agent keeps a line in view, where the setting ``pinTool`` gives it to agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lcm_plugin.errors import InputError
from lcm_plugin.recall.tools import PinArguments, check
from lcm_plugin.sessions.pins import Pins
from lcm_plugin.types import Session

_AGENT = "agent"


def call_pin_tool(pins: Pins, session: Session, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Unpins, then pins, and returns what is pinned now. Raises `InputError` and `NotFound` as `Pins` does."""
    asked = check(PinArguments, name, arguments)
    if not asked.text and not asked.unpin:
        raise InputError(f"{name}: give a text to pin, or pins to remove as unpin")
    if asked.unpin:
        pins.unpin(session, asked.unpin, by=_AGENT)
    answer: dict[str, Any] = {}
    if asked.text:
        answer["pinned"] = pins.pin(session, asked.text, by=_AGENT).pin_id
    board = pins.board(session)
    answer["pins"] = [
        {"id": one.pin_id, "by": one.pinned_by, "tokens": one.tokens, "text": one.text} for one in board.pins
    ]
    return answer | {"tokens_free": max(0, board.allowed - board.used)}
