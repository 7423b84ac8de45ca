"""Which conversations a person means by a number, a session key or id, or a glob."""

from __future__ import annotations

from lcm_plugin.errors import NotFound
from lcm_plugin.sessions.globs import matches
from lcm_plugin.sessions.library import Library
from lcm_plugin.store.records import Conversation

EVERYTHING = "**"


def chosen_conversations(library: Library, selector: str) -> list[Conversation]:
    """The conversations, oldest first: one by its number, or all that a session key, id or glob has.

    Raises `NotFound` when there is none.
    """
    if "*" in selector:
        found = [row for row in library.conversations() if matches(selector, row.session_key)]
    else:
        one = library.conversation(selector)
        by_number = selector.isascii() and selector.isdigit() and one.conversation_id == int(selector)
        found = [one] if by_number else [row for row in library.conversations() if _of_key(row, one)]
    if not found:
        raise NotFound(f"no conversation matches {selector!r}")
    return found


def _of_key(row: Conversation, one: Conversation) -> bool:
    """A conversation without a key matches only itself."""
    if not one.session_key:
        return row.conversation_id == one.conversation_id
    return row.session_key == one.session_key
