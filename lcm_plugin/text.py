"""Counts with their nouns, as a person would write them."""

from __future__ import annotations


def plural(count: int, noun: str) -> str:
    """A count with its noun: ``1 row``, ``2,000 rows``, ``3 entries``, ``2 branches``."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}{'es' if noun.endswith(('ch', 'sh', 'ss', 'x')) else 's'}"
