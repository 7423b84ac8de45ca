"""Putting calls and results together, so that any provider accepts the list.

Each result stands directly after its call; a result that came late, displaced or even before its call
is found again. A call without result gets one marked result, except at the very end, where the call is
still open and is left out for now. Ids are made unique on both sides. Inputs are never changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lcm_plugin.ingest.messages import calls_answered, calls_made
from lcm_plugin.types import Message

NO_RESULT = "[lcm: no result of this call was recorded]"
_SYNTHETIC = ("[lcm: no result", "[lossless-claw] missing tool result")


@dataclass(slots=True)
class _Result:
    index: int
    message: Message
    claimed: bool = False


def pair(messages: Sequence[Message]) -> list[Message]:
    """The messages with every call answered, every result behind its call, and every id unique."""
    results = _results_by_id(messages)
    claims = _claim(messages, results)
    unique = _UniqueIds()
    paired: list[Message] = []
    last = len(messages) - 1
    for index, message in enumerate(messages):
        answers = calls_answered(message)
        if answers or message["role"] == "tool":
            continue
        calls = calls_made(message)
        if not calls:
            paired.append(message)
            continue
        found = claims[index]
        if not any(found.values()) and _nothing_follows(messages, index, last):
            continue
        paired += _exchange(message, calls, found, unique)
    return paired


def _results_by_id(messages: Sequence[Message]) -> dict[str, list[_Result]]:
    results: dict[str, list[_Result]] = {}
    for index, message in enumerate(messages):
        for call in calls_answered(message):
            results.setdefault(call, []).append(_Result(index, message))
    return results


def _claim(
    messages: Sequence[Message], results: dict[str, list[_Result]]
) -> dict[int, dict[str, Message | None]]:
    """For each message with calls: its results by id."""
    callers = [(index, calls_made(message)) for index, message in enumerate(messages)]
    callers = [(index, calls) for index, calls in callers if calls]
    next_use: dict[int, dict[str, int]] = {}
    later: dict[str, int] = {}
    for index, calls in reversed(callers):
        next_use[index] = {call: later.get(call, len(messages)) for call in calls}
        later.update(dict.fromkeys(calls, index))
    claims: dict[int, dict[str, Message | None]] = {}
    for index, calls in callers:
        claims[index] = {call: _pick(results.get(call, []), index, next_use[index][call]) for call in calls}
    return claims


def _pick(candidates: list[_Result], call_index: int, until: int) -> Message | None:
    """The result of one call: between it and the id's next use; else one that came too early."""
    free = [result for result in candidates if not result.claimed]
    within = [result for result in free if call_index < result.index < until]
    before = [result for result in free if result.index < call_index]
    chosen = next((result for result in within if not _is_synthetic(result.message)), None)
    chosen = chosen or (before[-1] if before and not within else None) or (within[0] if within else None)
    for result in within:
        result.claimed = True
    if chosen is None:
        return None
    chosen.claimed = True
    return chosen.message


def _is_synthetic(message: Message) -> bool:
    content = message.get("content")
    return isinstance(content, str) and content.startswith(_SYNTHETIC)


def _nothing_follows(messages: Sequence[Message], index: int, last: int) -> bool:
    return all(calls_answered(messages[later]) for later in range(index + 1, last + 1))


def _exchange(
    message: Message, calls: Sequence[str], found: dict[str, Message | None], unique: _UniqueIds
) -> list[Message]:
    names = {call: unique.name(call) for call in calls}
    renamed = any(old != new for old, new in names.items())
    out = [_rename_calls(message, names) if renamed else message]
    emitted: set[int] = set()
    for call in calls:
        result = found[call]
        if result is None:
            out.append({"role": "tool", "tool_call_id": names[call], "content": NO_RESULT})
        elif id(result) not in emitted:
            emitted.add(id(result))
            out.append(_rename_answers(result, names) if renamed else result)
    return out


class _UniqueIds:
    """Gives an id that was used before a new name that no call bears."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def name(self, call: str) -> str:
        candidate, number = call, 2
        while candidate in self._used:
            candidate, number = f"{call}-{number}", number + 1
        self._used.add(candidate)
        return candidate


def _rename_calls(message: Message, names: dict[str, str]) -> Message:
    return _renamed(message, ("id", "call_id"), names)


def _rename_answers(message: Message, names: dict[str, str]) -> Message:
    return _renamed(message, ("tool_call_id", "tool_use_id", "call_id"), names)


def _renamed(message: Message, keys: tuple[str, ...], names: dict[str, str]) -> Message:
    def rename(entry: Any) -> Any:
        if not isinstance(entry, dict):
            return entry
        return {
            key: names.get(value, value) if key in keys and isinstance(value, str) else value
            for key, value in entry.items()
        }

    def rename_all(value: Any) -> Any:
        return [rename(entry) for entry in value] if isinstance(value, list) else value

    return {
        key: names.get(value, value) if key in keys and isinstance(value, str) else rename_all(value)
        for key, value in message.items()
    }
