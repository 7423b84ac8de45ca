"""Which of OpenClaw's sessions belong together, by their keys: those that are quoted in each other."""

from __future__ import annotations

import re
from collections.abc import Callable

from lcm_plugin.recall.scope import Scope, since_reset
from lcm_plugin.store.protocol import Reader

# As OpenClaw writes agents and names of sessions: a key in other letters is none that it made of these.
_OWNERS = re.compile(r"agent:([a-z0-9][a-z0-9_-]*):((?=[0-9_-]*[a-z])[a-z0-9][a-z0-9_-]*)", re.ASCII)
_NO_NAMES = frozenset(
    {
        "acp",
        "boot",
        "channel",
        "cron",
        "dashboard",
        "direct",
        "dm",
        "explicit",
        "global",
        "group",
        "heartbeat",
    }
    | {"hook", "node", "room", "run", "slash", "subagent", "thread", "topic", "unknown"}
)
"""Words that say of what kind a session is, or that all peers share it."""


def owners_agent(session_key: str) -> str:
    """The agent with whose owner a session talks, for the main session and those that the owner named; else empty.

    ``agent:A:NAME`` names no peer. A key with one, of a sub-agent or a job, or in any other form, stands alone: what one
    person said never reaches another person's chat.
    """
    match = _OWNERS.fullmatch(session_key)
    return match.group(1) if match and match.group(2) not in _NO_NAMES else ""


def quoted_in(reader: Reader, session_key: str, is_hidden: Callable[[str], bool]) -> Scope | None:
    """The conversations of the sessions that belong to a session, and its own; None where there are no others."""
    agent = owners_agent(session_key)
    if not agent:
        return None
    among = {
        number: key
        for number, key in since_reset(reader, f"agent:{agent}:")
        if owners_agent(key) == agent and not is_hidden(key)
    }
    return Scope(tuple(among)) if set(among.values()) - {session_key} else None
