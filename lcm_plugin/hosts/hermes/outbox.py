"""What is still to be stored: a busy database delays it, and never the host.

Each hook hands over a list and waits a moment for it to be stored. When the database is locked, or its server
away, for longer, the hook returns, the list stays first in line, and a thread of our own goes on trying.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from lcm_plugin.errors import ServerAway, StoreBusy, StoreConflict
from lcm_plugin.forks import FreshLocks, join

logger = logging.getLogger("lcm_plugin.hermes")

PATIENCE = 1.5
_BRIEF = 0.05
_RETRY = 0.5


@dataclass(eq=False)
class Job:
    """Something to be stored; ``done`` is set when it was, with ``result``, or when it failed for good."""

    work: Callable[[], object]
    done: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None
    result: object = None

    @property
    def stored(self) -> bool:
        """True when the work went through."""
        return self.done.is_set() and self.error is None


class Outbox(FreshLocks):
    """One line of jobs and one thread that works them off in order, started when it is needed."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._warned = False
        self._stuck = False
        self._cause = ""
        join(self)

    def after_fork_in_child(self) -> None:
        """A new line: what waits is the parent's to store."""
        super().after_fork_in_child()
        self._jobs, self._thread, self._stuck = deque(), None, False

    def put(self, work: Callable[[], object]) -> Job:
        """Queues work and waits for it, the less the longer the database has been locked already."""
        job = Job(work)
        with self._changed:
            self._jobs.append(job)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="lcm-outbox", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        if not job.done.wait(_BRIEF if self._stuck else self._patience):
            self._warn()
        return job

    def drain(self, timeout: float) -> bool:
        """Waits until everything is stored; False when the time ran out."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._jobs, timeout)

    @property
    def waiting(self) -> int:
        """How many jobs are not stored yet."""
        with self._changed:
            return len(self._jobs)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._jobs:
                    self._changed.wait()
                job = self._jobs[0]
            if not self._try(job):
                threading.Event().wait(_RETRY)
                continue
            with self._changed:
                self._jobs.popleft()
                self._changed.notify_all()

    def _try(self, job: Job) -> bool:
        """Works a job off; False when it must be tried again."""
        try:
            job.result = job.work()
        except (StoreBusy, StoreConflict, ServerAway) as error:
            self._stuck, self._cause = True, str(error)
            return False
        except Exception as error:  # noqa: BLE001 - told to whoever waits for the job
            job.error = error
        self._stuck = self._warned = False
        self._cause = ""
        job.done.set()
        return True

    def _warn(self) -> None:
        if not self._warned:
            self._warned = True
            logger.warning(
                "LCM: storing takes longer than usual (%s); the conversation goes on, and what was said is stored "
                "as soon as it can be",
                self._cause or "it is still being written, as on a first start or a slow disk",
            )
