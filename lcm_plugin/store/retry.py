"""Running again what was undone by no fault of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lcm_plugin.errors import ConnectionLost, OutcomeUnknown, StoreDeadlock, StoreError

_TRIES = 3
_T = TypeVar("_T")


def again(work: Callable[[], _T], *, looks: bool = False) -> _T:
    """The result of ``work``, run up to three times as long as it ends with a lost connection or a deadlock.

    ``looks``: before it writes, it looks whether an earlier run of it was committed after all; then it is also
    run again when that is not known. Each run waits for a server that is away, so no pause is needed here.
    """
    undone: tuple[type[StoreError], ...] = (ConnectionLost, StoreDeadlock)
    if looks:
        undone = (*undone, OutcomeUnknown)
    for _ in range(_TRIES - 1):
        try:
            return work()
        except undone:
            continue
    return work()
