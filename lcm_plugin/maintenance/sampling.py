"""Checks new summaries after compactions, in the background, and now and then the context.

It reads the newest summaries, a few of each run, for a fraction of a second, and yields to turns. A finding
becomes an event, and requests a whole check of the conversation by a worker.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from lcm_plugin.background import Background
from lcm_plugin.errors import LcmError
from lcm_plugin.events import Event, EventBus
from lcm_plugin.lru import LruCache
from lcm_plugin.maintenance.check import Checker
from lcm_plugin.maintenance.jobs import IntegrityJobs
from lcm_plugin.types import Severity

NEWEST = 3
EVERY = 8
SECONDS = 0.3
_MOST_WAITING = 32
# Cheap whatever the history's length: they read the context, not the messages behind it.
_OF_THE_CONTEXT = ("counters", "context_dangling", "context_foreign", "context_order")


class Sampler:
    """Listens to compactions. Thread-safe."""

    def __init__(
        self,
        checker: Checker,
        jobs: IntegrityJobs,
        background: Background,
        events: EventBus,
        clock: Callable[[], int],
    ) -> None:
        self._checker = checker
        self._jobs = jobs
        self._background = background
        self._events = events
        self._clock = clock
        self._lock = threading.Lock()
        self._new: LruCache[int, list[str]] = LruCache(_MOST_WAITING)
        self._runs: dict[int, int] = {}

    def note(self, event: Event) -> None:
        """Remembers a summary that was just published; the newest of a run are looked at once that has ended."""
        summary_id, conversation_id = event.fields.get("summary_id"), event.conversation_id
        if conversation_id is None:
            return
        if event.name == "compaction.pass" and summary_id:
            with self._lock:
                known = self._new.get(conversation_id, [])
                self._new.put(conversation_id, [*known, str(summary_id)][-NEWEST:])
        elif event.name == "compaction.finished" and self._new.get(conversation_id):
            # Not after each pass: that would read the sources of a whole sweep a second time.
            self._background.submit(
                ("integrity-sample", conversation_id), lambda: self.sample(conversation_id)
            )

    def sample(self, conversation_id: int) -> None:
        """Checks the new summaries of one conversation."""
        with self._lock:
            fresh = frozenset(self._new.pop(conversation_id) or ())
            count = self._runs[conversation_id] = self._runs.get(conversation_id, -1) + 1
        self._background.yield_to_foreground()
        end = time.monotonic() + SECONDS

        def stop() -> bool:
            return self._background.closing or time.monotonic() > end

        try:
            found = [
                one
                for one in self._checker.check_summaries(fresh, stop)
                if one.severity is not Severity.INFO and one.code != "summary_fallback"
            ]
            if count % EVERY == 0:
                found += self._checker.audit(_OF_THE_CONTEXT, conversation_id, self._clock(), stop).findings
            if not found:
                return
            self._events.emit(
                "integrity.sampled",
                level=logging.WARNING,
                conversation_id=conversation_id,
                findings=len(found),
                classes=",".join(sorted({one.code for one in found})),
                ids=" ".join(ref for one in found[:5] for ref in one.ids),
            )
            self._jobs.request(conversation_id, "sample", "scan_and_plan")
        except LcmError as error:
            self._events.emit("integrity.sample_failed", conversation_id=conversation_id, error=str(error))
