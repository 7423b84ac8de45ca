"""Events: what the engine tells about itself while it works."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

logger = logging.getLogger("lcm_plugin")


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
        """Builds an event and delivers it."""
        event = Event(name, level, conversation_id, session_key, fields)
        if logger.isEnabledFor(level):
            logger.log(level, name, extra={"conversation_id": conversation_id, **_log_fields(fields)})
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:
                logger.exception("an event listener failed on %s", name)


def _log_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {f"lcm_{key}" if key in _RESERVED else key: value for key, value in fields.items()}


_RESERVED = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
