"""ShareGPT collections: an array or lines of objects whose ``conversations`` are turns ``from`` somebody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lcm_plugin.interchange.importers.json_files import json_objects
from lcm_plugin.interchange.importers.records import (
    Broken,
    Entry,
    Record,
    SourceConversation,
    content_id,
    rest_of,
)
from lcm_plugin.messages.identity import told_time

NAME = "sharegpt"
_ROLES = {
    **dict.fromkeys(("human", "user", "observation", "tool", "function_response"), "user"),
    **dict.fromkeys(("gpt", "chatgpt", "bing", "bard", "assistant", "function_call"), "assistant"),
    "system": "system",
}


def recognises(first: Any, path: Path) -> bool:
    """Whether a file whose first value is this is of this format."""
    turns = first.get("conversations") if isinstance(first, dict) else None
    return isinstance(turns, list) and all(isinstance(one, dict) and "from" in one for one in turns[:3])


def read(path: Path) -> Iterator[Record]:
    """The records of a collection."""
    for line in json_objects(path):
        turns = line.value.get("conversations")
        if line.error or not isinstance(turns, list):
            yield Broken(line.number, line.error or "no conversation")
            continue
        given = line.value.get("id")
        name = str(given) if isinstance(given, (str, int)) and given != "" else f"{path.stem}:{line.number}"
        yield SourceConversation(
            name,
            title=str(line.value.get("title") or ""),
            started_at=told_time(line.value),
            about=rest_of(line.value, "conversations", "title"),
        )
        for place, turn in enumerate(turns, 1):
            yield _turn(turn, place, line.number)


def _turn(turn: Any, place: int, number: int) -> Record:
    where = f"line {number}, turn {place}"
    if not isinstance(turn, dict) or turn.get("from") not in _ROLES:
        return Broken(number, f"turn {place}: nobody known says this")
    told: Mapping[str, Any] = turn
    message = {"role": _ROLES[told["from"]], "content": str(told.get("value") or "")}
    about = rest_of(told, "value")
    return Entry(content_id(place, told), message, told_time(told), extras=(("agent", about),), place=where)
