"""Facts that people look for later: identifiers, numbers, names, and words that mark a turn.

A text is cut at white space and each distinct word is judged once; the verdict is kept, so that a
long history costs one dictionary look-up a word. Weights are integers: their sums do not depend on
the order of addition, and so not on the hash seed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from lcm_plugin.summarize.cues import CUE_WORDS, UNSPACED_CUES


class Word(NamedTuple):
    """One word's distinct facts with their weights, and cue bits for the function of its sentence.

    ``plain``: capitalised and nothing else, so at the head of a sentence it is no name.
    """

    facts: tuple[tuple[str, int], ...]
    cue: int
    plain: bool = False


_T = TypeVar("_T")
_MEMO_LIMIT = 40_000
_MEMO_WORD_CHARS = 48
_LEFT = "\"'`()[]{}<>«»“”‘’„*=+…,;:!?。、，；：！？「」『』（）【】《》·•–—|¿¡"
_RIGHT = _LEFT + ".-_~"
_UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+"
)
_ASCII_RUN = re.compile(r"[A-Za-z0-9_./\\@#$%&+~:-]{2,}|\d+")
_KATAKANA = re.compile(r"[\u30a0-\u30ff]{3,}")
_INNER = re.compile(r"[,;=|&?()\[\]{}\"'<>]+")
_SYMBOLIC = re.compile(r"[_/\\@#$]|\w\.\w|::|\w:\w|^--?\w")
_CAMEL = re.compile(r"[a-z][A-Z]|[A-Z]{2}")
_KEYLIKE = re.compile(r"[a-z]+(?:_[a-z]+)+")
_CONTRACTION = re.compile(r"\w{1,6}['’]\w{1,3}")
_CONTROL = re.compile(r"(?:[#*=<\[|]{2,})[A-Z_ ]+(?:[#*=>\]|]{2,})")
_CONTROL_START = "#*=<[|"
_HAS_DIGIT = re.compile(r"\d")
_PLAIN_NUMBER = re.compile(r"[-+$€£¥]?\d[\d.,]*%?")
_CLOCK = re.compile(r"(?:\d{4}-\d\d-\d\d[T_])?\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d|\+\d)?")

NAME = 7
TERM = 2
"""The most that a plain word weighs."""
_IDENTIFIER, _NUMBER, _SHORT, _DIGIT, _KEY, _TIME, _TERM, _BIGRAM = 12, 9, 8, 5, 4, 4, 1, 1


_Pair = tuple[str, int]
Unit = tuple[dict[str, int], int, int, int, dict[str, int]]
"""A unit's facts with their weights, its cues, the weights' sum, its approximate tokens, and the facts that weigh as much as
a name or more."""
_CUE_SHIFT = 12
_WEIGHT = (1 << _CUE_SHIFT) - 1
_ODD: _Pair = ("", 1 << 20)


class _Memo(dict[str, _T]):
    """Verdicts on words, judged at first sight. A pure function of the word: clearing it is always safe."""

    judge: Callable[[str], _T]

    def __missing__(self, raw: str) -> _T:
        verdict = self.judge(raw)
        if len(raw) <= _MEMO_WORD_CHARS:
            if len(self) >= _MEMO_LIMIT:
                self.clear()
            self[raw] = verdict
        return verdict


class _Facts(_Memo["_Pair | None"]):
    """The one fact of each word, its cue in the bits above the weight; `_ODD` where a word cannot be said by one pair."""

    @staticmethod
    def judge(raw: str) -> _Pair | None:
        """The verdict on a word."""
        core = raw
        if not (raw.isascii() and raw.isalnum()):
            core = raw.lstrip(_LEFT).rstrip(_RIGHT)
            if not core or (not core.isalnum() and _INNER.search(core)) or not raw.isascii():
                return _Facts._of_odd(raw)
            if raw[0] in _CONTROL_START and _CONTROL.fullmatch(raw):
                return None
        # One fact, itself, as nearly all words have.
        cue, weight = CUE_WORDS.get(core.lower(), 0), _weight(core)
        if weight:
            return core, weight | cue << _CUE_SHIFT
        return (f"\x00{cue}", cue << _CUE_SHIFT) if cue else None

    @staticmethod
    def _of_odd(raw: str) -> _Pair | None:
        """The same the long way."""
        word = _judge(raw)
        if word is None:
            return None
        cue = word.cue << _CUE_SHIFT
        if not word.facts:
            return f"\x00{word.cue}", cue
        fact, weight = word.facts[0]
        # A dict has one entry for a fact, so its cue must be the same whichever word brings it.
        said = len(word.facts) == 1 and word.plain == (weight == NAME)
        return (fact, weight | cue) if said and CUE_WORDS.get(fact.lower(), 0) == word.cue else _ODD


class Vocabulary(_Memo["Word | None"]):
    """The word verdicts of a process, and what its newest texts hold (`extraction.reading`)."""

    def __init__(self) -> None:
        super().__init__()
        self._facts = _Facts()
        self.units: dict[str, Unit] = {}
        self.older_units: dict[str, Unit] = {}

    @staticmethod
    def judge(raw: str) -> Word | None:
        """The verdict on a word."""
        return _judge(raw)

    def facts(self, sentence: Sequence[str]) -> tuple[dict[str, int], int]:
        """The weights of the facts in the words of a sentence, and its cues."""
        known, rest, cues = self._facts, sentence, 0
        if sentence and (first := known[sentence[0]]) and first[1] & _WEIGHT == NAME:
            rest, cues = sentence[1:], first[1] >> _CUE_SHIFT
        # Built-in functions alone: a source has some ten thousand words, and few have a cue or several facts.
        found = dict(filter(None, map(known.__getitem__, rest)))
        if sum(found.values()) <= _WEIGHT:
            return found, cues
        if "" in found:
            return self._facts_of_odd(sentence)
        for weight in found.values():
            cues |= weight >> _CUE_SHIFT
        return {fact: plain for fact, weight in found.items() if (plain := weight & _WEIGHT)}, cues

    def names(self, word: str) -> Sequence[tuple[str, int]]:
        """The facts in one word that weigh a name's weight or more."""
        found = self._facts[word]
        if found is None:
            return ()
        fact, weight = found[0], found[1] & _WEIGHT
        if fact:
            return ((fact, weight),) if weight >= NAME else ()
        judged = self[word]
        return [pair for pair in judged.facts if pair[1] >= NAME] if judged else ()

    def _facts_of_odd(self, sentence: Sequence[str]) -> tuple[dict[str, int], int]:
        """The same for a sentence with words that have several facts."""
        facts: dict[str, int] = {}
        cues = 0
        words = list(map(self.__getitem__, sentence))
        if words and words[0] is not None and words[0].plain:
            cues = words[0].cue
            words[0] = None
        for found, cue, _ in filter(None, words):
            for fact, weight in found:
                facts[fact] = weight  # noqa: PERF403 - a word has one or two facts, for which a call costs more
            cues |= cue
        return facts, cues


def _judge(raw: str) -> Word | None:
    if raw.isascii():
        if raw.islower() and raw.isalpha():
            return _common(raw)
    elif _UNSPACED.search(raw):
        return _judge_unspaced(raw)
    core = raw.lstrip(_LEFT).rstrip(_RIGHT)
    # A host's own word for its loop, such as ###STOP###: nobody asks for it.
    if not core or (raw[0] in _CONTROL_START and _CONTROL.fullmatch(raw)):
        return None
    cue = CUE_WORDS.get(core.lower(), 0)
    if core.isalnum():
        weight = _weight(core)
        return Word(((core, weight),) if weight else (), cue, weight == NAME) if weight or cue else None
    pieces = [piece.rstrip(_RIGHT) for piece in _INNER.split(core)]
    facts = {piece: weight for piece in pieces if (weight := _weight(piece))}
    plain = len(facts) == 1 and NAME in facts.values()
    return Word(tuple(facts.items()), cue, plain) if facts or cue else None


def _common(word: str) -> Word | None:
    weight, cue = _term_weight(word), CUE_WORDS.get(word, 0)
    return Word(((word, weight),) if weight else (), cue) if weight or cue else None


def _term_weight(word: str) -> int:
    return 0 if len(word) < 5 else _TERM if len(word) < 8 else TERM


def _weight(word: str) -> int:
    if word.isalpha():
        if word.islower():
            return _term_weight(word)
        if not word.istitle() and _CAMEL.search(word):
            return _NUMBER
        return NAME if word[0].isupper() and len(word) > 2 else _term_weight(word)
    if _HAS_DIGIT.search(word):
        if _PLAIN_NUMBER.fullmatch(word):
            return _DIGIT if len(word) < 3 else _SHORT if len(word) < 5 else _NUMBER
        return _TIME if ":" in word and _CLOCK.fullmatch(word) else _IDENTIFIER
    if len(word) < 2 or _CONTRACTION.fullmatch(word):
        return 0
    if _KEYLIKE.fullmatch(word):
        return _KEY
    if _SYMBOLIC.search(word):
        return _IDENTIFIER if len(word) > 3 else _DIGIT
    return NAME if word[0].isupper() and len(word) > 2 else _term_weight(word)


def _judge_unspaced(raw: str) -> Word | None:
    facts: dict[str, int] = {}
    for run in _ASCII_RUN.findall(raw):
        facts[run.strip(_LEFT + ".")] = _weight(run)
    for run in _KATAKANA.findall(raw):
        facts[run] = NAME
    for run in _UNSPACED.findall(raw):
        for start in range(len(run) - 1):
            facts.setdefault(run[start : start + 2], _BIGRAM)
    cue = 0
    for flag, pattern in UNSPACED_CUES:
        if pattern.search(raw):
            cue |= flag
    kept = tuple((text, weight) for text, weight in facts.items() if text and weight)
    return Word(kept, cue) if kept or cue else None
