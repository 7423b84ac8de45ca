"""Where the units of a query stand in a text, and the piece of the text round them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from lcm_plugin.recall.query import CJK_RUN, ParsedQuery, Unit, fold, stem
from lcm_plugin.store.search import name_parts

Span = tuple[int, int]
OPEN, CLOSE = "**", "**"
ELLIPSIS = "…"
_WORD_END = re.compile(r"[^\W_]*")
_ONE = 1_000  # what a unit weighs, as a whole number so that sums are exact


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
        """All spans that hold text, merged where they overlap, in text order."""
        merged: list[Span] = []
        for start, end in sorted(span for spans in self.spans for span in spans if span[0] < span[1]):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return merged


NO_MATCH = Matches(())


class Matcher:
    """Finds the units of one query in any number of texts."""

    def __init__(self, query: ParsedQuery) -> None:
        self.query = query
        self._stems: dict[str, list[int]] = {}
        for index, unit in enumerate(query.units):
            if unit.kind == "word":
                for word in (unit.text, *unit.forms):
                    self._stems.setdefault(stem(word), []).append(index)
        self._prefixes = _prefixes(self._stems)
        self._nothing = Matches(((),) * len(query.units))
        self._exact = [
            (index, exact_pattern(unit))
            for index, unit in enumerate(query.units)
            if unit.kind not in ("word", "sender")
        ]
        self._senders = [
            (index, set(unit.forms)) for index, unit in enumerate(query.units) if unit.kind == "sender"
        ]

    def find(self, text: str, sender: str | None = None) -> Matches:
        """The spans of every unit in a text. They are offsets into the text as it is; a sender's is empty."""
        folded = fold(text)
        words = self._words_in(text, folded)
        if not words and not self._exact and not self._senders:
            return self._nothing
        found: list[list[Span]] = [[] for _ in self.query.units]
        for span in words:
            for index in self._stems.get(stem(folded[span[0] : span[1]]), ()):
                found[index].append(span)
        for index, pattern in self._exact:
            found[index] = [match.span() for match in pattern.finditer(folded)]
        for index, names in self._senders:
            found[index] = [(0, 0)] if sender in names else []
        return Matches(tuple(map(tuple, found)))

    def _words_in(self, text: str, folded: str) -> list[Span]:
        """The words that may have one of the stems, in order, then such parts of names.

        Each beginning is looked for by itself, which passes over a text far faster than one pattern of all.
        """
        starts: list[int] = []
        in_names = False
        for prefix in self._prefixes:
            at = folded.find(prefix)
            while at >= 0:
                if at == 0 or not (before := folded[at - 1]).isalnum():
                    starts.append(at)
                elif not in_names:
                    in_names = text[at].isupper() or not before.isascii()
                at = folded.find(prefix, at + 1)
        if not starts and not in_names:
            return []
        words = [(start, _WORD_END.match(folded, start).end()) for start in sorted(starts)]  # type: ignore[union-attr]  # it matches anything
        if in_names or any(text[start + 1 : end] != folded[start + 1 : end] for start, end in words):
            words += name_parts(text)
        return words

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


def _prefixes(stems: Iterable[str]) -> list[str]:
    """How words may begin that have one of these stems: a stem's last letter can differ from the word's."""
    prefixes = {one[: max(1, len(one) - 1)] for one in stems}
    return [one for one in prefixes if not any(one != other and one.startswith(other) for other in prefixes)]


def make_snippet(text: str, matches: Matches, width: int = 240) -> str:
    """Up to ``width`` characters of a text, chosen to hold most of what is looked for, each match between ``**``.

    Blanks and line ends become single blanks. Without a match it is the beginning of the text.
    """
    start, end = window(text, matches, width)
    pieces, position = [], start
    for low, high in matches.sorted_spans:
        low, high = max(low, start), min(high, end)
        if low >= high or low < position:
            continue
        pieces += [text[position:low], OPEN, text[low:high], CLOSE]
        position = high
    pieces.append(text[position:end])
    body = " ".join("".join(pieces).split())
    return f"{ELLIPSIS if start > 0 else ''}{body}{ELLIPSIS if end < len(text) else ''}"


def shorten(text: str, width: int) -> str:
    """The beginning of a text on one line."""
    return make_snippet(text, NO_MATCH, width)


def cut_around(text: str, matches: Matches, width: int) -> str:
    """The same piece with nothing marked and its lines as they are."""
    start, end = window(text, matches, width)
    return f"{ELLIPSIS if start > 0 else ''}{text[start:end]}{ELLIPSIS if end < len(text) else ''}"


def window(text: str, matches: Matches, width: int) -> Span:
    """The piece of a text of at most this width, but for a longer match, that holds most of what is looked for."""
    if len(text) <= width:
        return 0, len(text)
    densest = _densest(matches, width * 3 // 4)
    if densest is None:
        return 0, _word_end(text, width)
    start = _word_start(text, max(0, densest[0] - width // 4))
    return start, _word_end(text, min(len(text), max(start + width, densest[1])))


def _densest(matches: Matches, width: int) -> Span | None:
    """The match from which a window of this width holds most of what is looked for; the earliest of equals.

    Each unit counts once, and up to twice the rarer it is in the text: where all words stand together beats where one of
    them is repeated. Between windows with the same units the number of matches decides.
    """
    placed = sorted(
        (span, unit) for unit, spans in enumerate(matches.spans) for span in spans if span[0] < span[1]
    )
    weights = [_ONE + _ONE // max(1, len(spans)) for spans in matches.spans]
    held = [0] * len(weights)
    best, most, weight, last = None, (0, 0), 0, 0
    for index, ((start, end), unit) in enumerate(placed):
        while last < len(placed) and (last == index or placed[last][0][1] <= start + width):
            entering = placed[last][1]
            weight += weights[entering] if not held[entering] else 0
            held[entering] += 1
            last += 1
        if (weight, last - index) > most:
            best, most = (start, end), (weight, last - index)
        held[unit] -= 1
        weight -= weights[unit] if not held[unit] else 0
    return best


def _word_start(text: str, position: int) -> int:
    blank = text.find(" ", max(0, position - 1), position + 20)
    return blank + 1 if position > 0 and blank >= 0 else position


def _word_end(text: str, position: int) -> int:
    if position >= len(text):
        return len(text)
    blank = text.rfind(" ", max(0, position - 20), position + 1)
    return blank if blank > 0 else position
