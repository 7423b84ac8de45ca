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


class ExpandLine:
    """Writes the "Expand for details about" lines of summaries of what was read."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._whole = "\n".join(reading.texts)
        weights = _nameable(reading, set(self._whole.split()))
        self._places = {text: place for place, text in enumerate(weights)}
        self._ranked = sorted(weights)
        self._ranked.sort(key=weights.__getitem__, reverse=True)

    def write(self, covered: Container[str], room: int) -> str:
        """The weightiest facts not ``covered``, in source order, in about ``room`` tokens.

        Names that stand together are one.
        """
        chosen: list[str] = []
        for text in self._ranked:
            if text in covered:
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

    def _stand_together(self, first: str, second: str) -> bool:
        """Whether two names follow each other in a unit, as a first and a last name do."""
        if not (first.istitle() and second.istitle()):
            return False
        pair = f"{first} {second}"
        return pair in self._whole and any(
            first in held and pair in text
            for text, held in zip(self._reading.texts, self._reading.names, strict=True)
        )


def _nameable(reading: Reading, words: set[str]) -> dict[str, int]:
    """The facts worth naming in source order, with weights that grow with the units that hold them."""
    first = dict[str, int]()
    for held in reversed(reading.names):
        if held:
            first.update(held)
    speakers = {name for who in {passage.who for passage in reading.passages} for name in who.split()}
    weights: dict[str, int] = {}
    for text, holders in Counter(chain.from_iterable(reading.names)).items():
        weight = first[text]
        # A word that also stands in small letters is no name, and who speaks is in every line.
        if weight > NAME or (text.lower() not in words and text not in speakers):
            weights[text] = min(holders, _REPEATED) * weight
    return weights
