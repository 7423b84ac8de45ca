"""Words that a person wants kept in detail, and which sentences concern them."""

from __future__ import annotations

import re
from itertools import takewhile

_WORD = re.compile(r"[^\W_]+")
_LEAST, _SHARE = 4, 0.6
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")


class Focus:
    """What a summary is to keep in detail. False when it is nothing in particular."""

    def __init__(self, words: str) -> None:
        found = set(_words(words))
        # Short words say little beside longer ones.
        self._wanted = sorted({word for word in found if len(word) >= _LEAST or not word.isalpha()} or found)

    def __bool__(self) -> bool:
        return bool(self._wanted)

    def count(self, text: str) -> int:
        """How many of the words a text has, in any form."""
        words = set(_words(text)) if self._wanted else set()
        return sum(any(_is_form(wanted, word) for word in words) for wanted in self._wanted)


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _is_form(wanted: str, word: str) -> bool:
    """Whether two words begin alike for most of their length: ``migrations`` and ``migrate``."""
    if wanted == word:
        return True
    if _UNSPACED.search(wanted):
        return wanted in word
    if not (wanted.isalpha() and word.isalpha()):
        return False
    alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(wanted, word, strict=False)))
    return alike >= max(_LEAST, _SHARE * max(len(wanted), len(word)))
