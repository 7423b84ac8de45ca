"""What a forked process must not share with the one it came from: locks, threads, connections.

``os.fork`` copies a lock that another thread holds as it is, and no thread that would let it go. An object that holds
any of these joins here; it is kept weakly. gunicorn and multiprocessing fork in this way.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol

_LOCKS: dict[type, Callable[[], Any]] = {
    type(new()): new for new in (threading.Lock, threading.RLock, threading.Condition)
}
_joined: weakref.WeakSet[Forkable] = weakref.WeakSet()


class Forkable(Protocol):
    """What is called around a fork, in an order that nothing may depend on."""

    def before_fork(self) -> None:
        """In the process that is about to fork."""

    def after_fork_in_parent(self) -> None:
        """In that process, when it has forked."""

    def after_fork_in_child(self) -> None:
        """In the new process, which has one thread."""


class FreshLocks:
    """A `Forkable` whose attributes that are locks are new ones in the child."""

    def before_fork(self) -> None:
        """Nothing."""

    def after_fork_in_parent(self) -> None:
        """Nothing."""

    def after_fork_in_child(self) -> None:
        """New locks: a thread that is not here may have held the old ones."""
        for name, value in list(vars(self).items()):
            if (new := _LOCKS.get(type(value))) is not None:
                setattr(self, name, new())


def join(member: Forkable) -> None:
    """From now on the object is told of forks, for as long as it lives."""
    _joined.add(member)


def _before() -> None:
    for member in list(_joined):
        member.before_fork()


def _in_parent() -> None:
    for member in list(_joined):
        member.after_fork_in_parent()


def _in_child() -> None:
    for member in list(_joined):
        member.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
