"""Counts the hooks that fail in a row, gives each user one sentence about it, and times those that work."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TypeVar

from lcm_plugin import forks
from lcm_plugin.config import LcmConfig
from lcm_plugin.errors import ConfigError, LcmError, StoreError
from lcm_plugin.events import log_failure, logger
from lcm_plugin.store.failures import FailureFile, HookFailure
from lcm_plugin.store.side_file import side_path
from lcm_plugin.types import Session

TOLD_AFTER = 3
"""Failures in a row after which the user gets a notice."""
EVERYWHERE = Session("")
"""Means all sessions of a host whose engine cannot be used at all."""
_MOST_TEXT = 400
_MOST_TIMES = 256
_T = TypeVar("_T")


class HookHealth(forks.FreshLocks):
    """Counts the failures of hooks, in the file beside the database, and in memory while that cannot be written.

    Thread-safe. A call that works costs one ``stat``.
    """

    def __init__(self, settings: Callable[[], LcmConfig], clock: Callable[[], int]) -> None:
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._file: FailureFile | None = None
        self._failing: dict[tuple[str, str], HookFailure] = {}
        self._seen_at = 0
        self._told: set[tuple[str, str]] = set()
        self._owed: dict[str, HookFailure] = {}
        self._times: dict[str, deque[float]] = {}
        forks.join(self)

    def failed(self, hook: str, session: Session, error: BaseException | str) -> HookFailure:
        """Counts a failure and returns it with the number of those in a row."""
        lane, text, now = session.name, cause(error), self._clock()
        with self._lock:
            known = self._failing.get((lane, hook))
            try:
                failure = self._opened().add(lane, hook, text, now)
            except Exception as problem:  # noqa: BLE001 - it is counted in memory, whatever the reason
                log_failure(logger, "a failure could not be written down", error=problem, level=logging.DEBUG)
                failure = HookFailure(lane, hook, 1, now, now, text)
                if known is not None and known.in_a_row:
                    failure = replace(failure, in_a_row=known.in_a_row + 1, since=known.since)
            self._failing[lane, hook] = failure
            if failure.in_a_row >= TOLD_AFTER and (lane, hook) not in self._told:
                self._told.add((lane, hook))
                self._owed[lane] = failure
        return failure

    def works(self, hook: str, session: Session) -> None:
        """Records that a hook worked."""
        key = (session.name, hook)
        with self._lock:
            self._look()
            failure = self._failing.get(key)
            if failure is None or not failure.in_a_row:
                return
            self._failing[key] = replace(failure, in_a_row=0)
            self._told.discard(key)
            if self._owed.get(key[0]) == failure:
                del self._owed[key[0]]
            try:
                self._opened().works(*key)
            except (LcmError, OSError) as problem:
                log_failure(
                    logger, "a recovery could not be written down", error=problem, level=logging.DEBUG
                )

    def timed(self, hook: str, work: Callable[[], _T]) -> _T:
        """The work's result; how long it took is kept, that of a failure is not."""
        began = perf_counter()
        done = work()
        self._times.setdefault(hook, deque(maxlen=_MOST_TIMES)).append(1_000 * (perf_counter() - began))
        return done

    def times(self) -> dict[str, list[float]]:
        """How long the newest calls of each hook took in this process, in ms and in ascending order."""
        return {hook: sorted(took) for hook, took in list(self._times.items())}

    def failures(self, session: Session | None = None) -> list[HookFailure]:
        """The newest failure of each hook of a session, or of all, also those of other processes; newest first."""
        with self._lock:
            self._look()
            found = sorted(self._failing.values(), key=lambda one: one.at, reverse=True)
        return found if session is None else [one for one in found if one.lane in ("", session.name)]

    def take_news(self, session: Session) -> str:
        """The notice for a person in this session, once; else the empty text."""
        with self._lock:
            failure = self._owed.pop(session.name, None) or self._owed.pop("", None)
        return news(failure) if failure else ""

    def _opened(self) -> FailureFile:
        if self._file is None:
            self._file = FailureFile(side_path(self._settings()))
        return self._file

    def _look(self) -> None:
        """Reads the file when another process, or this one, has written to it since."""
        try:
            file = self._opened()
            written_at = _written_at(file.path)
            if written_at and written_at != self._seen_at:
                self._failing |= {(one.lane, one.hook): one for one in file.newest()}
                self._seen_at = written_at
        except (LcmError, OSError) as problem:
            log_failure(logger, "failures could not be read", error=problem, level=logging.DEBUG)


def cause(error: BaseException | str) -> str:
    """An error as it may be shown: its text when it is ours, else its kind, since the text may quote a message."""
    if isinstance(error, str):
        text = error
    elif isinstance(error, (StoreError, ConfigError)):
        text = f"{type(error).__name__}: {error}"
    else:
        text = f"{type(error).__name__} (the log says where)"
    return " ".join(text.split())[:_MOST_TEXT]


def news(failure: HookFailure) -> str:
    """The sentence for the chat."""
    return (
        f"LCM does not work here: {failure.hook} failed {failure.in_a_row:,} times in a row ({failure.text}). "
        "The talk goes on with the host's own list. `/lcm status` says more."
    )


def _written_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
