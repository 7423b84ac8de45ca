"""Hermes Agent's ``state.db``: sessions and messages.

Sessions that go on after a compaction (``end_reason`` compression) share a lane with the one before. A compaction
in place keeps the messages that it replaced (``compacted``); what a user took back is neither active nor compacted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lcm_plugin.interchange.importers.records import Entry, Record, SourceConversation, aside, rest_of
from lcm_plugin.messages.identity import told_time
from lcm_plugin.store.foreign import ForeignDatabase
from lcm_plugin.store.session_keys import hermes_key
from lcm_plugin.types import Message

NAME = "hermes"
_SESSION = (
    "id", "source", "session_key", "user_id", "chat_id", "chat_type", "thread_id", "display_name", "model",
    "model_config", "system_prompt", "parent_session_id", "started_at", "ended_at", "end_reason", "cwd", "git_branch",
    "title", "profile_name",
)  # fmt: skip
_MESSAGE = (
    "id", "role", "content", "tool_call_id", "tool_calls", "tool_name", "effect_disposition", "timestamp",
    "finish_reason", "reasoning", "reasoning_content", "reasoning_details", "codex_reasoning_items",
    "codex_message_items", "platform_message_id", "observed", "active", "compacted", "api_content",
)  # fmt: skip
ROLES = frozenset({"user", "assistant", "system", "tool", "developer"})
_JSON = ("reasoning_details", "codex_reasoning_items", "codex_message_items")
_MAX_CHAIN = 1_000
_BRANCHED, _DELEGATED = "_branched_from", "_delegate_from"


def recognises_database(database: ForeignDatabase) -> bool:
    """Whether a database is Hermes' own."""
    return database.has("sessions", "id", "source", "started_at") and database.has(
        "messages", "session_id", "role", "content", "timestamp"
    )


def read(path: Path) -> Iterator[Record]:
    """The records of a database, session by session."""
    with ForeignDatabase(path) as database:
        sessions = {row["id"]: row for row in database.rows("sessions", _SESSION, order=("started_at", "id"))}
        keys = {session_id: _lane_key(session_id, sessions) for session_id in sessions}
        newest = {keys[session_id]: session_id for session_id in sessions}
        for session_id, row in sessions.items():
            yield from _session(database, row, sessions, keys, live=newest[keys[session_id]] == session_id)


def chat_message(row: Mapping[str, Any]) -> Message:
    """A row as a chat message; JSON columns come back as values."""
    content = row["content"]
    message: Message = {"role": str(row["role"]), "content": _content(content)}
    if calls := decoded(row["tool_calls"]):
        message["tool_calls"] = calls
    if row["role"] == "tool":
        message["tool_call_id"] = row["tool_call_id"] or ""
        if row["tool_name"]:
            message["name"] = row["tool_name"]
    return message


def decoded(text: Any) -> Any:
    """A JSON column's value; the text itself where it is no JSON."""
    if not isinstance(text, str) or not text:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _content(content: Any) -> Any:
    """Contents of several blocks are stored as JSON behind a sign."""
    if not isinstance(content, str):
        return "" if content is None else str(content)
    if content.startswith("\x00json:"):
        return decoded(content[6:])
    return content


def _session(
    database: ForeignDatabase,
    session: Mapping[str, Any],
    sessions: Mapping[str, Mapping[str, Any]],
    keys: Mapping[str, str],
    *,
    live: bool,
) -> Iterator[Record]:
    name, key, parent = str(session["id"]), keys[session["id"]], session["parent_session_id"]
    works_for = parent and not _goes_on(session, sessions) and _BRANCHED not in str(session["model_config"])
    started = told_time({"time": session["started_at"]})
    yield SourceConversation(
        name,
        key=key,
        title=str(session["title"] or ""),
        started_at=started,
        parent=keys.get(parent) or hermes_key("", "", str(parent)) if works_for else "",
        live=live,
        about=rest_of(session, "id", "title", "started_at"),
    )
    for branch in ("", "compacted", "taken-back"):
        begun = branch == ""
        for row in database.rows("messages", _MESSAGE, order=("timestamp", "id"), where={"session_id": name}):
            if _branch_of(row) != branch:
                continue
            if not begun:
                yield SourceConversation(name, branch=branch, key=key, live=False, started_at=started)
                begun = True
            yield _entry(row)


def _branch_of(row: Mapping[str, Any]) -> str:
    if row["active"] in (None, 1):
        return ""
    return "compacted" if row["compacted"] else "taken-back"


def _entry(row: Mapping[str, Any]) -> Record:
    source_id, at = str(row["id"]), told_time({"time": row["timestamp"]})
    if row["role"] not in ROLES:
        return aside(source_id, "agent", rest_of(row, "id"), at)
    message = chat_message(row)
    if row["reasoning_content"] or row["reasoning"]:
        message["reasoning_content"] = row["reasoning_content"] or row["reasoning"]
    about = {name: decoded(row[name]) for name in _JSON if row[name]}
    about |= rest_of(
        row, "id", "role", "content", "tool_calls", "tool_call_id", "tool_name", "timestamp", *_JSON
    )
    for name in ("active", "compacted", "reasoning_content"):
        about.pop(name, None)
    return Entry(source_id, message, at, extras=(("agent", about),) if about else ())


def _lane_key(session_id: str, sessions: Mapping[str, Mapping[str, Any]]) -> str:
    """A session's own key, else that of the session with which its chain of compactions began."""
    own = sessions[session_id]["session_key"]
    for _ in range(_MAX_CHAIN):
        if not _goes_on(sessions[session_id], sessions):
            break
        session_id = sessions[session_id]["parent_session_id"]
    first = sessions[session_id]
    return str(
        own
        or first["session_key"]
        or hermes_key(first["profile_name"] or "", first["source"] or "", session_id)
    )


def _goes_on(session: Mapping[str, Any], sessions: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a compaction made this session; branches and sub-agents begin lanes of their own."""
    parent, config = session["parent_session_id"], str(session["model_config"])
    if parent not in sessions or _BRANCHED in config or _DELEGATED in config:
        return False
    return bool(sessions[parent]["end_reason"] == "compression")
