"""Counts tokens as tiktoken does: by byte-pair merging over the packed vocabulary, and in bulk with tiktoken itself.

tiktoken builds its tables in 0.1 s during which no other thread of the process runs, an event loop least of all, and
takes 45 MB for them. Inside a host that is too much, so no step here is longer than a slice of text: a process looks its
first tokens up in the packed file where they stand, and makes a table of them (0.08 s, 20 MB) once looking up has taken
as long as making it. A program of our own that counts megabytes, such as an import, asks for tiktoken's tables: they
count what seldom repeats its words, such as Chinese and base64, five to ten times as fast.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, cached_property
from heapq import heapify, heappop, heappush
from itertools import pairwise
from operator import add
from typing import TYPE_CHECKING, Any

from lcm_plugin.messages.encodings import (
    LONGEST,
    PATTERN,
    give_memory_back,
    load_tables,
    packed,
    ranks_in,
    runs,
    vocabulary,
)

if TYPE_CHECKING:
    import tiktoken

FIRST_LOOKUPS = 30_000
"""Lookups in the file that take as long as a table of its tokens takes to make."""
_MARGIN = 5_000
_LONG_WORD = 64
"""Bytes above which the list of neighbours, which is gone through for each merge, costs more than a heap of them."""
_UNCUT = 6
"""Characters up to which a word is merged in one piece."""
_MOST_KNOWN = 20_000
_NO_TOKEN = 1 << 30
_LETTERS_THEN_SPACE = re.compile(
    r"[\x00-\x7f]*[A-Za-z](?= |\Z)|.+?(?:(?<=[A-Za-z])(?= )|\Z)",
    re.DOTALL,
)
"""Stretches of text, each of which ends between a letter and a space, where a word always ends."""
_ASCII_WORDS = re.compile(
    r"[^\r\nA-Za-z0-9]?(?:[a-z]++|[A-Z]++[a-z]*+)(?:'(?:[sStTmMdD]|[rRvV][eE]|[lL][lL]))?"
    r"|[0-9]{1,3}+| ?[^\sA-Za-z0-9]++[\r\n/]*+|\s*[\r\n]+|\s+(?!\S)|\s+",
    re.ASCII,
)
"""What `encodings.PATTERN` finds in ASCII text, in half the time."""

_Rank = Callable[[bytes], int]


class _Merger(dict[str, int]):
    """How many tokens words have, kept once they were looked for."""

    def __init__(self) -> None:
        super().__init__()
        self._file: _File | None = _File()
        self._rank: _Rank = self._file.rank
        self._joins: _Joins | None = None
        self._is_making = False

    @property
    def has_table(self) -> bool:
        """Whether the table is made."""
        return self._file is None

    @property
    def lookups(self) -> int:
        """How often tokens were looked up in the file."""
        return self._file.lookups if self._file else 0

    def make_table(self) -> None:
        """Makes the table, from which every later token is looked up; other threads count on meanwhile."""
        if self._is_making:
            return
        self._is_making = True
        try:
            ranks = vocabulary()
        finally:
            self._is_making = False
        self._joins = _Joins(ranks)
        self._rank = lambda token: ranks.get(token, _NO_TOKEN)
        self._file = None

    def count(self, text: str) -> int:
        """Tokens of a text. Raises `UnicodeEncodeError` for half a surrogate pair."""
        if len(self) > _MOST_KNOWN:
            self.clear()
        if text.isascii():
            return sum(map(self.__getitem__, _ASCII_WORDS.findall(text)))
        find: Callable[[str], list[str]] = _any_words().findall
        return sum(
            sum(map(self.__getitem__, (_ASCII_WORDS.findall if part.isascii() else find)(part)))
            for part in _LETTERS_THEN_SPACE.findall(text)
        )

    def __missing__(self, word: str) -> int:
        data = word.encode()
        if self._rank(data) < _NO_TOKEN:
            tokens = 1
        elif len(word) > _UNCUT and len(word) < len(data) and len(pieces := self._pieces(word)) > 1:
            return sum(map(self.__getitem__, pieces))
        elif len(data) > _LONG_WORD:
            return _merged_long(data, self._rank)
        else:
            tokens = _merged(data, self._rank)
        self[word] = tokens
        return tokens

    def _pieces(self, word: str) -> list[str]:
        """The word, cut where no token goes across: a sentence in a script without spaces is one word."""
        if self._joins is None:
            return [word]
        joined = map(self._joins.__getitem__, map(add, word, word[1:]))
        cuts = [place for place, together in enumerate(joined, 1) if not together]
        return [word[start:end] for start, end in zip([0, *cuts], [*cuts, len(word)], strict=True)]


class _Joins(dict[str, bool]):
    """Whether some token goes from one character on to the other, by the two."""

    def __init__(self, ranks: dict[bytes, int]) -> None:
        super().__init__()
        self._ranks = ranks

    @cached_property
    def _known(self) -> tuple[frozenset[str], frozenset[tuple[int, int]]]:
        """The neighbours in tokens of whole characters, and the bytes at which others go on to a next character."""
        twos: set[str] = set()
        torn: set[tuple[int, int]] = set()
        for token in self._ranks:
            if not token.isascii():
                try:
                    text = token.decode()
                except UnicodeDecodeError:
                    torn.update(pairwise(token))
                else:
                    twos.update(map(add, text, text[1:]))
        return frozenset(twos), frozenset(torn)

    def __missing__(self, two: str) -> bool:
        if len(self) > _MOST_KNOWN:
            self.clear()
        twos, torn = self._known
        joined = two.isascii() or two in twos or (two[0].encode()[-1], two[1].encode()[0]) in torn
        self[two] = joined
        return joined


class _File:
    """The packed vocabulary, in which tokens are looked up where they stand."""

    def __init__(self) -> None:
        data = packed()
        self._data, self._runs, self._ranks = data, runs(data), ranks_in(data)
        self.lookups = 0

    def rank(self, token: bytes) -> int:
        """The rank of a token; `_NO_TOKEN` when it is none."""
        self.lookups += 1
        length = len(token)
        run = self._runs.get(length) if length <= LONGEST else None
        if run is None:
            return _NO_TOKEN
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
            return _NO_TOKEN
        index, (first, second, third) = run.first + low, self._ranks
        return first[index] | second[index] << 8 | third[index] << 16


def _merged(word: bytes, rank: _Rank) -> int:
    """Byte-pair merging: of all neighbours those of the lowest rank become one, as long as any two can."""
    parts = [word[place : place + 1] for place in range(len(word))]
    ranks = [rank(one + other) for one, other in pairwise(parts)]
    while ranks and (lowest := min(ranks)) < _NO_TOKEN:
        place = ranks.index(lowest)
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
        del ranks[place]
        if place:
            ranks[place - 1] = rank(parts[place - 1] + parts[place])
        if place < len(ranks):
            ranks[place] = rank(parts[place] + parts[place + 1])
    return len(parts)


def _merged_long(word: bytes, rank: _Rank) -> int:
    """The same for a long word: the pairs wait in a heap, and one that has changed since is passed over."""
    length = len(word)
    ends = list(range(1, length + 1))  # of the part that begins here; 0: none does any more
    begins = list(range(-1, length))  # of the part before the one that begins here
    pairs = [(rank(word[at : at + 2]), at, at + 2) for at in range(length - 1)]
    heapify(pairs)
    left = length
    while pairs:
        lowest, at, end = heappop(pairs)
        if lowest == _NO_TOKEN:
            break
        middle = ends[at]
        if not middle or middle == length or ends[middle] != end:
            continue
        ends[at], ends[middle] = end, 0
        left -= 1
        if at:
            before = begins[at]
            heappush(pairs, (rank(word[before:end]), before, end))
        if end < length:
            begins[end] = at
            heappush(pairs, (rank(word[at : ends[end]]), at, ends[end]))
    return left


@cache
def _any_words() -> Any:
    """The pattern of words, whose module is not loaded for ASCII text."""
    import regex

    return regex.compile(PATTERN)


def _encoded(tables: tiktoken.Encoding, text: str) -> int:
    try:
        return len(tables.encode_ordinary(text))
    except UnicodeEncodeError:
        return len(tables.encode_ordinary(text.encode("utf-8", "replace").decode()))


class TokenCounts:
    """The tokens of texts. Thread-safe."""

    def __init__(self, first_lookups: int = FIRST_LOOKUPS) -> None:
        self._first_lookups = first_lookups
        self._merger: _Merger | None = None
        self._tables: tiktoken.Encoding | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the next text waits for nothing to be loaded."""
        return self._merger is not None or self._tables is not None

    @property
    def has_table(self) -> bool:
        """Whether the table is made."""
        return self._merger is not None and self._merger.has_table

    @property
    def has_tables(self) -> bool:
        """Whether tiktoken counts."""
        return self._tables is not None

    def use_tables(self) -> None:
        """Lets tiktoken count from now on, for a program without a host; its tables hold up all threads while they load."""
        self._tables = self._tables or load_tables()
        self._merger = None

    def get_ready(self) -> None:
        """Loads what the next texts need, so that it is not loaded while others wait."""
        if self._tables is not None:
            return
        merger = self._merger
        if merger is None:
            self._merger = _Merger()
        elif merger.lookups + _MARGIN > self._first_lookups:
            merger.make_table()

    def release(self) -> None:
        """Gives what is loaded back to the system, up to 45 MB; the next text loads what it needs again."""
        self._merger = self._tables = None
        give_memory_back()

    def of(self, text: str) -> int:
        """Tokens of a text."""
        if self._tables is not None:
            return _encoded(self._tables, text)
        merger = self._merger
        if merger is None:
            merger = self._merger = _Merger()
        if merger.lookups > self._first_lookups:
            merger.make_table()
        try:
            return merger.count(text)
        except UnicodeEncodeError:
            return merger.count(text.encode("utf-8", "replace").decode())


COUNTS = TokenCounts()
"""Those of the process."""
