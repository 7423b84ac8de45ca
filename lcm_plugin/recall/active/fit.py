"""How well messages fit what is asked, and which of them may be quoted."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

from lcm_plugin.messages.blocks import is_instruction
from lcm_plugin.recall.active.asked import without_questions
from lcm_plugin.recall.match import cut_around, window
from lcm_plugin.recall.query import CJK_RUN, WORD, ParsedQuery, fold
from lcm_plugin.recall.rank import Ranked
from lcm_plugin.recall.tools import is_recall_tool
from lcm_plugin.store.search import SearchRow
from lcm_plugin.summarize.directives import is_directive

NEW_WORDS, FIRST_WORDS, LOOKED_AT = 2, 100, 1_000
# A sentence is said again with another value when so many of its words come back, and at most so many do not.
SAME_WORDS, OTHER_WORDS = 5, 3
QUESTION_MARKS = ("?", "？")
_SENTENCE = re.compile(r"[^.!?？\n]+")


class Shares:
    """The share of the request's words, by weight, that a row and the rows beside it hold."""

    def __init__(self, weights: Sequence[float], beside: Iterable[Ranked]) -> None:
        self._weights = weights
        self._total = sum(weights) or 1.0
        self._placed = {(one.row.conversation_id, one.row.position): one for one in beside}

    def of(self, one: Ranked, counts: Callable[[Ranked], bool] | None = None) -> float:
        """0 to 1; of the rows beside it only those that count."""
        here, at = one.row.conversation_id, one.row.position
        beside = (self._placed.get((here, at + step)) for step in (-1, 0, 1))
        spans = [
            near.matches.spans
            for near in beside
            if near is not None and (near is one or counts is None or counts(near))
        ]
        held = (weight for index, weight in enumerate(self._weights) if any(each[index] for each in spans))
        return sum(held) / self._total


def names_it(query: ParsedQuery, one: Ranked) -> bool:
    """Whether a row holds an identifier of the request, which names one thing."""
    return any(
        unit.is_identifier and spans for unit, spans in zip(query.units, one.matches.spans, strict=True)
    )


def gives_orders(row: SearchRow) -> bool:
    """Whether it is a tool's output that orders its reader about."""
    return row.is_tool_output and is_directive(row.text)


def may_be_quoted(row: SearchRow, query: ParsedQuery) -> bool:
    """Whether a message says more than the request itself, and is neither an instruction nor a recall tool's answer."""
    return not is_instruction(row.role) and not is_recall_tool(row.tool_name) and _says_more(row.text, query)


def asks_the_same(one: Ranked, query: ParsedQuery) -> bool:
    """Whether a message was found by a question that says no more than the request: it cannot be the answer."""
    sentence, is_question = _sentence_found(one)
    return is_question and not _says_more(sentence, query)


def _says_more(text: str, query: ParsedQuery) -> bool:
    asked = {*query.words, *"".join(unit.text for unit in query.units if unit.kind == "cjk")}
    # Nearly always the first words tell.
    if len(text) > FIRST_WORDS and _has_new(text[: text.rfind(" ", 0, FIRST_WORDS) + 1], asked):
        return True
    return _has_new(text[:LOOKED_AT], asked)


def _has_new(text: str, asked: set[str]) -> bool:
    new = set[str]()
    for word in _words(text):
        if word not in asked:
            new.add(word)
            # One number that was not asked with can be the whole answer.
            if len(new) == NEW_WORDS or any(map(str.isdigit, word)):
                return True
    return False


class Later:
    """What newer messages say, to find out whether an older one is said again in them with another value."""

    def __init__(self, newer: Sequence[Ranked]) -> None:
        self._newer = newer
        self._newest = max(map(place_of, newer), default=(0, 0))

    def says_again(self, old: Ranked) -> bool:
        """Whether one of them has the sentence that a message was found by, but for a value."""
        place = place_of(old)
        if place >= self._newest:
            return False
        sentence, is_question = _sentence_found(old)
        said = list(_words(sentence))
        if len(set(said)) < SAME_WORDS:
            return False
        newer = (words for at, words in (self._words if is_question else self._stated) if at > place)
        changed = [other for words in newer if (other := _other_value(said, words)) is not None]
        if not changed:
            return False
        asked = set(_words(" ".join(old.row.text[start:end] for start, end in old.matches.sorted_spans)))
        return any(map(asked.isdisjoint, changed))

    @cached_property
    def _texts(self) -> list[tuple[tuple[int, int], str]]:
        return [(place_of(one), cut_around(one.row.text, one.matches, LOOKED_AT)) for one in self._newer]

    @cached_property
    def _words(self) -> list[tuple[tuple[int, int], set[str]]]:
        return [(place, words) for place, text in self._texts for words in _sentences(text)]

    @cached_property
    def _stated(self) -> list[tuple[tuple[int, int], set[str]]]:
        # A question names what it asks for, and gives it no other value.
        return [
            (place, words) for place, text in self._texts for words in _sentences(without_questions(text))
        ]


def _sentences(text: str) -> list[set[str]]:
    """The words of each sentence with enough of them: of a whole message another thing's number would pass for a value."""
    sentences = (set(_words(sentence)) for sentence in _SENTENCE.findall(text))
    return [words for words in sentences if len(words) >= SAME_WORDS]


def place_of(one: Ranked) -> tuple[int, int]:
    """When a message was said, for an order of them."""
    return one.row.at, one.row.row_id


def _other_value(said: Sequence[str], words: set[str]) -> set[str] | None:
    """The words of a sentence that others lack, when these are its value at most: few, and in one place.

    None when they lack more. A sentence that differs in two places is about something else of the same kind.
    """
    if len(words.intersection(said)) < SAME_WORDS:
        return None
    places = [place for place, word in enumerate(said) if word not in words]
    other = {said[place] for place in places}
    same = len(set(said)) - len(other)
    if places and places[-1] - places[0] >= len(places):
        return None
    return other if same >= SAME_WORDS and len(other) <= min(OTHER_WORDS, same // 2) else None


def _sentence_found(one: Ranked) -> tuple[str, bool]:
    """The sentence that holds most of what was looked for, most units, then most matches; whether it is a question."""
    low, high = window(one.row.text, one.matches, LOOKED_AT)
    sentences = list(_SENTENCE.finditer(one.row.text, low, high))
    if not sentences:
        return "", False
    begins = [found.start() for found in sentences]
    held: list[list[int]] = [[] for _ in sentences]
    for unit, spans in enumerate(one.matches.spans):
        for start, _ in spans:
            if (at := bisect_right(begins, start) - 1) >= 0 and start < sentences[at].end():
                held[at].append(unit)
    best = max(range(len(sentences)), key=lambda at: (len(set(held[at])), len(held[at])))
    return sentences[best][0], one.row.text.startswith(QUESTION_MARKS, sentences[best].end())


def _words(text: str) -> Iterator[str]:
    """The words of a text, and each Chinese, Japanese or Korean character as one."""
    folded = fold(text)
    yield from (match.group() for match in WORD.finditer(folded))
    if not folded.isascii():
        yield from (character for match in CJK_RUN.finditer(folded) for character in match.group())
