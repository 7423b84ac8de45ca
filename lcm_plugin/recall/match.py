"""Where the units of a query stand in a text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from lcm_plugin.recall.query import ParsedQuery, Unit
from lcm_plugin.recall.words import CJK_RUN, fold, stem

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Matches:
    """For each unit of the query the spans at which it stands, in order."""

    spans: tuple[tuple[Span, ...], ...]

    def __bool__(self) -> bool:
        return any(self.spans)

    @property
    def all_units(self) -> bool:
        """Whether every unit was found."""
        return all(self.spans)

    @property
    def sorted_spans(self) -> list[Span]:
        """All spans, merged where they overlap, in text order."""
        merged: list[Span] = []
        for start, end in sorted(span for spans in self.spans for span in spans):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return merged


class Matcher:
    """Finds the units of one query in any number of texts."""

    def __init__(self, query: ParsedQuery) -> None:
        self.query = query
        self._stems: dict[str, list[int]] = {}
        for index, unit in enumerate(query.units):
            if unit.kind == "word":
                for word in (unit.text, *unit.forms):
                    self._stems.setdefault(stem(word), []).append(index)
        self._words = _prefix_pattern(list(self._stems))
        self._exact = [
            (index, exact_pattern(unit)) for index, unit in enumerate(query.units) if unit.kind != "word"
        ]

    def find(self, text: str) -> Matches:
        """The spans of every unit in a text. They are offsets into the text as it is."""
        found: list[list[Span]] = [[] for _ in self.query.units]
        folded = fold(text)
        if self._words is not None:
            for match in self._words.finditer(folded):
                for index in self._stems.get(stem(match.group()), ()):
                    found[index].append(match.span())
        for index, pattern in self._exact:
            found[index] = [match.span() for match in pattern.finditer(folded)]
        return Matches(tuple(map(tuple, found)))

    def accepts(self, matches: Matches) -> bool:
        """Whether a text with these matches is a hit."""
        return matches.all_units if self.query.all_of else bool(matches)


def exact_pattern(unit: Unit) -> re.Pattern[str]:
    """A pattern that finds a unit as written; blanks stand for any blanks, words are not cut."""
    pieces = [re.escape(piece) for piece in unit.text.split()]
    body = r"\s+".join(pieces)
    if unit.kind == "cjk" or unit.inside:
        return re.compile(body)
    before = r"(?<![^\W_])" if _is_word(unit.text[0]) else ""
    after = r"(?![^\W_])" if _is_word(unit.text[-1]) else ""
    return re.compile(before + body + after)


def _is_word(character: str) -> bool:
    return character.isalnum() and not CJK_RUN.match(character)


def _prefix_pattern(stems: Sequence[str]) -> re.Pattern[str] | None:
    """Words that may have one of these stems: a stem's last letter can differ from the word's."""
    if not stems:
        return None
    prefixes = sorted({re.escape(one[: max(1, len(one) - 1)]) for one in stems}, key=len)
    return re.compile(rf"(?<![^\W_])(?:{'|'.join(prefixes)})[^\W_]*")
