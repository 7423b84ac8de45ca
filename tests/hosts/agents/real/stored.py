"""Looking at what was stored: the talk of a session, and that nothing of ours is in it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from real_agents import Agent

from lcm_plugin import Engine, LcmConfig
from lcm_plugin.messages.blocks import calls_of, text_of
from lcm_plugin.messages.parts import rebuild
from lcm_plugin.store.protocol import iterate_messages


@dataclass
class Row:
    """A stored row: ``said`` is its text, ``calls`` the names of the tools that it calls, ``gone`` if it was taken back."""

    key: str
    role: str
    said: str
    calls: list[str]
    hidden: bool
    gone: bool
    active: bool
    whole: str


def rows_of(database: Path) -> list[Row]:
    """Every row of every conversation."""
    if not database.exists():
        return []
    with Engine.open(LcmConfig(database=str(database)), read_only=True) as engine:
        found = []
        for conversation in engine.library.conversations():
            with engine.store.read() as reader:
                for one in iterate_messages(reader, conversation.conversation_id):
                    message = rebuild(one)
                    calls = [call.name for call in calls_of(message)]
                    parts = "\n".join(f"{part.text} {part.metadata or ''}" for part in one.parts)
                    found.append(
                        Row(
                            conversation.session_key,
                            one.head.role,
                            text_of(message),
                            calls,
                            one.head.hidden and one.head.withdrawn_at is None,
                            one.head.withdrawn_at is not None,
                            conversation.active,
                            parts,
                        )
                    )
        return found


def talk_of(database: Path, key: str) -> list[Row]:
    """What people and models said and did in a session, with tools' results, also what was taken back."""
    return [row for row in rows_of(database) if row.key == key and not row.hidden]


def said_in(database: Path, key: str) -> list[tuple[str, str]]:
    """Role and text of the talk, in order, where there is a text."""
    return [(row.role, row.said) for row in talk_of(database, key) if row.said.strip()]


def twice(rows: list[Row]) -> list[str]:
    """Texts of prompts and answers that are stored more than once among rows."""
    counts = Counter(row.said for row in rows if row.role in ("user", "assistant") and "[[say" in row.said)
    return [text for text, count in counts.items() if count > 1]


def doubled_by_an_import(agent: Agent, logs: Path) -> list[Row]:
    """The talk that an import of an agent's own logs stores once more than its hooks did.

    What is new in it is no double: on a busy machine an agent ends before its last hook has stored the turn, and Claude
    Code writes records behind it.
    """
    before = rows_of(agent.database)
    agent.lcm("import", str(logs), "--apply")
    after = rows_of(agent.database)
    for row in before:
        after.remove(row)
    known = {(row.key, row.role, row.said, *row.calls) for row in before}
    return [row for row in after if not row.hidden and (row.key, row.role, row.said, *row.calls) in known]
