"""The one gate: which texts of a model may be stored as a summary.

`Gate.check` returns the text to store or the reason why there is none. The reasons:
``empty, reasoning, refusal, error, chat, too_short, unrelated, echo, prompt_echo, repetition, not_smaller``.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.summarize.facts import NAME, Vocabulary
from lcm_plugin.summarize.rejections import chats, refuses, reports_error
from lcm_plugin.summarize.source import CUT_MARK
from lcm_plugin.summarize.units import EXPAND_PREFIX
from lcm_plugin.summarize.unwrap import thinks_aloud, unwrap

SHRINK = 0.6
"""A summary aims at no more than this share of its source."""
_SHORT_TOKENS = 90
_GROUNDED_FACTS = 4
_SHINGLE = 10
_ECHO_SHARE, _COPY_SHARE, _RUN_SHARE, _PROMPT_SHARE = 0.9, 0.7, 0.5, 0.25
_RELATED_SHARE = 0.1
_REPETITION_CHARS, _REPETITION_RATIO = 400, 8.0
_WORDS = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]|[^\W_]+")
_ASCII_BREAKS = {code: " " for code in range(128) if not chr(code).isalnum()}
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n+")


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in tokens: the source's, the target, and the hard cap of a stored summary."""

    source: int
    target: int
    cap: int

    @classmethod
    def of(cls, source: int, target: int, cap_of: Callable[[int], int]) -> Limits:
        """The sizes of a summary of so many tokens; ``cap_of`` is the hard cap for a target."""
        target = min(target, max(16, int(source * SHRINK)))
        return cls(source, target, min(cap_of(target), source - 1))

    @property
    def least(self) -> int:
        """Fewer tokens tell nothing of the source."""
        return min(max(6, self.source // 100), 40, self.target // 3)


@dataclass(frozen=True, slots=True)
class Verdict:
    """``reason`` is empty for an accepted text. ``capped``: it was over the cap and cut at a sentence."""

    text: str = ""
    tokens: int = 0
    reason: str = ""
    capped: bool = False


class Gate:
    """Judges texts against the source that they are to replace. Thread-safe."""

    def __init__(self, counter: TokenCounter, vocabulary: Vocabulary) -> None:
        self._counter = counter
        self._vocabulary = vocabulary

    def check(self, raw: str, source: str, frame: str, limits: Limits, cut_off: bool = False) -> Verdict:
        """``source`` is the chunk's text, ``frame`` the rest of the prompt.

        ``cut_off``: the model ran into its output limit, so the last sentence may be half a one.
        """
        text, reasoned = unwrap(raw)
        if not any(char.isalnum() for char in text):
            return Verdict(reason="reasoning" if reasoned else "empty")
        tokens = self._counter.text(text)
        reason = self._instead_of_a_summary(text, tokens, source) or self._in_the_wrong_form(
            text, tokens, source, frame, limits
        )
        if reason:
            return Verdict(reason=reason)
        if tokens >= limits.source:
            return Verdict(reason="not_smaller")
        capped = cut_off or tokens > limits.cap
        if capped:
            text = cut_at_sentence(text, min(limits.cap, tokens), self._counter)
            tokens = self._counter.text(text)
        if not text:
            return Verdict(reason="not_smaller")
        return Verdict(text, tokens, capped=capped)

    def _instead_of_a_summary(self, text: str, tokens: int, source: str) -> str:
        if thinks_aloud(text):
            return "reasoning"
        opening = text[:400]
        if refuses(opening):
            return "refusal"
        is_error = reports_error(opening)
        if (is_error or chats(opening)) and not self._grounded(text, tokens, source):
            return "error" if is_error else "chat"
        if (
            tokens < _SHORT_TOKENS
            and text.rstrip()[-1] in "?？؟"
            and not self._grounded(text, tokens, source)
        ):
            return "chat"
        return ""

    def _in_the_wrong_form(self, text: str, tokens: int, source: str, frame: str, limits: Limits) -> str:
        if tokens < limits.least:
            return "too_short"
        if _repeats(text):
            return "repetition"
        words = _words(text)
        if _share(words, _words(frame))[0] >= _PROMPT_SHARE:
            return "prompt_echo"
        source_words = _words(source)
        if tokens > _SHORT_TOKENS and _is_copied(words, source_words):
            return "echo"
        if tokens < _SHORT_TOKENS and not _related(_words(text.replace(EXPAND_PREFIX, "")), source_words):
            return "unrelated"
        return ""

    def _grounded(self, text: str, tokens: int, source: str) -> bool:
        """Whether a text is about its source: long enough, or full of the source's own facts."""
        if tokens >= 2 * _SHORT_TOKENS:
            return True
        return len(self._facts(text) & self._facts(source)) >= _GROUNDED_FACTS

    def _facts(self, text: str) -> set[str]:
        words = filter(None, map(self._vocabulary.__getitem__, text.split()))
        return {fact for word in words for fact, weight in word.facts if weight >= NAME}


def cut_at_sentence(text: str, cap: int, counter: TokenCounter) -> str:
    """The longest start of a text that ends with a sentence, or else a word, and fits with the mark of the cut."""
    room = cap - counter.text(f" {CUT_MARK}") - 2
    ends = [match.start() for match in _SENTENCE_END.finditer(text)]
    kept = _longest(text, ends, room, counter)
    if len(kept) * 3 < len(_longest(text, list(range(0, len(text), 64)), room, counter)):
        spaces = [match.start() for match in re.finditer(r"\s", text)] or list(range(len(text)))
        kept = _longest(text, spaces, room, counter)
    return f"{kept} {CUT_MARK}" if kept else ""


def _longest(text: str, ends: Sequence[int], room: int, counter: TokenCounter) -> str:
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high + 1) // 2
        if counter.text(text[: ends[middle - 1]]) <= room:
            low = middle
        else:
            high = middle - 1
    return text[: ends[low - 1]].rstrip() if low else ""


def _words(text: str) -> list[str]:
    text = text.lower()
    if text.isascii():
        return text.translate(_ASCII_BREAKS).split()
    words: list[str] = []
    # No word goes on in another line, and most lines of most texts are ASCII.
    for line in text.splitlines():
        words += line.translate(_ASCII_BREAKS).split() if line.isascii() else _WORDS.findall(line)
    return words


def _shingles(words: list[str], length: int = _SHINGLE) -> Iterator[tuple[str, ...]]:
    """Each run of so many words."""
    return zip(*(words[start:] for start in range(length)), strict=False)


def _is_copied(words: list[str], source: list[str]) -> bool:
    """Whether a text is nearly all word for word in its source, or mostly, and half of it in one piece."""
    # Most texts have too many words or pairs of words of their own, which costs less to find.
    if any(_most_shared(words, source, length) < _COPY_SHARE for length in (1, 2)):
        return False
    share, run = _share(words, source)
    return share >= _ECHO_SHARE or (share >= _COPY_SHARE and run >= _RUN_SHARE)


def _most_shared(words: list[str], other: list[str], length: int) -> float:
    """A share that `_share` does not exceed: that of the runs of ten with only known shorter runs in them."""
    known = set(_shingles(words, length)).intersection(_shingles(other, length))
    needed = _SHINGLE - length + 1
    shared = in_a_row = 0
    for shorter in _shingles(words, length):
        in_a_row = in_a_row + 1 if shorter in known else 0
        shared += in_a_row >= needed
    return shared / max(1, len(words) - _SHINGLE + 1)


def _share(words: list[str], other: list[str]) -> tuple[float, float]:
    """The share of a text that is word for word in another one, and in one piece there; both 0 to 1."""
    total = len(words) - _SHINGLE + 1
    if total <= 0:
        return 0.0, 0.0
    common = set(_shingles(words)).intersection(_shingles(other))
    if not common:
        return 0.0, 0.0
    places: dict[tuple[str, ...], int] = {}
    for place, shingle in enumerate(_shingles(other)):
        if shingle in common:
            places.setdefault(shingle, place)
    found = [places.get(shingle, -2) for shingle in _shingles(words)]
    longest = run = 0
    for before, here in pairwise([-2, *found]):
        run = (run + 1 if here == before + 1 and run else 1) if here >= 0 else 0
        longest = max(longest, run)
    return sum(place >= 0 for place in found) / total, longest / total


def _related(words: list[str], source: list[str]) -> bool:
    """Whether enough of a text's content words are in the source; other scripts cannot be compared."""
    stems = _stems(words)
    if not stems or _script(words) != _script(source):
        return True
    return len(stems & _stems(source)) >= _RELATED_SHARE * len(stems)


def _stems(words: list[str]) -> set[str]:
    return {word[:5] for word in words if len(word) >= 5 or not word.isascii() or word.isdigit()}


def _script(words: list[str]) -> bool:
    return sum(word.isascii() for word in words) * 2 > len(words)


def _repeats(text: str) -> bool:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) >= 10 and len(set(lines)) * 3 < len(lines):
        return True
    data = text.encode("utf-8", "replace")
    return len(text) >= _REPETITION_CHARS and len(data) > _REPETITION_RATIO * len(zlib.compress(data))
