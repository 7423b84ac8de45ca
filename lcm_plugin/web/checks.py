"""Integrity checks that run beside the pages: a large database takes seconds, and no page waits for that."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lcm_plugin.errors import LcmError, NotFound
from lcm_plugin.events import log_failure, logger
from lcm_plugin.types import IntegrityReport, Session

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine

_MOST_KEPT = 20


@dataclass(slots=True, eq=False)
class Check:
    """One check of a session, or of the whole database. ``report`` or ``error`` is there once it is ``done``."""

    number: int
    session: Session | None
    began: int
    report: IntegrityReport | None = None
    error: str = ""
    done: threading.Event = field(default_factory=threading.Event)


class Checks:
    """The newest checks of one database. Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._checks: dict[int, Check] = {}
        self._last = 0

    def start(self, session: Session | None) -> Check:
        """Begins a check on a thread of its own; returns the running one where the same is being checked."""
        with self._lock:
            for one in self._checks.values():
                if one.session == session and not one.done.is_set():
                    return one
            self._last += 1
            check = self._checks[self._last] = Check(self._last, session, self._engine.clock())
            for number in [one for one in self._checks if one <= self._last - _MOST_KEPT]:
                del self._checks[number]
        threading.Thread(target=self._run, args=(check,), name="lcm-web-check", daemon=True).start()
        return check

    def get(self, number: int) -> Check:
        """A check by its number; raises `NotFound` for one that is no longer kept."""
        with self._lock:
            check = self._checks.get(number)
        if check is None:
            raise NotFound(f"there is no check {number}; begin one again")
        return check

    def _run(self, check: Check) -> None:
        try:
            check.report = self._engine.check(check.session)
        except LcmError as error:
            check.error = str(error)
        except Exception as error:  # noqa: BLE001 - whoever asks is told; nobody else sees this thread
            log_failure(logger, "a check failed", error=error)
            check.error = f"internal error: {type(error).__name__}"
        finally:
            check.done.set()
