"""Which of the rows that hold some words come first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import pytest
from messages import user

from lcm_plugin import Engine, Session
from lcm_plugin.recall.match import NO_MATCH, Matcher
from lcm_plugin.recall.query import parse_query
from lcm_plugin.recall.rank import Candidate, Ranked, rank, spread
from lcm_plugin.recall.rank import Corpus as CorpusOf
from lcm_plugin.store.search import SearchRow, Stretch

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
    assert [one.row.position for one in spread(ranked, 5)] == [10, 30, 11, 9, 31]
    assert [one.score for one in spread(ranked, 5)] == pytest.approx([1.0, 0.9, 0.855, 0.5, 0.36])
    # Only the first ones are asked for; none is lost.
    assert [one.row.position for one in spread(ranked, 2)][:2] == [10, 30]
    assert len(spread(ranked, 2)) == 5


@pytest.mark.parametrize("question", ["where did the lamp and the boat meet?", "when did we see a lamp?"])
@pytest.mark.parametrize("seed", range(10))
def test_a_page_is_the_same_when_only_neighbours_that_may_come_on_it_are_read(
    question: str, seed: int
) -> None:
    rng = Random(seed)
    words = ["lamp", "boat", "meet", "see", "tree", "Monday", "seven", "what?", *["so it goes"] * 20]
    talk = {
        place: SearchRow(
            place, f"msg_{place}", 1, place, rng.choice(["user", "assistant"]), None, 0, rng.choice([5, 50, 300]),
            " ".join(rng.choices(words, k=rng.choice([2, 9]))),
        )
        for place in range(1, 400)
    }  # fmt: skip
    query = parse_query(question)
    matcher = Matcher(query)
    candidates = [
        Candidate(row, matches) for row in talk.values() if (matches := matcher.find(row.text)) if matches
    ]
    corpus = CorpusOf(10_000, [0.01] * len(query.units))
    read: list[int] = []

    def ranked(wanted: int | None) -> list[Ranked]:
        read.clear()

        def around(stretches: Sequence[Stretch]) -> Iterator[SearchRow]:
            for place in sorted({at for _, first, last in stretches for at in range(first, last + 1)}):
                if place in talk:
                    read.append(place)
                    yield talk[place]

        return rank(query, candidates, corpus, around, lambda row: matcher.find(row.text), wanted=wanted)

    every, all_read = spread(ranked(None), 10), len(read)
    assert spread(ranked(10), 10)[:10] == every[:10]
    assert len(read) < all_read / 2
