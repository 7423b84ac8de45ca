"""Finds the conversations that a fork descends from, which hold what it copied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lcm_plugin.interchange.importers.entry_rows import FORKED_FROM
from lcm_plugin.messages.blocks import blocks_of
from lcm_plugin.messages.parts import rebuild
from lcm_plugin.store.protocol import Reader


def ancestors(reader: Reader, keys: Sequence[str], own: str) -> list[int]:
    """The conversations of some sessions and of all that these were forked from, branches included, but not its own."""
    found: list[int] = []
    seen, waiting = {own}, [*keys]
    while waiting:
        key = waiting.pop()
        if key not in seen:
            seen.add(key)
            rows = [row.conversation_id for row in reader.lane(key)]
            found += rows
            waiting += [origin for row in rows for origin in _origins(reader, row)]
    return found


def _origins(reader: Reader, conversation_id: int) -> list[str]:
    """The keys of the sessions that an imported conversation begins as."""
    first = next(iter(reader.messages(conversation_id, limit=1)), None)
    blocks = blocks_of(rebuild(first)) if first is not None and first.head.hidden else []
    record: Any = blocks[0].get("record") if blocks and isinstance(blocks[0], Mapping) else None
    found = record.get(FORKED_FROM) if isinstance(record, Mapping) else None
    return [str(key) for key in found] if isinstance(found, list) else []
