"""Which heartbeat cycles did nothing.

A host polls its agent now and then ("read HEARTBEAT.md; if nothing needs attention answer
HEARTBEAT_OK"). A cycle is idle when it is exactly such a poll and the bare token as answer. One tool
call, one other sentence or one attachment makes it work, and work is kept.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lcm_plugin.messages.blocks import calls_of, only_text
from lcm_plugin.types import Message

TOKEN = "HEARTBEAT_OK"
_DECORATION = " \t\r\n*_`~\"'.!"
_POLL = re.compile(r"heartbeat", re.IGNORECASE)
_BARE_POLL = re.compile(r"\W*poll\W*", re.IGNORECASE)


def idle_heartbeat_rows(messages: Sequence[Message]) -> list[int]:
    """Indices of the messages that form idle heartbeat cycles, ascending.

    A cycle is a user's poll directly followed by the assistant's bare ``HEARTBEAT_OK``. What cannot
    be read for certain is not idle.
    """
    rows: list[int] = []
    for index in range(1, len(messages)):
        if is_poll(messages[index - 1]) and is_idle_answer(messages[index]):
            rows += [index - 1, index]
    return rows


def is_poll(message: Message) -> bool:
    """Whether a message is a heartbeat poll: a user's text that names the heartbeat."""
    text = only_text(message) if message.get("role") == "user" else None
    return text is not None and bool(_POLL.search(text) or _BARE_POLL.fullmatch(text))


def is_idle_answer(message: Message) -> bool:
    """Whether a message is the assistant's bare token, with no call and nothing else."""
    if message.get("role") != "assistant" or calls_of(message) or message.get("function_call"):
        return False
    text = only_text(message)
    return text is not None and _undecorated(text) == TOKEN


def _undecorated(text: str) -> str:
    return text.strip(_DECORATION)
