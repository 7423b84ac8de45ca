"""The line that ends a summary: names what one could search for and the summary leaves out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain, count, tee

from lcm_plugin.summarize.base import SourceBlock
from lcm_plugin.summarize.extraction.reading import Scored, estimate
from lcm_plugin.summarize.facts import NAME, Vocabulary
from lcm_plugin.summarize.units import EXPAND_PREFIX, speaker, whole_texts

NOTHING_DROPPED = "the exact wording"
_REPEATED = 3
# They stand in any talk: nobody finds anything by them.
_DAYS_AND_MONTHS = """
    monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur thurs fri sat sun january february
    march april may june july august september october november december jan feb mar apr jun jul aug sep sept oct nov dec
"""
_UNTELLING = frozenset(_DAYS_AND_MONTHS.split())
# What may stand between the end of a sentence and a name.
_OPENING = " \t\"'`([{<«“‘„*_#>-"
_ENDS = frozenset("\n\r.!?…;。！？；")
_MOST_LOOKS = 64
# Signs that words of facts end at, as spaces; bytes, since a text that is not ASCII is translated slowly.
_APART = bytes(32 if chr(byte) in ",;=|&?()[]{}\"'<>`!\t\n\r" else byte for byte in range(256))
_ENDINGS = (b". ", b": ", b"... ")

Facts = Iterable[tuple[str, int]]
"""Facts with their weights, those first that are to be named first."""


class ExpandLine:
    """Writes the "Expand for details about" lines of summaries of one text.

    A word that merely has a capital letter is a name unless it stands in small letters, too, as ``is_word`` says; nor,
    with ``anywhere``, if it stands only at the heads of sentences.
    """

    def __init__(
        self,
        text: str,
        ranked: Facts,
        speakers: Collection[str],
        is_word: Callable[[str], bool],
        place_of: Callable[[str], int],
        *,
        anywhere: bool,
    ) -> None:
        self._text = text
        self._place_of = place_of
        self._ranked = ranked
        self._speakers = speakers
        self._is_word = is_word
        self._anywhere = anywhere

    @classmethod
    def of_units(cls, scored: Scored) -> ExpandLine:
        """For what was read in units: the more of them have a fact, the more it weighs."""
        facts = dict[str, int]()
        for held in filter(None, scored.names):
            facts.update(held)
        counts = Counter(chain.from_iterable(scored.names))
        speakers = {name for who in {passage.who for passage in scored.passages} for name in who.split()}
        text = "\n".join(scored.texts)
        places = dict(zip(counts, count(), strict=False))
        is_word = cache(partial(_stands_in, text))
        return cls(text, _ranked(counts, facts), speakers, is_word, places.__getitem__, anywhere=False)

    @classmethod
    def of_blocks(cls, blocks: Sequence[SourceBlock], vocabulary: Vocabulary) -> ExpandLine:
        """For blocks as they stand, to write one line: no units are made, and what comes once is not looked at
        before there is room for it."""
        text = "\n".join(whole_texts(blocks))
        counts = Counter(words_of_facts(text))
        speakers = {name for block in blocks for name in speaker(block).split()}
        return cls(
            text, _ranked_words(counts, vocabulary), speakers, counts.__contains__, text.find, anywhere=True
        )

    def write(self, covered: Container[str], room: int) -> str:
        """The weightiest facts not ``covered``, in source order, in about ``room`` tokens.

        Names that stand together are one.
        """
        chosen: list[str] = []
        # What was put in order for an earlier line is kept.
        self._ranked, ranked = tee(self._ranked)
        for fact, weight in ranked:
            if fact in covered or fact.lower() in _UNTELLING or (weight == NAME and not self._is_name(fact)):
                continue
            room -= estimate(fact)
            if room < 0:
                break
            chosen.append(fact)
        chosen.sort(key=self._place_of)
        terms: list[str] = []
        last = ""
        for fact in chosen:
            if last and self._stand_together(last, fact):
                terms[-1] += f" {fact}"
            else:
                terms.append(fact)
            last = fact
        return f"{EXPAND_PREFIX} {', '.join(terms) or NOTHING_DROPPED}"

    def _is_name(self, word: str) -> bool:
        # Who speaks is in every line.
        if word in self._speakers or self._is_word(word.lower()):
            return False
        return not (self._anywhere and self._only_begins(word))

    def _only_begins(self, name: str) -> bool:
        """Whether it stands only where sentences begin, as far as its first places tell."""
        text = self._text
        place = -1
        for _ in range(_MOST_LOOKS):
            place = text.find(name, place + 1)
            if place < 0:
                break
            end = place + len(name)
            if text[place - 1 : place].isalnum() or text[end : end + 1].isalnum():
                continue
            before = text[max(0, place - 16) : place].rstrip(_OPENING)
            if before and before[-1] not in _ENDS:
                return False
        return True

    def _stand_together(self, first: str, second: str) -> bool:
        """Whether two names follow each other, as a first and a last name do."""
        return first.istitle() and second.istitle() and f"{first} {second}" in self._text


def words_of_facts(text: str) -> list[str]:
    """The words of a text without the signs around them that belong to no identifier, number or name."""
    data = (text + " ").encode("utf-8", "replace").translate(_APART)
    for ending in _ENDINGS:
        data = data.replace(ending, b" ")
    return data.decode().split()


def _stands_in(text: str, word: str) -> bool:
    """Whether a word stands between white space."""
    place = text.find(word)
    while place >= 0:
        end = place + len(word)
        if not (text[place - 1 : place].strip() or text[end : end + 1].strip()):
            return True
        place = text.find(word, place + 1)
    return False


def _ranked(counts: Mapping[str, int], facts: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Facts by their weights and how often they come; only those that are asked for are put in order."""
    by_worth: dict[int, list[str]] = {}
    for fact, weight in facts.items():
        by_worth.setdefault(min(counts[fact], _REPEATED) * weight, []).append(fact)
    for worth in sorted(by_worth, reverse=True):
        for fact in sorted(by_worth[worth]):
            yield fact, facts[fact]


def _ranked_words(counts: Mapping[str, int], vocabulary: Vocabulary) -> Iterator[tuple[str, int]]:
    """The facts in words, those of words that come often before those of words that come once, which weigh less."""
    seen: set[str] = set()
    for is_often in (True, False):
        tallies: dict[str, int] = {}
        facts: dict[str, int] = {}
        for word, times in counts.items():
            # Plain small letters are no name, as most words are.
            if (times > 1) is not is_often or (word.isalpha() and word.islower()):
                continue
            for fact, weight in vocabulary.names(word):
                if fact not in seen:
                    tallies[fact] = tallies.get(fact, 0) + times
                    facts[fact] = weight
        yield from _ranked(tallies, facts)
        seen |= facts.keys()
