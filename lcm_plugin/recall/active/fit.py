"""How well messages fit what is asked, and which of them may be quoted."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from lcm_plugin.messages.blocks import is_instruction
from lcm_plugin.recall.active.asked import without_questions
from lcm_plugin.recall.match import cut_around, window
from lcm_plugin.recall.query import CJK_RUN, WORD, ParsedQuery, fold
from lcm_plugin.recall.rank import Ranked
from lcm_plugin.recall.textsearch import Found
from lcm_plugin.recall.tools import is_recall_tool
from lcm_plugin.store.search import SearchRow
from lcm_plugin.summarize.directives import is_directive

NEW_WORDS, LOOKED_AT = 2, 1_000
# A sentence is said again with another value when so many of its words come back, and at most so many do not.
SAME_WORDS, OTHER_WORDS = 5, 3
QUESTION_MARKS = ("?", "？")
_SENTENCE = re.compile(r"[^.!?？\n]+")


def shares_held(ranked: Sequence[Ranked], found: Found, asks: bool) -> list[float]:
    """The share of the request's words, by weight, that each row and the rows beside it hold.

    For a question, a row beside it may be one that is no passage itself: the same question, asked before.
    """
    total = sum(found.weights) or 1.0
    beside_it = found.rows if asks else ranked
    placed = {(one.row.conversation_id, one.row.position): one.matches.spans for one in beside_it}
    shares = []
    for one in ranked:
        here, at = one.row.conversation_id, one.row.position
        beside = [spans for step in (-1, 0, 1) if (spans := placed.get((here, at + step))) is not None]
        held = (weight for index, weight in enumerate(found.weights) if any(spans[index] for spans in beside))
        shares.append(sum(held) / total)
    return shares


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
    new = set[str]()
    for word in _words(text[:LOOKED_AT]):
        if word not in asked:
            new.add(word)
            # One number that was not asked with can be the whole answer.
            if len(new) == NEW_WORDS or any(map(str.isdigit, word)):
                return True
    return False


class Later:
    """What newer messages say, to find out whether an older one is said again in them with another value."""

    def __init__(self, newer: Sequence[Ranked]) -> None:
        texts = [(place_of(one), cut_around(one.row.text, one.matches, LOOKED_AT)) for one in newer]
        self._words = [(place, words) for place, text in texts for words in _sentences(text)]
        # A question names what it asks for, and gives it no other value.
        self._stated = [
            (place, words) for place, text in texts for words in _sentences(without_questions(text))
        ]

    def says_again(self, old: Ranked) -> bool:
        """Whether one of them has the sentence that a message was found by, but for a value."""
        sentence, is_question = _sentence_found(old)
        among = self._words if is_question else self._stated
        newer = [words for place, words in among if place > place_of(old)]
        if not newer:
            return False
        said = list(_words(sentence))
        changed = [other for words in newer if (other := _other_value(said, words)) is not None]
        if not changed:
            return False
        asked = set(_words(" ".join(old.row.text[start:end] for start, end in old.matches.sorted_spans)))
        return any(map(asked.isdisjoint, changed))


def _sentences(text: str) -> list[set[str]]:
    """The words of each sentence: those of a whole message would make another thing's number pass for a value."""
    return [set(_words(sentence)) for sentence in _SENTENCE.findall(text)]


def place_of(one: Ranked) -> tuple[int, int]:
    """When a message was said, for an order of them."""
    return one.row.at, one.row.row_id


def _other_value(said: Sequence[str], words: set[str]) -> set[str] | None:
    """The words of a sentence that others lack, when these are its value at most: few, and in one place.

    None when they lack more. A sentence that differs in two places is about something else of the same kind.
    """
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
