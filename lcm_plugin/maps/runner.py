"""Works a map off: claims items, asks in parallel, stores each answer as it comes, stops at what it may cost.

Any number of workers may share a map. Each holds the items that it asks about under a lease; what a killed one held is
taken over. An answer is stored in a transaction as soon as it is there, so that a kill repeats only calls that were
still under way.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from lcm_plugin.errors import LcmError, ServerAway, StoreBusy
from lcm_plugin.events import EventBus
from lcm_plugin.maps.answering import REPLIES, Answerer, Outcome
from lcm_plugin.maps.options import MICRO, MapOptions
from lcm_plugin.store.leases import is_dead, new_holder
from lcm_plugin.store.maps.records import MapItem, MapRecord, Settlement
from lcm_plugin.store.protocol import Store, Writer
from lcm_plugin.store.retry import retry_lost

FAILURES_TO_STOP = 20
LONGEST_PAUSE = 60.0
_POLL = 0.1
_GRACE_MS = 60_000

BUDGET = "the budget is used up"
PERSON = "stopped"


@dataclass(slots=True)
class _Work:
    """What one worker has under way."""

    owner: str
    asked: dict[Future[list[Outcome]], list[MapItem]] = field(default_factory=dict)
    finished: list[Settlement] = field(default_factory=list)
    not_before: float = 0.0
    failures: int = 0
    refusals: int = 0
    last_error: str = ""
    out_of_budget: bool = False


class MapRunner:
    """Works one map off in the calling thread and a pool of its own."""

    def __init__(
        self,
        store: Store,
        events: EventBus,
        clock: Callable[[], int],
        answerer: Answerer,
        options: MapOptions,
        parallel: int,
    ) -> None:
        self._store = store
        self._events = events
        self._clock = clock
        self._answerer = answerer
        self._options = options
        self._parallel = parallel
        self._batch_size = answerer.batch_size
        self._lease_ms = int(options.seconds * REPLIES * 2_000) + _GRACE_MS

    def run(
        self, map_id: str, stop: Callable[[], bool], progress: Callable[[MapRecord], object]
    ) -> MapRecord:
        """Works until nothing is left, the map is stopped, or ``stop`` says so; returns the map as it is then.

        ``progress`` is called after each transaction. Items that others hold are waited for.
        """
        work = _Work(new_holder())
        pool = ThreadPoolExecutor(self._parallel, thread_name_prefix="lcm-map")
        try:
            return self._loop(map_id, work, pool, stop, progress)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            self._give_back(map_id, work)

    def _loop(
        self,
        map_id: str,
        work: _Work,
        pool: ThreadPoolExecutor,
        stop: Callable[[], bool],
        progress: Callable[[MapRecord], object],
    ) -> MapRecord:
        while True:
            stopping = stop()
            try:
                record, items = self._step(map_id, work, claim=not stopping)
            except (StoreBusy, ServerAway):
                # What was paid for is kept until it can be stored; nothing else is asked meanwhile.
                if stopping:
                    raise
                time.sleep(_POLL)
                continue
            progress(record)
            for start in range(0, len(items), self._batch_size):
                batch = items[start : start + self._batch_size]
                work.asked[pool.submit(self._answerer.answer_many, batch)] = batch
            if record.state != "running" or stopping:
                return self._drained(map_id, work, record)
            if not work.asked:
                time.sleep(_POLL)
            done, _ = wait(work.asked, timeout=_POLL, return_when=FIRST_COMPLETED)
            for future in done:
                self._take(work, future)

    def _drained(self, map_id: str, work: _Work, record: MapRecord) -> MapRecord:
        """Stores what was asked and paid for already; what has not begun is given back."""
        waiting = [future for future in work.asked if not future.cancel()]
        done, _ = wait(waiting, timeout=self._options.seconds)
        for future in done:
            self._take(work, future)
        return self._step(map_id, work, claim=False)[0] if work.finished else record

    def _take(self, work: _Work, future: Future[list[Outcome]]) -> None:
        outcomes = _outcomes_of(future, work.asked.pop(future))
        work.finished += [outcome.settled for outcome in outcomes]
        pause = max(outcome.wait for outcome in outcomes)
        if pause:
            work.not_before = max(work.not_before, time.monotonic() + min(pause, LONGEST_PAUSE))
        if any(outcome.settled.state == "done" for outcome in outcomes):
            work.failures = work.refusals = 0
        elif not pause:
            refused = all(outcome.refused for outcome in outcomes)
            work.refusals += refused
            work.failures += not refused
            work.last_error = outcomes[-1].settled.error

    def _step(self, map_id: str, work: _Work, *, claim: bool) -> tuple[MapRecord, list[MapItem]]:
        """One transaction: stores outcomes, then takes the next items or ends the map."""
        now, finished = self._clock(), work.finished

        def change() -> tuple[MapRecord, MapRecord, list[MapItem]]:
            with self._store.write() as writer:
                if finished:
                    writer.settle_map_items(map_id, finished, now)
                before = _found(writer, map_id)
                items = self._claimed(writer, before, work, now) if claim else []
                ended = self._end(writer, before, work, items, now)
                return before, _found(writer, map_id) if ended else before, items

        before, record, items = retry_lost(change)
        work.finished = []
        if before.state == "running" and record.state != "running":
            self._events.emit(
                "map.ended",
                conversation_id=record.conversation_id,
                map_id=map_id,
                state=record.state,
                done=record.done,
                failed=record.failed,
                tokens=record.spent,
                detail=record.reason,
            )
        return record, items

    def _claimed(self, writer: Writer, record: MapRecord, work: _Work, now: int) -> list[MapItem]:
        # None is asked about while an answer waits to be stored: a kill loses those under way, and no others.
        free = self._parallel * self._batch_size - sum(map(len, work.asked.values()))
        if record.state != "running" or free <= 0 or time.monotonic() < work.not_before:
            return []
        items = writer.claim_map_items(record.map_id, work.owner, now, self._lease_ms, free)
        if not items and not work.asked and record.left:
            for holder in filter(is_dead, writer.map_holders(record.map_id)):
                writer.release_map_items(record.map_id, holder)
        kept = self._affordable(record, work, items)
        too_many = [Settlement(item.place, "open", counts=False) for item in items[kept:]]
        if too_many:
            writer.settle_map_items(record.map_id, too_many, now)
        work.out_of_budget = bool(too_many)
        return items[:kept]

    def _affordable(self, record: MapRecord, work: _Work, items: list[MapItem]) -> int:
        """How many of these items fit the budget beside what is under way, each with an answer of full length."""
        options = self._options
        tokens, cost = record.spent, record.cost
        limits = options.budget_tokens, options.budget_usd
        if limits == (None, None):
            return len(items)
        under_way = [item for asked in work.asked.values() for item in asked]
        for number, item in enumerate((*under_way, *items)):
            prompt = self._answerer.prompt_tokens + item.tokens + options.most_read
            tokens += prompt + options.max_tokens
            cost += options.cost(prompt, options.max_tokens)
            over = limits[0] is not None and tokens > limits[0]
            over |= limits[1] is not None and cost > limits[1] * MICRO
            if over:
                return max(0, number - len(under_way))
        return len(items)

    def _end(self, writer: Writer, record: MapRecord, work: _Work, items: list[MapItem], now: int) -> bool:
        """Ends or stops the map where that is due, and returns whether it did."""
        if record.state != "running":
            return False
        if record.left <= 0:
            writer.set_map_state(record.map_id, "done", "", record.options, now)
        elif work.out_of_budget and not work.asked and not items:
            writer.set_map_state(record.map_id, "stopped", BUDGET, record.options, now)
        elif max(work.failures, 0 if record.done else work.refusals) >= FAILURES_TO_STOP:
            # Where items were answered, refused ones are no fault of the model, the prompt or the schema.
            reason = f"{FAILURES_TO_STOP} calls in a row failed, the last with: {work.last_error}"
            writer.set_map_state(record.map_id, "stopped", reason, record.options, now)
        else:
            return False
        return True

    def _give_back(self, map_id: str, work: _Work) -> None:
        def release() -> None:
            with self._store.write() as writer:
                writer.release_map_items(map_id, work.owner)

        try:
            retry_lost(release)
        except LcmError:
            # The lease ends by itself.
            return


def _found(writer: Writer, map_id: str) -> MapRecord:
    record = writer.map(map_id)
    if record is None:
        # Its conversation was pruned meanwhile, and the map with it.
        return MapRecord(map_id, 0, "", "", "", "{}", "", 0, "stopped", "the map was removed")
    return record


def _outcomes_of(future: Future[list[Outcome]], items: list[MapItem]) -> list[Outcome]:
    try:
        return future.result()
    except Exception as error:  # noqa: BLE001 - one item's trouble never ends the map
        problem = f"{type(error).__name__}: {error}"[:500]
        return [Outcome(Settlement(item.place, "failed", error=problem)) for item in items]
