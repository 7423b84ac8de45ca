"""The one gate: which texts of a model may be stored as a summary.

`Gate.check` returns the text to store or the reason why there is none. The reasons:
``empty, reasoning, refusal, error, chat, too_short, unrelated, echo, prompt_echo, repetition, not_smaller``.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, repeat

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
_PIECE = 4
_ECHO_SHARE, _COPY_SHARE, _RUN_SHARE, _PROMPT_SHARE = 0.9, 0.7, 0.5, 0.25
_RELATED_SHARE = 0.1
_REPETITION_CHARS, _REPETITION_RATIO = 400, 8.0
_WORDS = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]|[^\W_]+")
# Bytes of ASCII in small letters, those of no word as spaces.
_LETTERS = bytes(ord(chr(byte).lower() if chr(byte).isalnum() else " ") for byte in range(128)).ljust(256)
_BREAKS = bytes(byte for byte in range(128) if not chr(byte).isalnum())
# Signs between words that make a text other than ASCII most often.
_COMMON_SIGNS = "–—’‘“”…•→·"
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
        runs = _Runs(_words(text))
        if runs.reaches(_PROMPT_SHARE, frame):
            return "prompt_echo"
        if tokens > _SHORT_TOKENS and runs.is_copy(source):
            return "echo"
        if tokens < _SHORT_TOKENS and not _related(_words(text.replace(EXPAND_PREFIX, "")), _words(source)):
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
    words: list[str] = []
    for some in _by_script(text):
        words += (
            some.encode().translate(_LETTERS).decode().split()
            if some.isascii()
            else _WORDS.findall(some.lower())
        )
    return words


def _letters_alone(text: str) -> str:
    """The words of a text with nothing between them."""
    return "".join(
        [
            some.encode().translate(_LETTERS, _BREAKS).decode()
            if some.isascii()
            else "".join(_WORDS.findall(some.lower()))
            for some in _by_script(text)
        ]
    )


def _by_script(text: str) -> Iterator[str]:
    """A text in pieces that are ASCII or hardly so: no word goes on in another line, and most lines of most texts are
    ASCII."""
    if not text.isascii():
        for sign in _COMMON_SIGNS:
            text = text.replace(sign, " ")
    if text.isascii():
        yield text
    else:
        for _, lines in groupby(text.splitlines(), str.isascii):
            yield "\n".join(lines)


class _Runs:
    """A text's runs of ten words, to be looked for in other texts.

    Each distinct word of the text is one character, so that a run is a short string, and what another text has in
    common with it is found by built-in functions.
    """

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._count = max(0, len(words) - _SHINGLE + 1)

    @cached_property
    def _letters(self) -> dict[str, str]:
        return {word: chr(number) for number, word in enumerate(dict.fromkeys(self._words), 1)}

    @cached_property
    def _runs(self) -> list[str]:
        text = "".join(map(self._letters.__getitem__, self._words))
        return [text[start : start + _SHINGLE] for start in range(self._count)]

    def reaches(self, share: float, other: str) -> bool:
        """Whether at least a share of the runs stands word for word in another text."""
        return not self._misses(share, other) and self._shared(self._written(other))[0] >= share

    def is_copy(self, source: str) -> bool:
        """Whether nearly all of them are word for word in a source, or most, and half of them in one piece."""
        if self._misses(_COPY_SHARE, source):
            return False
        written = self._written(source)
        share, known = self._shared(written)
        return share >= _ECHO_SHARE or (
            share >= _COPY_SHARE and self._longest(written, known) >= _RUN_SHARE * self._count
        )

    def _misses(self, share: float, other: str) -> bool:
        """Whether fewer than a share of the runs can stand in another text, as a few of their pieces show.

        Each run has one of the pieces, and where a piece does not stand none of its runs does. So texts that nobody
        copied are told by some dozens of looks, and their sources are never cut into words.
        """
        words, left, letters = self._words, self._count, _letters_alone(other)
        before = _SHINGLE - _PIECE
        for start in range(before, len(words) - _PIECE + 1, before + 1):
            if "".join(words[start : start + _PIECE]) not in letters:
                left -= min(before + 1, self._count - (start - before))
                if left < share * self._count:
                    return True
        return False

    def _written(self, other: str) -> str:
        """Another text in the letters of this one; a word that this one does not have is a NUL."""
        return "".join(map(self._letters.get, _words(other), repeat("\0")))

    def _shared(self, written: str) -> tuple[float, set[str]]:
        known = {
            piece[start : start + _SHINGLE]
            for piece in written.split("\0")
            if len(piece) >= _SHINGLE
            for start in range(len(piece) - _SHINGLE + 1)
        }
        return sum(map(known.__contains__, self._runs)) / max(1, self._count), known

    def _longest(self, written: str, known: set[str]) -> int:
        """How many runs follow each other there as here, at most."""
        longest = run = 0
        before = -2
        for shingle in self._runs:
            here = written.index(shingle) if shingle in known else -2
            run = (run + 1 if here == before + 1 and run else 1) if here >= 0 else 0
            longest, before = max(longest, run), here
        return longest


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
