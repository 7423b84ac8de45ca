"""Counts tokens, and loads tiktoken's tables only once they pay.

The tables take 0.2 to 0.4 s of CPU time and 45 MB, and count six times as fast. So a process counts its first texts by
merging over the packed vocabulary, with the same result, and loads them when that has taken as long as loading them
would: a hook, a short chat or a program at rest never does.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import regex

from lcm_plugin.messages.encodings import (
    LONGEST,
    PATTERN,
    load_encoding,
    packed,
    ranks_in,
    release_encoding,
    runs,
)

if TYPE_CHECKING:
    import tiktoken

FIRST_CHARS = 600_000
"""Characters of plain text that take as long to merge as the tables take to load."""
_MERGED_BYTE = 24
"""What a byte of a word that is no token costs, in characters of plain text."""
_LONGEST_WORD = 400
"""Bytes of a word above which merging, which is quadratic here, is tiktoken's business."""
_MARGIN = 100_000
_MOST_KNOWN = 20_000


class _TooLong(Exception):
    """A word is too long to be merged here."""


class _Merger(dict[str, int]):
    """The tokens of words, kept once they were looked for."""

    def __init__(self) -> None:
        super().__init__()
        data = packed()
        self._data, self._runs, self._ranks = data, runs(data), ranks_in(data)
        self._words = regex.compile(PATTERN)
        self.spent = 0

    def count(self, text: str) -> int:
        """Tokens of a text. Raises `_TooLong`, and `UnicodeEncodeError` for half a surrogate pair."""
        self.spent += len(text)
        if len(self) > _MOST_KNOWN:
            self.clear()
        return sum(map(self.__getitem__, self._words.findall(text)))

    def __missing__(self, word: str) -> int:
        data = word.encode()
        tokens = 1 if len(data) <= LONGEST and self._rank(data) >= 0 else self._merged(data)
        self[word] = tokens
        return tokens

    def _merged(self, word: bytes) -> int:
        """Byte-pair merging: of all neighbours those of the lowest rank become one, as long as any two can."""
        if len(word) > _LONGEST_WORD:
            raise _TooLong
        self.spent += _MERGED_BYTE * len(word)
        parts = [word[place : place + 1] for place in range(len(word))]
        ranks = [self._rank(one + other) for one, other in pairwise(parts)]
        while (lowest := min((rank for rank in ranks if rank >= 0), default=-1)) >= 0:
            place = ranks.index(lowest)
            parts[place : place + 2] = [parts[place] + parts[place + 1]]
            del ranks[place]
            for left in (place - 1, place):
                if 0 <= left < len(ranks):
                    ranks[left] = self._rank(parts[left] + parts[left + 1])
        return len(parts)

    def _rank(self, token: bytes) -> int:
        """The rank of a token; -1 when it is none."""
        length = len(token)
        run = self._runs.get(length)
        if run is None:
            return -1
        data, place = self._data, run.place
        low, high = 0, run.count
        while low < high:
            middle = (low + high) // 2
            start = place + middle * length
            if data[start : start + length] < token:
                low = middle + 1
            else:
                high = middle
        start = place + low * length
        if low == run.count or data[start : start + length] != token:
            return -1
        index, (first, second, third) = run.first + low, self._ranks
        return first[index] | second[index] << 8 | third[index] << 16


class TokenCounts:
    """The tokens of texts. Thread-safe."""

    def __init__(self, first_chars: int = FIRST_CHARS) -> None:
        self._first_chars = first_chars
        self._merger: _Merger | None = None
        self._tables: tiktoken.Encoding | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the next text waits for nothing to be loaded."""
        return self._merger is not None or self._tables is not None

    @property
    def has_tables(self) -> bool:
        """Whether tiktoken's tables are loaded."""
        return self._tables is not None

    def get_ready(self) -> None:
        """Loads what the next texts need, so that it is not loaded while others wait."""
        merger = self._merger
        if merger is None and self._tables is None:
            self._merger = _Merger()
        elif merger is not None and merger.spent + _MARGIN > self._first_chars:
            self._load_tables()

    def release(self) -> None:
        """Gives what is loaded back to the system, up to 45 MB; the next text loads what it needs again."""
        self._merger = self._tables = None
        release_encoding()

    def of(self, text: str) -> int:
        """Tokens of a text."""
        if self._tables is None:
            counted = self._merged(text)
            if counted is not None:
                return counted
        encode = self._load_tables().encode_ordinary
        try:
            return len(encode(text))
        except UnicodeEncodeError:
            return len(encode(text.encode("utf-8", "replace").decode()))

    def _merged(self, text: str) -> int | None:
        merger = self._merger
        if merger is None:
            merger = self._merger = _Merger()
        if merger.spent > self._first_chars:
            return None
        try:
            return merger.count(text)
        except (_TooLong, UnicodeEncodeError):
            return None

    def _load_tables(self) -> tiktoken.Encoding:
        tables = self._tables
        if tables is None:
            tables = self._tables = load_encoding()
            self._merger = None
        return tables


COUNTS = TokenCounts()
"""Those of the process."""
