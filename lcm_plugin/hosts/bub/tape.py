"""The host's tape as messages.

A tape is append-only. Each model call records one *run*: the new messages, then either tool calls with
their results or the answer, all with the run's id in their ``meta``. The ids made here are the same for a
message that a hook saw and for its record on the tape.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

from lcm_plugin.messages.identity import host_id_of
from lcm_plugin.types import HOST_DATA, Message

_PAGE = 8
_RECORDED = ("message", "tool_call", "tool_result")
_OWN_ANCHORS = ("session/start", "auto_handoff/")


class Entry(Protocol):
    """The host's ``TapeEntry``."""

    @property
    def kind(self) -> str: ...
    @property
    def payload(self) -> dict[str, Any]: ...
    @property
    def meta(self) -> dict[str, Any]: ...
    @property
    def date(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Run:
    """What one model call left on the tape: ``asked`` before the answer, ``answered`` with it."""

    asked: tuple[Message, ...]
    answered: tuple[Message, ...]


def named(message: Mapping[str, Any], name: str, date: str = "") -> Message:
    """The message under an id of its own, and with the time at which the host recorded it."""
    data = {"id": name, "date": date} if date else {"id": name}
    return {**message, HOST_DATA: data}


def bare(messages: Sequence[Message]) -> list[Message]:
    """The messages as the host sends them."""
    return [{key: value for key, value in m.items() if key != HOST_DATA} for m in messages]


def asked_name(run: str, place: int) -> str:
    """The id of a call's new message."""
    return f"{run}/{place}"


def runs_newest_first(entries: Sequence[Entry]) -> Iterator[Run]:
    """The runs of a tape, from its end."""
    group: list[Entry] = []
    for entry in reversed(entries):
        if not is_recorded(entry):
            continue
        if group and _run_of(entry) != _run_of(group[0]):
            yield _run(_run_of(group[0]), group[::-1])
            group = []
        group.append(entry)
    if group:
        yield _run(_run_of(group[0]), group[::-1])


def unseen(entries: Sequence[Entry], known: Callable[[list[str]], set[str]]) -> list[Message]:
    """The messages of a tape that are not stored, in order.

    ``known`` says which of some host ids are stored. It is asked page by page from the tape's end, until a
    page holds nothing new: what came before that was stored before.
    """
    found: list[list[Message]] = []
    runs = runs_newest_first(entries)
    while page := list(islice(runs, _PAGE)):
        ids = [host_id_of(m) or "" for run in page for m in (*run.asked, *run.answered)]
        stored = known(ids)
        fresh = [_new_in(run, stored) for run in page]
        if not any(fresh):
            break
        found += fresh
    return [message for run in reversed(found) for message in run]


def newest_ids(entries: Sequence[Entry], limit: int) -> list[str]:
    """The ids of the newest messages of a tape, about ``limit`` of them, newest first."""
    found: list[str] = []
    for run in runs_newest_first(entries):
        found += [host_id_of(message) or "" for message in (*run.answered[::-1], *run.asked[::-1])]
        if len(found) >= limit:
            break
    return found


def missing_ids(entries: Sequence[Entry], noted: Sequence[str]) -> set[str]:
    """Which of some ids a tape does not hold."""
    missing = set(noted)
    for run in runs_newest_first(entries):
        if not missing:
            break
        missing -= {host_id_of(message) or "" for message in (*run.asked, *run.answered)}
    return missing


def is_handoff(entry: Entry) -> bool:
    """Whether an entry is an anchor that a person, an agent or a plugin set: not at a start or an overflow."""
    return entry.kind == "anchor" and not str(entry.payload.get("name")).startswith(_OWN_ANCHORS)


def is_recorded(entry: Entry) -> bool:
    """Whether an entry is part of what was said."""
    return entry.kind in _RECORDED


def since_last_anchor(entries: Sequence[Entry]) -> list[Entry]:
    """What the host itself would show its model."""
    for index in range(len(entries) - 1, -1, -1):
        if entries[index].kind == "anchor":
            return list(entries[index + 1 :])
    return list(entries)


def _new_in(run: Run, stored: set[str]) -> list[Message]:
    # A call that failed and is tried again has another run's id; its answer tells that it was stored.
    answered = any(host_id_of(m) in stored for m in run.answered)
    asked = [] if answered else [m for m in run.asked if host_id_of(m) not in stored]
    return [*asked, *(m for m in run.answered if host_id_of(m) not in stored)]


def _run_of(entry: Entry) -> str:
    return str(entry.meta.get("run_id") or entry.date)


def _run(name: str, entries: Sequence[Entry]) -> Run:
    asked: list[Message] = []
    answered: list[Message] = []
    calls: list[dict[str, Any]] = []
    for entry in entries:
        if entry.kind == "tool_call":
            calls = [dict(call) for call in entry.payload.get("calls") or () if isinstance(call, Mapping)]
            answered.append(named(calling(calls, entry.payload.get("content")), name, entry.date))
        elif entry.kind == "tool_result":
            results = entry.payload.get("results")
            answered += [
                named(_result(result, calls, place), asked_name(name, place), entry.date)
                for place, result in enumerate(results if isinstance(results, list) else ())
            ]
        elif entry.payload.get("role") == "assistant":
            answered.append(named(entry.payload, name, entry.date))
        elif isinstance(entry.payload.get("role"), str):
            asked.append(named(entry.payload, asked_name(name, len(asked)), entry.date))
    return Run(tuple(asked), tuple(answered))


def calling(calls: Sequence[Mapping[str, Any]], text: object) -> Message:
    """An assistant's message with tool calls, as the host sends it."""
    return {"role": "assistant", "content": text or "", "tool_calls": [dict(call) for call in calls]}


def _result(result: Any, calls: Sequence[Mapping[str, Any]], place: int) -> Message:
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)
    message: Message = {"role": "tool", "content": text}
    if place < len(calls):
        call = calls[place]
        function = call.get("function")
        message["tool_call_id"] = call.get("id")
        if isinstance(function, Mapping) and function.get("name"):
            message["name"] = function["name"]
    return message
