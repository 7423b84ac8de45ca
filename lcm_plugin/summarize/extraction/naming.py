"""The line that ends a summary: names what one could search for and the summary leaves out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from itertools import chain
from operator import itemgetter

from lcm_plugin.summarize.extraction.reading import Reading, estimate
from lcm_plugin.summarize.facts import NAME
from lcm_plugin.summarize.units import EXPAND_PREFIX

NOTHING_DROPPED = "the exact wording"
_REPEATED = 3


class ExpandLine:
    """Writes the "Expand for details about" lines of summaries of what was read."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._weights = _nameable(reading)

    def write(self, covered: Container[str], room: int) -> str:
        """The weightiest facts not ``covered``, in source order, in about ``room`` tokens.

        Names that stand together are one.
        """
        left = [fact for fact in self._weights.items() if fact[0] not in covered]
        ranked = sorted(left)
        ranked.sort(key=itemgetter(1), reverse=True)
        chosen: set[str] = set()
        for text, _ in ranked:
            cost = estimate(text)
            if cost > room:
                break
            chosen.add(text)
            room -= cost
        terms: list[str] = []
        last = ""
        for text, _ in left:
            if text not in chosen:
                continue
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
        return any(
            pair in text and first in held
            for text, held in zip(self._reading.texts, self._reading.facts, strict=True)
        )


def _nameable(reading: Reading) -> dict[str, int]:
    """The facts worth naming in source order, with weights that grow with the units that hold them."""
    words, first = reading.words, dict[str, int]()
    for held in reversed(reading.facts):
        first.update(held)
    speakers = {name for who in {passage.who for passage in reading.passages} for name in who.split()}
    weights: dict[str, int] = {}
    for text, holders in Counter(chain.from_iterable(reading.facts)).items():
        weight = first[text]
        # A word that also stands in small letters is no name, and who speaks is in every line.
        if weight > NAME or (weight == NAME and text.lower() not in words and text not in speakers):
            weights[text] = min(holders, _REPEATED) * weight
    return weights
