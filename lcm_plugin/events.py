"""Events: what the engine tells about itself while it works.

Each goes to the log and to every listener. A log record's message is the event's name; its fields are attributes of
the record (``extra``), so that any formatter, stdlib's or structlog's, can write them. This package never sets up
logging. No record above debug level holds a message's text: fields are ids, reasons and counts, and what others
said (a provider's error) goes into ``detail``, which only a debug record shows.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

logger = logging.getLogger("lcm_plugin")

# Every record has these, None where an event says nothing of them, so that a formatter may name them.
LOG_FIELDS = (
    "conversation_id",
    "session_key",
    "session_id",
    "compaction_id",
    "summary_id",
    "trigger_reason",
    "token_before",
    "token_after",
)
_FREE_TEXT = frozenset({"detail"})
_FRAMES = 3
_scope: ContextVar[Mapping[str, Any] | None] = ContextVar("lcm_event_scope", default=None)


@dataclass(frozen=True, slots=True)
class Event:
    """One occurrence. ``fields`` holds ids, reasons and counts, never message text.

    Names are dotted: ``ingest.stored``, ``compaction.pass``, ``compaction.deferred``,
    ``summary.rejected``, ``assembly.fallback``, ``store.busy``, ``hook.failed`` …
    """

    name: str
    level: int = logging.INFO
    conversation_id: int | None = None
    session_key: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)


Listener = Callable[[Event], object]


class EventBus:
    """Hands each event to the log and to every listener; a listener's error never spreads."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Adds a listener and returns the function that removes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def emit(
        self,
        name: str,
        *,
        level: int = logging.INFO,
        conversation_id: int | None = None,
        session_key: str | None = None,
        **fields: Any,
    ) -> None:
        """Builds an event, with the fields of the scopes it happens in, and delivers it."""
        event = Event(name, level, conversation_id, session_key, {**(_scope.get() or {}), **fields})
        _log(event)
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except BaseException as error:
                if is_interrupt(error):
                    raise
                log_failure(logger, "an event listener failed on %s", name, error=error)

    def job_failed(self, job: object, error: BaseException) -> None:
        """A background job ended with an error that nobody awaits."""
        self.emit(
            "background.failed",
            level=logging.ERROR,
            job=str(job),
            error=type(error).__name__,
            detail=str(error),
        )


def is_interrupt(error: BaseException) -> bool:
    """Whether an exception is meant for the whole process and not for the work it arose in."""
    return isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit))


@contextmanager
def event_scope(**fields: Any) -> Iterator[None]:
    """Every event of this thread inside it carries the fields, unless it sets them itself."""
    token = _scope.set({**(_scope.get() or {}), **fields})
    try:
        yield
    finally:
        _scope.reset(token)


def log_failure(
    to: logging.Logger, text: str, *values: object, error: BaseException, level: int = logging.ERROR
) -> None:
    """Logs what failed, of which kind the error is and where it arose.

    The error's own words may quote a message: they and the traceback go into a debug record.
    """
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    places = " < ".join(f"{Path(one.filename).name}:{one.lineno} {one.name}" for one in reversed(frames))
    to.log(level, f"{text}: %s at %s", *values, type(error).__name__, places or "an unknown place")
    to.debug(text, *values, exc_info=error)


def _log(event: Event) -> None:
    if not logger.isEnabledFor(event.level):
        return
    fields = {
        **dict.fromkeys(LOG_FIELDS),
        **{key: value for key, value in event.fields.items() if key not in _FREE_TEXT},
        "conversation_id": event.conversation_id,
        "session_key": event.session_key,
    }
    logger.log(event.level, event.name, extra=_log_fields(fields))
    details = {key: event.fields[key] for key in _FREE_TEXT if event.fields.get(key)}
    if details and logger.isEnabledFor(logging.DEBUG):
        logger.debug("%s: %s", event.name, details, extra=_log_fields(fields))


def _log_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {f"lcm_{key}" if key in _RESERVED else key: value for key, value in fields.items()}


_RESERVED = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
