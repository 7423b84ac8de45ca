"""Codex's rollouts: ``~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl``.

Each line has a type and a payload: ``response_item`` is what the model saw or wrote, ``event_msg`` what happened
around it (it repeats what was said), ``compacted`` a compaction, ``session_meta`` and ``turn_context`` the settings.
The first versions wrote bare items. Rolled-back turns are a branch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lcm_plugin.interchange.importers.codex_items import (
    item_entry,
    part_type_of,
    said_by_event,
    starts_turn,
    text_of_item,
)
from lcm_plugin.interchange.importers.lines import Line, LineFile
from lcm_plugin.interchange.importers.records import Broken, Fold, Lane, Record, Repeat, aside, content_id
from lcm_plugin.messages.identity import told_time

NAME = "codex"
_OUTER = frozenset(
    {
        "session_meta",
        "response_item",
        "event_msg",
        "turn_context",
        "compacted",
        "world_state",
        "inter_agent_communication",
    }
)
_ITEMS = frozenset({"message", "reasoning", "function_call", "function_call_output", "local_shell_call"})


def recognises(first: Any, path: Path) -> bool:
    """Whether a file whose first value is this is of this format."""
    if not isinstance(first, dict):
        return False
    if first.get("type") in _OUTER and isinstance(first.get("payload"), dict):
        return True
    bare_header = "type" not in first and {"id", "timestamp", "instructions"} <= first.keys()
    return path.name.startswith("rollout-") and (bare_header or first.get("type") in _ITEMS)


@dataclass(slots=True)
class _Index:
    """What a first pass finds: the session, what was said as items, and which lines were rolled back."""

    name: str = ""
    about: dict[str, Any] = field(default_factory=dict)
    started_at: int | None = None
    said: set[int] = field(default_factory=set)
    dead: list[tuple[int, int]] = field(default_factory=list)

    def is_dead(self, number: int) -> bool:
        return any(low <= number < high for low, high in self.dead)


def read(path: Path) -> Iterator[Record]:
    """The records of a file: what stands, then each roll-back's turns."""
    with LineFile(path) as lines:
        index = _look_over(lines, path)
        parent = _parent_of(index.about)
        yield Lane(index.name, started_at=index.started_at, parent=parent, about=index.about)
        yield from _records(lines, index, lambda number: not index.is_dead(number), tell_broken=True)
        for low, high in index.dead:
            yield Lane(index.name, branch=f"line-{low}", live=False, about={"rolled_back_at": f"line {high}"})
            yield from _records(lines, index, lambda number, a=low, b=high: a <= number < b)


def _look_over(lines: LineFile, path: Path) -> _Index:
    index = _Index(path.stem)
    turns: list[int] = []
    named = False
    for line in lines:
        if line.error:
            continue
        kind, payload = _taken_apart(line.value)
        if index.started_at is None:
            index.started_at = told_time(line.value) or told_time(payload)
        if kind == "session_meta" and not named:
            named = True
            index.name = str(payload.get("id") or payload.get("session_id") or index.name)
            index.about = dict(payload)
        elif kind == "response_item":
            if text := text_of_item(payload):
                index.said.add(hash(text))
            if starts_turn(payload):
                turns.append(line.number)
        elif kind == "event_msg" and payload.get("type") == "thread_rolled_back":
            count = payload.get("num_turns")
            if isinstance(count, int) and count > 0 and turns:
                low = turns[max(0, len(turns) - count)]
                del turns[max(0, len(turns) - count) :]
                index.dead = [span for span in index.dead if span[0] < low]
                index.dead.append((low, line.number))
    return index


def _parent_of(about: Mapping[str, Any]) -> str:
    """The thread that a sub-agent's thread works for."""
    source = about.get("source")
    agent = source.get("subagent", source.get("sub_agent")) if isinstance(source, dict) else None
    spawn = agent.get("thread_spawn") if isinstance(agent, dict) else None
    found = spawn.get("parent_thread_id") if isinstance(spawn, dict) else about.get("parent_thread_id")
    return str(found) if found else ""


def _records(lines: LineFile, index: _Index, wanted: Any, *, tell_broken: bool = False) -> Iterator[Record]:
    last = ""
    for line in lines:
        if line.error:
            if tell_broken:
                yield Broken(line.number, line.error)
            continue
        if not wanted(line.number):
            continue
        record = _record(line, index, last)
        yield record
        if isinstance(record, Fold):
            last = record.entry.host_id
        elif not isinstance(record, (Repeat, Lane, Broken)):
            last = getattr(record, "host_id", last)


def _record(line: Line, index: _Index, last: str) -> Record:
    kind, payload = _taken_apart(line.value)
    at = told_time(line.value) or told_time(payload)
    place = f"line {line.number}"
    source_id = content_id(line.number, line.value)
    if kind == "response_item":
        return item_entry(source_id, payload, at, place)
    if kind == "compacted":
        entry = aside(source_id, "compaction", payload, at, place)
        text = payload.get("message")
        return Fold(text, last, entry) if isinstance(text, str) and text.strip() and last else entry
    if kind == "event_msg":
        said = said_by_event(payload)
        if said is not None and hash(said) in index.said:
            return Repeat(f"event_msg/{payload.get('type')}")
    return aside(source_id, part_type_of(kind, payload), line.value, at, place)


def _taken_apart(value: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """A line's type and payload; a bare item is a response item, a bare header the session's."""
    kind, payload = value.get("type"), value.get("payload")
    if isinstance(payload, dict):
        return str(kind), payload
    if kind in _ITEMS or (isinstance(kind, str) and kind.endswith(("_call", "_call_output"))):
        return "response_item", dict(value)
    if kind is None and "id" in value and "timestamp" in value:
        return "session_meta", dict(value)
    return str(kind or value.get("record_type") or ""), dict(value)
