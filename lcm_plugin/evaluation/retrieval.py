"""How well ``lcm_grep`` finds the evidence of a question that is asked exactly as it stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lcm_plugin.engine import Engine
from lcm_plugin.evaluation.records import Question
from lcm_plugin.evaluation.tally import Tally
from lcm_plugin.types import Message, Session

HITS = 10
Call = Callable[[str, Mapping[str, Any]], dict[str, Any]]


def places_of(engine: Engine, session: Session, messages: Sequence[Message]) -> dict[str, int]:
    """The place in the talk of each stored message, by its id (``msg_…``)."""
    stored = engine.record.newest(session, len(messages) + 1)
    found: dict[str, int] = {}
    place = 0
    for row in stored:
        content = engine.record.whole(row).get("content")
        # An instruction that comes again is stored once, so the talk may hold more messages than the database.
        while place < len(messages) and messages[place].get("content") != content:
            place += 1
        if place < len(messages):
            found[row.head.ref] = place
            place += 1
    return found


def found_by(call: Call, text: str, places: Mapping[str, int]) -> tuple[list[int], dict[str, Any]]:
    """The places of the first ten messages found, best first, and the tool's whole answer."""
    answer = call("lcm_grep", {"pattern": text, "limit": HITS})
    return [places[hit["id"]] for hit in answer.get("hits", ()) if hit["id"] in places], answer


def judge_hits(tally: Tally, question: Question, found: Sequence[int]) -> None:
    """Counts a question's evidence among the places found."""
    tally.searched += 1
    tally.hit_1 += bool(found) and found[0] in question.places
    tally.hit_10 += not question.places.isdisjoint(found)
    tally.all_10 += question.places <= set(found)
