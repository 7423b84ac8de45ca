"""Retries a transaction that the database rolled back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lcm_plugin.errors import ConnectionLost, OutcomeUnknown, StoreDeadlock, StoreError

_TRIES = 3
_T = TypeVar("_T")


def retry_lost(work: Callable[[], _T], *, idempotent: bool = False) -> _T:
    """The result of ``work``, tried up to three times while it ends with a lost connection or a deadlock.

    ``idempotent``: before it writes, ``work`` looks whether an earlier try was committed; then it is also tried again
    when that is not known. Each try waits for a server that is away, so no pause is needed here.
    """
    rolled_back: tuple[type[StoreError], ...] = (ConnectionLost, StoreDeadlock)
    if idempotent:
        rolled_back = (*rolled_back, OutcomeUnknown)
    for _ in range(_TRIES - 1):
        try:
            return work()
        except rolled_back:
            continue
    return work()
