"""Events: what the engine emits about its work.

Each goes to the log and to every listener. A log record's message is the event's name, of a warning or an error
followed by what it means and its fields; these are attributes of the record as well (``extra``), so that any
formatter, stdlib's or structlog's, can write them. This package never sets up
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
_IDS = frozenset({"compaction_id", "session_id"})
MEANINGS: Mapping[str, str] = {
    "ingest.stored": "messages were stored",
    "ingest.skipped": "there was nothing new, or the session is not stored",
    "ingest.waiting": "messages could not be stored and wait",
    "ingest.refused": "messages could not be stored, and there is no room to keep them",
    "ingest.withdrawn": "the host took messages back, or brought some back",
    "ingest.converted": "values that JSON lacks were converted",
    "ingest.broken": "messages could be stored only in part",
    "assembly.done": "a context was assembled",
    "assembly.notice": "a context was assembled, and a person should know something about it",
    "assembly.nearly_full": "the model is told that its context is nearly full of what cannot be compacted",
    "assembly.fallback": "the host's own list was used",
    "assembly.mended": "a context broke a provider's rule, and what broke it was left out",
    "compaction.pass": "a summary was published",
    "compaction.cleared": "old results that can be read again were cut to a few words",
    "compaction.kept": "a chunk stays as it is",
    "compaction.finished": "a compaction ended",
    "compaction.skipped": "a compaction was asked for and is not due, or is being done already",
    "compaction.wait_ended": "a turn waited long enough for a compaction, which goes on",
    "compaction.overflow": "a provider refused a context as too long",
    "compaction.overflow_persists": "a provider refused a context as too long, and nothing could be compacted",
    "compaction.failed": "the database stood in the way of a compaction",
    "compaction.not_recorded": "a compaction could not be recorded as owed; it was started all the same",
    "compaction.undone": "a person took a compaction back",
    "summary.rejected": "a model's summary was not accepted",
    "summary.failed": "a model wrote no summary",
    "summary.fallback": "a summary was extracted, since no model wrote one",
    "summary.capped": "a model's summary was cut at its cap",
    "summary.oversize": "a model's summary is larger than its target",
    "summary.spend_limited": "the summary calls of this window are used up; extraction stands in until they are not",
    "summary.unshrinkable": "a chunk cannot be made smaller and stays as it is",
    "model.failed": "a model call failed",
    "recall.answered": "a recall tool answered",
    "recall.decided": "old messages were quoted before the model answers, or there was a reason not to",
    "map.created": "a map was created",
    "map.ended": "a map is done, or was stopped",
    "pin.added": "something was pinned into every context",
    "pin.removed": "something was unpinned",
    "session.pruned": "/new took items out of the context",
    "session.restored": "what /new took out is back",
    "session.reset": "/reset archived the conversation",
    "session.archived": "a session ended and was archived",
    "session.bootstrapped": "a sub-agent began with its parent's history",
    "file.prose_failed": "a model wrote nothing about a file",
    "file.prose_refused": "a model's words about a file could not be used",
    "tokens.recounted": "rows of an older version were counted again",
    "calibration.observed": "a provider counted a prompt",
    "calibration.not_saved": "what was learned from a provider's count could not be stored",
    "turn.no_window": "the host names a window that cannot be used",
    "turn.window_assumed": "nobody named the model's window, so it is assumed",
    "integrity.checked": "an integrity check ended",
    "integrity.sampled": "a look at new summaries found something",
    "integrity.sample_failed": "a look at new summaries failed",
    "integrity.job_done": "a check that was asked for ended",
    "integrity.repaired": "a repair was made",
    "integrity.repair_failed": "a repair failed",
    "retention.pruned": "a person had conversations removed",
    "redaction.done": "a person had a text removed",
    "store.moved": "the database file was deleted or replaced while it was open",
    "search.index_reset": "the full-text index was thrown away and is built again",
    "search.index_broken": "the full-text index is damaged and could not be built again",
    "search.index_waits": "the full-text index waits for another writer",
    "search.semantic_missing": "the sentence model that was asked for is not there",
    "search.vectors_wait": "the search by meaning waits for another writer",
    "background.failed": "a background job ended with an error; others go on",
    "hook.failed": "a hook failed; the host went on with its own list",
}
"""Every event with a sentence for people. No other event is emitted."""
_FRAMES = 3
_scope: ContextVar[Mapping[str, Any] | None] = ContextVar("lcm_event_scope", default=None)


@dataclass(frozen=True, slots=True)
class Event:
    """One occurrence. ``fields`` holds ids, reasons and counts, never message text.

    ``name`` is one of `MEANINGS`.
    """

    name: str
    level: int = logging.INFO
    conversation_id: int | None = None
    session_key: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)

    def in_words(self, *, free_text: bool = True) -> str:
        """What happened, for a person, with the fields in brackets; without ``free_text`` nobody else's words."""
        details = [
            f"{key.replace('_', ' ')} {value}"
            for key, value in self.fields.items()
            if value not in ("", None) and key not in _IDS and (free_text or key not in _FREE_TEXT)
        ]
        meaning = MEANINGS.get(self.name, self.name)
        return f"{meaning} ({', '.join(details)})" if details else meaning


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
    words = f": {event.in_words(free_text=False)}" if event.level >= logging.WARNING else ""
    logger.log(event.level, "%s%s", event.name, words, extra=_log_fields(fields))
    details = {key: event.fields[key] for key in _FREE_TEXT if event.fields.get(key)}
    if details and logger.isEnabledFor(logging.DEBUG):
        logger.debug("%s: %s", event.name, details, extra=_log_fields(fields))


def _log_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {f"lcm_{key}" if key in _RESERVED else key: value for key, value in fields.items()}


_RESERVED = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
