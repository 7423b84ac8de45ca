"""The line that ends a summary: names what one could search for and the summary leaves out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from itertools import chain

from lcm_plugin.summarize.extraction.reading import Reading, estimate
from lcm_plugin.summarize.facts import NAME
from lcm_plugin.summarize.units import EXPAND_PREFIX

NOTHING_DROPPED = "the exact wording"
_REPEATED = 3
# They stand in any talk: nobody finds anything by them.
_DAYS_AND_MONTHS = """
    monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur thurs fri sat sun january february
    march april may june july august september october november december jan feb mar apr jun jul aug sep sept oct nov dec
"""
_UNTELLING = frozenset(_DAYS_AND_MONTHS.split())


class ExpandLine:
    """Writes the "Expand for details about" lines of summaries of what was read."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._whole = "\n".join(reading.texts)
        weights, self._plain = _nameable(reading)
        self._places = {text: place for place, text in enumerate(weights)}
        self._ranked = sorted(weights)
        self._ranked.sort(key=weights.__getitem__, reverse=True)

    def write(self, covered: Container[str], room: int) -> str:
        """The weightiest facts not ``covered``, in source order, in about ``room`` tokens.

        Names that stand together are one.
        """
        chosen: list[str] = []
        for text in self._ranked:
            if text in covered or (text in self._plain and self._is_word(text)):
                continue
            room -= estimate(text)
            if room < 0:
                break
            chosen.append(text)
        chosen.sort(key=self._places.__getitem__)
        terms: list[str] = []
        last = ""
        for text in chosen:
            if last and self._stand_together(last, text):
                terms[-1] += f" {text}"
            else:
                terms.append(text)
            last = text
        return f"{EXPAND_PREFIX} {', '.join(terms) or NOTHING_DROPPED}"

    def _is_word(self, text: str) -> bool:
        """Whether it also stands in small letters, and so is no name."""
        whole, word = self._whole, text.lower()
        place = whole.find(word)
        while place >= 0:
            end = place + len(word)
            if not (whole[place - 1 : place].strip() or whole[end : end + 1].strip()):
                return True
            place = whole.find(word, place + 1)
        return False

    def _stand_together(self, first: str, second: str) -> bool:
        """Whether two names follow each other in a unit, as a first and a last name do."""
        if not (first.istitle() and second.istitle()):
            return False
        pair = f"{first} {second}"
        return pair in self._whole and any(
            first in held and pair in text
            for text, held in zip(self._reading.texts, self._reading.names, strict=True)
        )


def _nameable(reading: Reading) -> tuple[dict[str, int], set[str]]:
    """The facts worth naming in source order, with weights that grow with the units that hold them; and which of them are
    names only if they do not stand in small letters, too."""
    first = dict[str, int]()
    for held in reversed(reading.names):
        if held:
            first.update(held)
    speakers = {name for who in {passage.who for passage in reading.passages} for name in who.split()}
    weights: dict[str, int] = {}
    plain: set[str] = set()
    for text, holders in Counter(chain.from_iterable(reading.names)).items():
        weight = first[text]
        if text.lower() in _UNTELLING:
            continue
        if weight == NAME:
            # Who speaks is in every line.
            if text in speakers:
                continue
            plain.add(text)
        weights[text] = min(holders, _REPEATED) * weight
    return weights, plain
