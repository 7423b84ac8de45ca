"""Work off the turn: daemon threads that run jobs, one at a time per key, and make way for turns; and threads for calls.

A job that computes holds the interpreter for milliseconds at a time, and a turn would wait for it at each of
its queries. So a job asks between its steps whether a hook is running, and pauses for it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context
from queue import Empty, SimpleQueue
from typing import Any

from lcm_plugin import forks
from lcm_plugin.events import log_failure, logger

Job = Callable[[], object]
Outcome = tuple[Any, BaseException | None]
_LONGEST_PAUSE_S = 0.2
_LONGEST_IDLE_S = 5.0


class Background(forks.FreshLocks):
    """Runs jobs on a few daemon threads, which start with the first job.

    A key that is already waiting is not queued twice; one that is running runs once more afterwards.
    """

    def __init__(
        self, workers: int = 4, failed: Callable[[Hashable, BaseException], object] | None = None
    ) -> None:
        """``failed`` is called with the key of a job and what it raised."""
        self._limit = workers
        self._failed = failed
        self._closing = False
        self.after_fork_in_child()
        forks.join(self)

    def after_fork_in_child(self) -> None:
        """In a new process: no threads yet, and nothing to do, since the other process does it."""
        self._lock = threading.Lock()
        # Who waits for work, for its end, and for the end of hooks: a hook wakes only who waits for it.
        self._work_came = threading.Condition(self._lock)
        self._work_ended = threading.Condition(self._lock)
        self._hooks_ended = threading.Condition(self._lock)
        self._idle_threads = 0
        self._queue: deque[tuple[Hashable, Job]] = deque()
        self._waiting: set[Hashable] = set()
        self._running: set[Hashable] = set()
        self._threads: list[threading.Thread] = []
        self._hooks = 0

    @contextmanager
    def foreground(self) -> Iterator[None]:
        """While it is open a hook is running that somebody waits for."""
        with self._counted(1):
            yield

    @contextmanager
    def waited_for(self) -> Iterator[None]:
        """Within `foreground`: the hook itself waits for background work."""
        with self._counted(-1):
            yield

    def yield_to_foreground(self) -> None:
        """Pauses a job while a hook is running; a fifth of a second at most, so that work goes on."""
        if self._hooks <= 0:
            return
        with self._lock:
            self._hooks_ended.wait_for(lambda: self._hooks <= 0 or self._closing, _LONGEST_PAUSE_S)

    def submit(self, key: Hashable, job: Job) -> bool:
        """Queues a job; False when the key is waiting already or the pool is closing."""
        with self._lock:
            if self._closing or key in self._waiting:
                return False
            self._waiting.add(key)
            self._queue.append((key, job))
            if self._idle_threads < len(self._queue):
                self._start_thread()
            self._work_came.notify()
            return True

    def _start_thread(self) -> None:
        """One more, if there may be. The lock is held."""
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        if len(self._threads) < self._limit:
            thread = threading.Thread(target=self._work, name="lcm-background", daemon=True)
            self._threads.append(thread)
            thread.start()

    def is_busy(self, key: Hashable) -> bool:
        """Whether a key is queued or running."""
        with self._lock:
            return key in self._waiting or key in self._running

    def wait_idle(self, timeout: float | None = None) -> bool:
        """Waits until nothing is queued or running; False when the time (seconds) is over first."""
        with self._lock:
            return self._work_ended.wait_for(lambda: not (self._waiting or self._running), timeout)

    def wait_for(self, key: Hashable, timeout: float) -> bool:
        """Waits until one key is neither queued nor running; False when the time is over first."""
        with self._lock:
            return self._work_ended.wait_for(
                lambda: key not in self._waiting and key not in self._running, timeout
            )

    @property
    def closing(self) -> bool:
        """Whether jobs should stop soon."""
        return self._closing

    def close(self, timeout: float = 5.0) -> None:
        """Drops what is queued and waits (seconds) for what is running."""
        with self._lock:
            self._closing = True
            self._queue.clear()
            self._waiting.clear()
            for waiters in (self._work_came, self._work_ended, self._hooks_ended):
                waiters.notify_all()
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))

    @contextmanager
    def _counted(self, change: int) -> Iterator[None]:
        self._count(change)
        try:
            yield
        finally:
            self._count(-change)

    def _count(self, change: int) -> None:
        with self._lock:
            self._hooks += change
            if self._hooks <= 0:
                self._hooks_ended.notify_all()

    def _work(self) -> None:
        while (taken := self._take()) is not None:
            key, job = taken
            try:
                job()
            except BaseException as error:  # noqa: BLE001 - the thread must outlive any job
                self._report(key, error)
            finally:
                with self._lock:
                    # What waits for this key is taken by this thread, which looks for work next.
                    self._running.discard(key)
                    self._work_ended.notify_all()

    def _report(self, key: Hashable, error: BaseException) -> None:
        with suppress(BaseException):  # A handler of the host's logs or events may raise anything.
            log_failure(logger, "a background job failed", error=error)
            if self._failed is not None:
                self._failed(key, error)

    def _take(self) -> tuple[Hashable, Job] | None:
        with self._lock:
            while True:
                if self._closing:
                    return None
                for index, (key, job) in enumerate(self._queue):
                    if key not in self._running:
                        del self._queue[index]
                        self._waiting.discard(key)
                        self._running.add(key)
                        return key, job
                self._idle_threads += 1
                try:
                    self._work_came.wait()
                finally:
                    self._idle_threads -= 1


class CallThreads(forks.FreshLocks):
    """Daemon threads for calls that may hang: a free thread takes the next call, and nobody waits for one that hangs.

    A thread costs more than many a call, so that it is kept for a few seconds. Each call has an empty context.
    """

    def __init__(self, name: str) -> None:
        """``name`` is that of each thread."""
        self._name = name
        self.after_fork_in_child()
        forks.join(self)

    def after_fork_in_child(self) -> None:
        """In a new process: no threads yet."""
        self._free: list[SimpleQueue[tuple[Callable[[], Any], SimpleQueue[Outcome]]]] = []

    def start(self, work: Callable[[], Any]) -> SimpleQueue[Outcome]:
        """Runs ``work`` on a thread; the queue gets its result, or None and what it raised."""
        done: SimpleQueue[Outcome] = SimpleQueue()
        try:
            tasks = self._free.pop()
        except IndexError:
            tasks = SimpleQueue()
            threading.Thread(target=self._serve, args=(tasks,), name=self._name, daemon=True).start()
        tasks.put((work, done))
        return done

    def _serve(self, tasks: SimpleQueue[tuple[Callable[[], Any], SimpleQueue[Outcome]]]) -> None:
        while True:
            try:
                work, done = tasks.get(timeout=_LONGEST_IDLE_S)
            except Empty:
                try:
                    self._free.remove(tasks)
                except ValueError:
                    continue  # It was taken a moment ago: its work is on the way.
                return
            outcome = _outcome(work)
            # Free before the caller goes on, so that its next call finds this thread.
            self._free.append(tasks)
            done.put(outcome)
            del work, done, outcome


def _outcome(work: Callable[[], Any]) -> Outcome:
    try:
        return Context().run(work), None
    except BaseException as error:  # noqa: BLE001 - handed to the caller's thread
        return None, error
