"""Session globs: ``*`` is any run without ``:``, ``**`` any run, all else literal.

They match the whole key and mind the case. A key may hold any character, newlines included. All ways
to match are followed at once, one bit each (Baeza-Yates & Gonnet 1992, "shift-and"), so that the time
is linear in the key however many stars a pattern has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

_TOKEN = re.compile(r"\*+|[^*]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Glob:
    """A compiled pattern. Bit ``n`` of each mask stands for the pattern's token ``n``."""

    literals: dict[str, int]
    short_stars: int
    long_stars: int
    end: int

    def matches(self, key: str) -> bool:
        """Whether the whole key matches."""
        stars = self.short_stars | self.long_stars
        # A token's bit is set when all before it have matched; a star may also match nothing.
        reached = 1 | (stars & 1) << 1
        for character in key:
            staying = self.long_stars if character == ":" else stars
            reached = reached & staying | (reached & self.literals.get(character, 0)) << 1
            reached |= (reached & stars) << 1
            if not reached:
                return False
        return bool(reached & self.end)


@lru_cache(maxsize=512)
def compile_glob(pattern: str) -> Glob:
    """The pattern, ready to match. Three stars or more are ``**``."""
    literals: dict[str, int] = {}
    short_stars = long_stars = 0
    tokens = _TOKEN.findall(pattern)
    for number, token in enumerate(tokens):
        if token == "*":
            short_stars |= 1 << number
        elif token.startswith("*"):
            long_stars |= 1 << number
        else:
            literals[token] = literals.get(token, 0) | 1 << number
    return Glob(literals, short_stars, long_stars, 1 << len(tokens))


def matches(pattern: str, key: str) -> bool:
    """Whether a glob matches a whole session key."""
    return compile_glob(pattern).matches(key)


def matches_any(patterns: Iterable[str], key: str) -> bool:
    """Whether one of several globs matches a whole session key."""
    return any(matches(pattern, key) for pattern in patterns)
