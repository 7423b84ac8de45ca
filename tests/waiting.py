"""Waiting for a condition, however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], seconds: float = 300.0) -> T:
    """What a condition gives once it is true; fails when it never is."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.01)
    return found
