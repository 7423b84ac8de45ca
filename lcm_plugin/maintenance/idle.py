"""Work that waits until no turn needs the machine: indexing for search, counting again, checks, and maps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from lcm_plugin.background import Background
from lcm_plugin.maintenance.jobs import IntegrityJobs
from lcm_plugin.maintenance.recount import Recount
from lcm_plugin.maps.service import Maps
from lcm_plugin.recall.catchup import BACKGROUND_LAG, BULK

_INDEX = "search-index"

CHECK_SECONDS = 60.0
"""The longest integrity check inside a host; the pauses for hooks count. What it found until then is its result."""
LOOK_SECONDS = 5.0
"""A turn that follows another within so long looks for work only when enough rows to index have arrived."""


class IdleWork:
    """Runs on background threads, and pauses while a hook is running.

    ``catch_up`` indexes what is pending until what it is given says stop, ``rows_behind`` says how much that is.
    ``maps`` is None where hosts make none.
    With ``always`` each turn leaves work behind, so that each looks for it.
    """

    def __init__(
        self,
        background: Background,
        catch_up: Callable[[Callable[[], bool]], None],
        rows_behind: Callable[[], int],
        recount: Recount,
        jobs: IntegrityJobs,
        maps: Maps | None,
        *,
        always: bool = False,
    ) -> None:
        self._background = background
        self._catch_up = catch_up
        self._rows_behind = rows_behind
        self._recount = recount
        self._jobs = jobs
        self._maps = maps
        self._lock = threading.Lock()
        self._always = always
        self._arrived = 0
        self._next_look = 0.0

    def start(self) -> None:
        """Starts what may be pending after a turn, unless it is running already."""
        with self._lock:
            if not self._always and self._arrived < BACKGROUND_LAG and time.monotonic() < self._next_look:
                return
        self.look()

    def opened(self) -> None:
        """Goes on with what another process stored and did not index, if that is a bulk."""
        if self._rows_behind() >= BULK:
            self.look()

    def is_indexing(self) -> bool:
        """Whether the index is being filled, or about to be."""
        return self._background.is_busy(_INDEX)

    def arrived(self, rows: int) -> None:
        """Notes rows that were stored; a bulk of them is indexed whether a turn follows or not."""
        with self._lock:
            self._arrived += rows
            if self._arrived < BULK:
                return
        self.look()

    def look(self) -> None:
        """Starts what is pending now."""
        with self._lock:
            self._next_look = time.monotonic() + LOOK_SECONDS
            if self._arrived >= BACKGROUND_LAG:
                self._arrived = 0
        self._background.submit(_INDEX, self._run)

    def start_index(self) -> None:
        """Starts the index and the counts alone: a worker does checks and maps in a thread of its own."""
        self._background.submit(_INDEX, lambda: self.finish(self._should_stop))

    def finish(self, stop: Callable[[], bool]) -> None:
        """Does in this thread what is not bounded in time: the index and the counts."""
        self._catch_up(stop)
        self._recount.run(stop)

    def _run(self) -> None:
        self.finish(self._should_stop)
        if not self._background.closing and self._jobs.is_due():
            self._background.submit("integrity-jobs", self._check_one)
        if self._maps is not None and not self._background.closing and self._maps.is_due():
            self._background.submit("maps", self._work_maps)

    def _work_maps(self) -> None:
        if self._maps is not None:
            self._maps.work_off(lambda: self._background.closing)

    def _check_one(self) -> None:
        self._jobs.work_off(self._should_stop, most=1, seconds=CHECK_SECONDS)

    def _should_stop(self) -> bool:
        self._background.yield_to_foreground()
        return self._background.closing
