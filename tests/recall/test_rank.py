"""Which of the rows that hold some words come first."""

from __future__ import annotations

import pytest
from messages import user

from lcm_plugin import Engine, Session
from lcm_plugin.recall.match import NO_MATCH
from lcm_plugin.recall.rank import Ranked, spread
from lcm_plugin.store.search import SearchRow

DAY = 86_400_000
TUESDAY = 1_699_956_000_000  # 14 November 2023


def found(engine: Engine, session: Session, question: str) -> list[str]:
    hits = engine.call_tool(session, "lcm_grep", {"pattern": question})["hits"]
    return [hit["snippet"].replace("**", "") for hit in hits]


@pytest.mark.both_stores
def test_a_day_that_the_answer_names_counts_as_the_day_it_was_said(engine: Engine, session: Session) -> None:
    said = [user(f"We went bowling, {n} of us.", created_at=TUESDAY + n * DAY) for n in range(20)]
    named = user("Last Tuesday we went bowling.", created_at=TUESDAY + 10 * DAY)
    engine.ingest(session, [*said, named])
    best = found(engine, session, "who went bowling on 21 November 2023?")[:2]
    assert sorted(best) == ["Last Tuesday we went bowling.", "We went bowling, 7 of us."]


def test_a_question_for_a_number_is_answered_with_one(engine: Engine, session: Session) -> None:
    said = [
        "Twelve lamps light the hall.",
        "The lamps of the hall are lit.",
        "The lamps of the hall are old.",
    ]
    engine.ingest(session, [user(text) for text in said])
    assert "Twelve" in found(engine, session, "How many lamps does the hall have?")[0]
    assert "Twelve" not in found(engine, session, "What lamps does the hall have?")[0]


def test_what_stands_beside_a_better_hit_makes_way_for_another_place() -> None:
    def at(position: int, score: float, conversation: int = 1) -> Ranked:
        row = SearchRow(position, f"msg_{position}", conversation, position, "user", None, 0, 9, "a lamp")
        return Ranked(row, NO_MATCH, score)

    ranked = [at(10, 1.0), at(11, 0.95), at(30, 0.9), at(9, 0.5, conversation=2), at(31, 0.4)]
    assert [one.row.position for one in spread(ranked)] == [10, 30, 11, 9, 31]
    assert [one.score for one in spread(ranked)] == pytest.approx([1.0, 0.9, 0.855, 0.5, 0.36])
