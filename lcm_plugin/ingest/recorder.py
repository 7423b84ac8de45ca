"""What a host has handed over, what of it is stored, and what still waits to be.

Each delta waits until it is stored, or refused by name: in memory while it is being stored, and from the first
failure on in a file beside the database (`store.waiting`), where a later call or a later process finds it. A host's
whole list comes again by itself, so that only the newest one waits, and goes to the file when its session ends.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, Protocol

from lcm_plugin import forks
from lcm_plugin.config import LcmConfig
from lcm_plugin.errors import InputError, LcmError, StoreBusy
from lcm_plugin.events import Event, log_failure, logger
from lcm_plugin.ingest.arrivals import Arrivals
from lcm_plugin.ingest.host_noise import StandingTexts
from lcm_plugin.ingest.intake import Intake
from lcm_plugin.ingest.redaction import Redactor
from lcm_plugin.messages.conversions import FixedMessages
from lcm_plugin.messages.convert import NoMessage, as_message, rough_size
from lcm_plugin.store.side_file import side_path
from lcm_plugin.store.waiting import WaitingFile
from lcm_plugin.types import LIST_MODES, IngestMode, IngestReport, Message, Session

MOST_BYTES = 16 * 1024 * 1024
_SESSIONS = 256
_MESSAGES = 512
_OTHER_BATCHES = 64
_COMES_AGAIN = frozenset(LIST_MODES) - {"part"}


class Storing(Protocol):
    """The part of an engine that stores messages, and knows which of them have arrived."""

    arrivals: Arrivals

    def ingest(
        self, session: Session, messages: Sequence[Message], mode: IngestMode = "append"
    ) -> IngestReport:
        """Stores what is new."""


@dataclass(eq=False)
class _Batch:
    """What one call handed over, kept by the host's own objects until it is stored."""

    session: Session
    mode: IngestMode
    messages: list[Any]

    @cached_property
    def size(self) -> int:
        """About how many bytes it takes."""
        return rough_size(self.messages)


@dataclass(slots=True)
class _Lane:
    """One lane of talk. Its lock is held while something of it is stored, so that its order is kept."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    handed_over: dict[int, Any] = field(default_factory=dict)
    waiting: list[_Batch] = field(default_factory=list)
    in_file: bool = False

    def fresh(self, messages: Iterable[Any]) -> list[Any]:
        """The messages of a delta that were not handed over before, told by the objects themselves."""
        handed_over = self.handed_over
        found = [message for message in messages if id(message) not in handed_over]
        # The objects are kept, too: while they live, no other one gets their ids.
        handed_over.update((id(message), message) for message in found)
        for oldest in list(islice(handed_over, max(0, len(handed_over) - _MESSAGES))):
            del handed_over[oldest]
        return found

    def deltas(self) -> list[_Batch]:
        """What waits and does not come again by itself."""
        return [one for one in self.waiting if one.mode not in _COMES_AGAIN]

    def drop(self, batch: _Batch) -> None:
        """A batch does not wait any longer and is not stored: its messages are new when they come again."""
        for message in batch.messages:
            self.handed_over.pop(id(message), None)
        self.waiting = [one for one in self.waiting if one is not batch]


class Recorder(forks.FreshLocks):
    """Hands messages to an engine, in order, once. Thread-safe.

    ``settings`` gives the settings, which name the file and the secrets that must not get into it; ``tell`` takes
    an event for what waits and what is refused.
    """

    def __init__(self, settings: Callable[[], LcmConfig], tell: Callable[[Event], None]) -> None:
        self._settings = settings
        self._tell = tell
        self._lock = threading.Lock()
        self._lanes: OrderedDict[str, _Lane] = OrderedDict()
        self._file: tuple[WaitingFile, Intake] | None = None
        self._left_by_others = True
        forks.join(self)

    def after_fork_in_child(self) -> None:
        """New locks; what waits is the parent's to store."""
        super().after_fork_in_child()
        for lane in self._lanes.values():
            lane.lock, lane.waiting, lane.in_file = threading.RLock(), [], False

    def store(
        self,
        opened: Callable[[], Storing | None],
        session: Session,
        messages: Iterable[Any],
        mode: IngestMode,
    ) -> IngestReport | None:
        """Stores what waits in a session's lane and then what is new; raises what stands in the way.

        ``opened`` gives the engine, or None when this session is not to be stored.
        """
        lane = self._lane(session)
        with lane.lock:
            batch = self._taken(lane, session, messages, mode)
            try:
                engine = opened()
                if engine is None:
                    lane.drop(batch)
                    return None
                report = self._drain(engine, lane, session)
            except InputError:
                lane.drop(batch)
                raise
            except BaseException:
                self._keep(lane, batch)
                raise
        if self._left_by_others:
            self._drain_others(engine)
        return report

    def settle(self) -> None:
        """The host goes: what waits in memory goes to the file."""
        with self._lock:
            lanes = list(self._lanes.values())
        for lane in lanes:
            with lane.lock:
                self._to_file(lane, lane.waiting)

    def forget(self, session: Session) -> None:
        """A session was reset or ended; what still waits is kept."""
        lane = self._lane(session)
        with lane.lock:
            lane.handed_over.clear()
            self._to_file(lane, lane.waiting)

    def _taken(self, lane: _Lane, session: Session, messages: Iterable[Any], mode: IngestMode) -> _Batch:
        if mode in LIST_MODES:
            if mode in _COMES_AGAIN:
                lane.waiting = lane.deltas()
            batch = _Batch(session, mode, messages if isinstance(messages, FixedMessages) else list(messages))
        else:
            batch = _Batch(session, mode, lane.fresh(messages))
        if batch.messages:
            lane.waiting.append(batch)
        return batch

    def _drain(self, engine: Storing, lane: _Lane, session: Session) -> IngestReport | None:
        if lane.in_file or self._left_by_others:
            self._drain_file(engine, session.name)
            lane.in_file = False
        report = None
        while lane.waiting:
            batch = lane.waiting[0]
            report = _ingest(engine, batch.session, batch.mode, batch.messages)
            del lane.waiting[0]
        return report

    def _drain_file(self, engine: Storing, lane: str, limit: int | None = None) -> int:
        """Stores what a lane has in the file, oldest first; how many batches that were."""
        stored, file = 0, self._opened_file()[0]
        while (limit is None or stored < limit) and (batch := file.oldest(lane)) is not None:
            arrived = batch.since is not None and engine.arrivals.arrived(
                batch.session, batch.since, batch.messages
            )
            if not file.claim(
                batch, batch.since if arrived and batch.since else engine.arrivals.position(batch.session)
            ):
                raise StoreBusy("another process is just storing what waited; try again")
            try:
                if not arrived:
                    _ingest(engine, batch.session, batch.mode, batch.messages)
            except BaseException:
                file.release(batch)
                raise
            file.remove(batch)
            stored += 1
        return stored

    def _drain_others(self, engine: Storing) -> None:
        """Stores what an earlier process left behind, a part at each call."""
        try:
            left = _OTHER_BATCHES
            for lane in self._opened_file()[0].lanes():
                with self._lane_named(lane).lock:
                    left -= self._drain_file(engine, lane, left)
                if left <= 0:
                    return
            self._left_by_others = False
        except (LcmError, OSError) as error:
            log_failure(
                logger,
                "what an earlier process left could not be stored yet",
                error=error,
                level=logging.WARNING,
            )

    def _keep(self, lane: _Lane, batch: _Batch) -> None:
        """A delta that could not be stored goes to the file, or stays in memory as far as there is room."""
        if not batch.messages or batch.mode in _COMES_AGAIN:
            return
        self._to_file(lane, lane.deltas())
        kept = lane.deltas()
        if batch in kept and self.in_memory > MOST_BYTES:
            # The newest one is refused, so that the others keep their order.
            lane.drop(batch)
            self._say("ingest.refused", logging.ERROR, batch.session, len(batch.messages))
            kept = lane.deltas()
        waiting = sum(len(one.messages) for one in kept) + self._in_file(lane, batch.session)
        if waiting:
            self._say("ingest.waiting", logging.WARNING, batch.session, waiting)

    @property
    def in_memory(self) -> int:
        """About how many bytes of deltas wait in memory."""
        with self._lock:
            lanes = list(self._lanes.values())
        return sum(one.size for lane in lanes for one in lane.deltas())

    def _in_file(self, lane: _Lane, session: Session) -> int:
        try:
            return self._opened_file()[0].count(session.name) if lane.in_file else 0
        except (LcmError, OSError):
            return 0

    def _to_file(self, lane: _Lane, batches: Sequence[_Batch]) -> None:
        """Moves batches from memory to the file; on any failure the rest stay where they are."""
        try:
            for batch in list(batches):
                file, intake = self._opened_file()
                file.add(batch.session, batch.mode, [intake.storable(message) for message in batch.messages])
                lane.in_file = True
                lane.waiting = [one for one in lane.waiting if one is not batch]
        except Exception as error:  # noqa: BLE001 - it stays in memory, whatever stands in the way
            log_failure(logger, "what waits could not be written to a file", error=error, level=logging.DEBUG)

    def _opened_file(self) -> tuple[WaitingFile, Intake]:
        if self._file is None:
            config = self._settings()
            intake = Intake(Redactor(config.redact_patterns), StandingTexts((), ()))
            self._file = (WaitingFile(side_path(config)), intake)
        return self._file

    def _say(self, name: str, level: int, session: Session, messages: int) -> None:
        self._tell(Event(name, level, None, session.key, {"messages": messages}))

    def _lane(self, session: Session) -> _Lane:
        return self._lane_named(session.name)

    def _lane_named(self, name: str) -> _Lane:
        with self._lock:
            lane = self._lanes.setdefault(name, _Lane())
            self._lanes.move_to_end(name)
            if len(self._lanes) > _SESSIONS:
                idle = (
                    key
                    for key, one in self._lanes.items()
                    if not one.waiting and not one.in_file and key != name
                )
                if (oldest := next(idle, None)) is not None:
                    del self._lanes[oldest]
            return lane


def _ingest(engine: Storing, session: Session, mode: IngestMode, messages: Sequence[Any]) -> IngestReport:
    """Stores a batch; what is no message at all goes in as a broken record."""
    try:
        return engine.ingest(session, messages, mode)
    except NoMessage:
        return engine.ingest(session, [as_message(one) for one in messages], mode)
