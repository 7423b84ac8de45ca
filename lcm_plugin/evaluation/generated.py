"""A small data set made from a seed: facts within a tool-heavy talk, and questions about them. For runs without data."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from random import Random

from lcm_plugin.evaluation.corpus import Corpus
from lcm_plugin.evaluation.facts import facts
from lcm_plugin.evaluation.records import Evidence, Question, Talk
from lcm_plugin.types import Message

TALKS, TURNS, FACTS = 2, 40, 20


def generated(seed: int) -> Iterator[Talk]:
    """The talks. Each fact is one sentence of a user's message, an answer or a tool's result in turn."""
    for number in range(TALKS):
        random = Random(f"{seed}:{number}")
        turns = list(islice(Corpus(100 * seed + number).turns(), TURNS))
        # The last turns hold no fact, so that the smallest window does not simply end with them.
        planted = {1 + place * (TURNS - 10) // FACTS: fact for place, fact in enumerate(facts(random, FACTS))}
        messages, questions = list[Message](), list[Question]()
        for place, turn in enumerate(turns):
            if fact := planted.get(place):
                index = (0, len(turn) - 1, len(turn) // 2)[place % 3]
                turn[index] = {**turn[index], "content": f"{turn[index]['content']}\n{fact.statement}"}
                where = Evidence(len(messages) + index, fact.statement)
                questions.append(
                    Question(f"generated-{number}/{place}", fact.question, (where,), fact.value, "fact")
                )
            messages += turn
        yield Talk(f"generated-{number}", messages, tuple(questions))
