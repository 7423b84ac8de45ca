"""Knows what lcm itself added to an agent's context, in that agent's own log: it never comes back as history.

A host logs such a text as a message of its own, as a record about the hook that gave it, or both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lcm_plugin.interchange.importers.records import Entry
from lcm_plugin.messages.markup import holds_added, is_own, plain_text


def is_injected(entry: Entry) -> bool:
    """Whether a message is as a whole one of our texts, or a record of the host holds one."""
    if entry.hidden:
        return any(holds_added(text) for text in _texts([entry.message.get("content"), *entry.extras]))
    text = plain_text(entry.message)
    return text is not None and is_own(text)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _texts(inner)
