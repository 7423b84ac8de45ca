"""A data set as the evaluation sees it: talks, and questions with the passages that hold their answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lcm_plugin.recall.query import is_function_word
from lcm_plugin.types import Message

Scoring = Literal["judge", "oolong"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """A passage that holds an answer: the place of its message in the talk, and its text word for word."""

    place: int
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """One question of a data set.

    ``evidence`` is empty for a question that nothing in the talk answers, or whose data set names no passages.
    ``rubric`` holds what an answer must say, where the data set lists that. ``when`` is the date on which it is asked.
    """

    key: str
    text: str
    evidence: tuple[Evidence, ...] = ()
    answer: str = ""
    kind: str = ""
    rubric: tuple[str, ...] = ()
    when: str = ""
    scoring: Scoring = "judge"

    @property
    def places(self) -> frozenset[int]:
        """The messages that hold evidence, by their places in the talk."""
        return frozenset(one.place for one in self.evidence)


@dataclass(frozen=True, slots=True)
class Talk:
    """The messages of one history and the questions about it."""

    name: str
    messages: list[Message]
    questions: tuple[Question, ...]

    def shortened(self, messages: int | None, questions: int | None) -> Talk:
        """The first so many messages, and about so many of the questions that they answer, evenly spread."""
        kept = self.messages[:messages]
        asked = [one for one in self.questions if all(place < len(kept) for place in one.places)]
        step = max(1, len(asked) // questions) if questions else 1
        return replace(self, messages=kept, questions=tuple(asked[::step]))


def words_of(text: str) -> set[str]:
    """The content words of a text, in small letters."""
    return {word for word in re.findall(r"\w+", text.lower()) if not is_function_word(word)}


def whole_messages(messages: Sequence[Message], places: Sequence[int]) -> tuple[Evidence, ...]:
    """Evidence that is the whole content of some messages, without blanks round it."""
    return tuple(Evidence(place, str(messages[place]["content"]).strip()) for place in sorted(set(places)))
