"""Who holds a lease, in a form that tells another process on the same machine whether the holder still lives."""

from __future__ import annotations

import os
import socket
import uuid
from contextlib import suppress
from functools import cache

_SEPARATOR = "|"


def new_holder() -> str:
    """A name for one holding: where, which process, and a part of its own."""
    return _SEPARATOR.join((_place(), str(os.getpid()), uuid.uuid4().hex[:8]))


def process_holder() -> str:
    """The name of whatever this process holds once only."""
    return _SEPARATOR.join((_place(), str(os.getpid()), ""))


def is_dead(holder: str | None) -> bool:
    """True only when the holder was a process of this place that no longer runs; a name that says nothing is alive."""
    place, _, rest = (holder or "").partition(_SEPARATOR)
    number = rest.partition(_SEPARATOR)[0]
    if place != _place() or not number.isdecimal():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False


@cache
def _place() -> str:
    """The machine and, since containers number their processes from one, the space that numbers belong to."""
    space = ""
    with suppress(OSError):
        space = os.readlink("/proc/self/ns/pid")
    return f"{socket.gethostname()}{space}"
