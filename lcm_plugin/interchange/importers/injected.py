"""Knows what lcm itself added to an agent's context, in that agent's own log: it never comes back as history.

A host logs such a text as a message of its own, as a record about the hook that gave it, or both.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lcm_plugin.interchange.importers.records import Entry
from lcm_plugin.messages.markup import holds_added, is_own, plain_text


def is_injected(entry: Entry) -> bool:
    """Whether a message is as a whole one of our texts, or a record of the host holds one."""
    if entry.hidden:
        return _holds_added([entry.message.get("content"), entry.extras])
    text = plain_text(entry.message)
    return text is not None and is_own(text)


def holds_injected(entry: Entry) -> bool:
    """Whether the data that stands beside a message holds one of our texts."""
    return _holds_added(entry.extras)


def without_injected(entry: Entry) -> Entry:
    """The entry without our texts in the data that stands beside its message."""
    kept = ((kind, _without(dict(data))) for kind, data in entry.extras)
    return replace(entry, extras=tuple((kind, data) for kind, data in kept if data))


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without(one) for key, one in value.items() if not _is_ours(one)}
    return [_without(one) for one in value if not _is_ours(one)] if isinstance(value, list) else value


def _is_ours(value: Any) -> bool:
    return isinstance(value, str) and holds_added(value)


def _holds_added(value: Any) -> bool:
    if isinstance(value, str):
        return holds_added(value)
    if isinstance(value, dict):
        return any(map(_holds_added, value.values()))
    return isinstance(value, (list, tuple)) and any(map(_holds_added, value))
