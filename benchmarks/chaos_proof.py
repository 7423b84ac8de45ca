"""What must hold after a chaos run: the journals of the hosts against the store."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos_host import SETTINGS, Place
from chaos_talk import Message, Run, Talk, read_talk

from lcm_plugin import Engine, LcmConfig, Session

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from fakes.validity import problems_of
from invariants import broken_invariants


@dataclass(slots=True)
class Proof:
    """What was acknowledged, and what of it is not as it should be, in numbers and in words."""

    acknowledged: int = 0
    stored: int = 0
    summaries: int = 0
    lost: int = 0
    doubled: int = 0
    faults: list[str] = field(default_factory=list)


def prove(place: Place) -> Proof:
    """Compares every talk, checks all invariants, runs the doctor and assembles every context."""
    proof = Proof()
    with Engine.open(LcmConfig(database=place.database, **SETTINGS)) as engine:
        for number in range(place.talks):
            stored = _stored(engine, place.key(number))
            proof.stored += len(stored)
            if place.style(number) == "room":
                _compare_room(_room(place, number), stored, proof)
            else:
                _compare(place.talk(number), stored, proof)
            if stored:
                _assemble(engine, place.key(number), proof)
        report = engine.check()
        proof.summaries = sum(engine.library.status().summaries_by_depth.values())
    proof.faults += [
        f"doctor: {one.code}: {one.message}" for one in report.findings if one.severity == "error"
    ]
    if not report.complete:
        proof.faults.append("doctor: the check is not complete")
    proof.faults += broken_invariants(place.database)
    return proof


def _stored(engine: Engine, key: str) -> list[Message]:
    """Everything of a lane, from its first conversation on."""
    with engine.store.read() as reader:
        lane = reader.lane(key)
    return [engine.library.whole(one) for row in lane for one in engine.library.messages(row.conversation_id)]


def _compare(talk: Talk, stored: list[Message], proof: Proof) -> None:
    """One run after the other: what was acknowledged, then perhaps what was told when the run was cut off."""
    at = 0
    for run in talk.runs:
        proof.acknowledged += run.stored
        sure = run.messages[: run.stored]
        if stored[at : at + len(sure)] != sure:
            _tell_difference(talk.key, talk.runs, stored, proof)
            return
        at += len(sure)
        for unsure in run.messages[run.stored :]:
            if at < len(stored) and stored[at] == unsure:
                at += 1
    if at != len(stored):
        _tell_difference(talk.key, talk.runs, stored, proof)


def _tell_difference(key: str, runs: Sequence[Run], stored: Sequence[Message], proof: Proof) -> None:
    sure = Counter(_words(one) for run in runs for one in run.messages[: run.stored])
    told = Counter(_words(one) for run in runs for one in run.messages)
    there = Counter(map(_words, stored))
    lost, doubled = sure - there, there - told
    proof.lost += lost.total()
    proof.doubled += doubled.total()
    proof.faults.append(
        f"{key}: {lost.total()} lost {_some(lost)}, {doubled.total()} doubled {_some(doubled)}"
        + ("" if lost or doubled else ": not in the order in which it was said")
    )


def _compare_room(talks: Sequence[Talk], stored: Sequence[Message], proof: Proof) -> None:
    """What each process said stands there once, in its order."""
    places: dict[str, list[int]] = {}
    for index, message in enumerate(stored):
        places.setdefault(_words(message), []).append(index)
    said = {_words(one) for talk in talks for one in talk.run.messages}
    for talk in talks:
        proof.acknowledged += talk.run.stored
        found = [places.get(_words(one), []) for one in talk.run.messages]
        lost = sum(not one for one in found[: talk.run.stored])
        doubled = sum(len(one) - 1 for one in found if one)
        proof.lost += lost
        proof.doubled += doubled
        if lost or doubled:
            proof.faults.append(f"{talk.path.name}: {lost} lost, {doubled} doubled")
        order = [one[0] for one in found if one]
        if order != sorted(order):
            proof.faults.append(f"{talk.path.name}: not in the order in which it was said")
    if strange := set(places) - said:
        proof.faults.append(f"{talks[0].key if talks else '?'}: nobody said {sorted(strange)[:3]}")


def _room(place: Place, number: int) -> list[Talk]:
    paths = sorted(place.folder.glob(f"room-{number}-*.jsonl"))
    return [read_talk(path, place.key(number), "room") for path in paths]


def _assemble(engine: Engine, key: str, proof: Proof) -> None:
    context = engine.assemble(Session(key), 8_000)
    problems = problems_of(context.messages, model_must_answer=False) if context.messages else []
    if problems:
        proof.faults.append(f"{key}: an invalid context: {problems[:3]}")


def _words(message: Message) -> str:
    return json.dumps(message, sort_keys=True)


def _some(counted: Counter[str]) -> list[str]:
    return [words[:160] for words, _ in list(counted.items())[:3]]


def diaries(place: Place) -> list[dict[str, Any]]:
    """Everything that the processes noted; half a line that a kill left counts for nothing."""
    lines: list[dict[str, Any]] = []
    for path in place.folder.glob("diary-*.jsonl"):
        whole, _, _ = path.read_text().rpartition("\n")
        lines += [json.loads(line) for line in whole.split("\n") if line]
    return lines
