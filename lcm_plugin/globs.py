"""Session globs: ``*`` is any run without ``:``, ``**`` any run, all else literal.

They match the whole key and mind the case. A key may hold any character, newlines included.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache


@lru_cache(maxsize=512)
def compile_glob(pattern: str) -> re.Pattern[str]:
    """The pattern as a regular expression over whole keys."""
    pieces = re.split(r"(\*+)", pattern)
    return re.compile("".join(_piece(piece) for piece in pieces), re.DOTALL)


def matches(pattern: str, key: str) -> bool:
    """Whether a glob matches a whole session key."""
    return compile_glob(pattern).fullmatch(key) is not None


def matches_any(patterns: Iterable[str], key: str) -> bool:
    """Whether one of several globs matches a whole session key."""
    return any(matches(pattern, key) for pattern in patterns)


def _piece(piece: str) -> str:
    if not piece.startswith("*"):
        return re.escape(piece)
    return "[^:]*" if len(piece) == 1 else ".*"
