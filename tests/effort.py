"""How much work a test run does: all of it where the environment has ``CI``, elsewhere a part."""

from __future__ import annotations

import os

FULL = bool(os.environ.get("CI"))


def examples(whole: int, here: int | None = None) -> int:
    """How many examples a property gets: ``whole``, or without CI ``here`` (a fifth, and ten at least)."""
    if FULL:
        return whole
    return min(whole, max(10, whole // 5)) if here is None else here


def seed() -> int:
    """For random tests: the same one under CI, where what failed must fail again; elsewhere always another."""
    return 1 if FULL else int.from_bytes(os.urandom(3))


def canaries() -> tuple[int, int]:
    """How many facts to plant in a real host, and after how many compactions to ask; ``TEST_CANARIES=30,30`` sets both."""
    planted, after = os.environ.get("TEST_CANARIES", "12,3").split(",")
    return int(planted), int(after)
