"""Running again what was lost with its connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lcm_plugin.errors import ConnectionLost, OutcomeUnknown

_TRIES = 3
_T = TypeVar("_T")


def again(work: Callable[[], _T], *, looks: bool = False) -> _T:
    """The result of ``work``, run up to three times as long as it ends with a lost connection.

    ``looks``: before it writes, it looks whether an earlier run of it was committed after all; then it is also
    run again when that is not known. Each run waits for a server that is away, so no pause is needed here.
    """
    lost = (ConnectionLost, OutcomeUnknown) if looks else ConnectionLost
    for _ in range(_TRIES - 1):
        try:
            return work()
        except lost:
            continue
    return work()
