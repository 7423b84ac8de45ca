"""What an operator watches, as numbers: the page Health and the metrics show the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lcm_plugin.commands.facade import EngineFacade
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.side_file import side_path
from lcm_plugin.store.waiting import WaitingFile

_ALL = 10_000
_SESSIONS = 20
_RECENT_MS = 3_600_000
_ANY_TIME = 1 << 62


@dataclass(frozen=True, slots=True)
class Gauges:
    """The state of one database now. Times are milliseconds since 1970, 0 for never.

    ``owed`` conversations wait for a compaction or are in one; ``index_lag`` rows are not in the search index yet.
    ``fullest`` is the largest context of the sessions used in the last hour, as a share of its room, and
    ``fullest_conversation`` that session's. ``paused_models`` are not called for a while, ``paused_sessions`` have used
    their summary calls up. ``making_ms`` is how long the newest contexts took to make, in ascending order.
    """

    owed: int
    index_lag: int
    fullest: float
    fullest_conversation: int | None
    paused_models: tuple[str, ...]
    paused_sessions: int
    waiting_messages: int
    failing_hooks: int
    last_error_at: int
    last_stored_at: int
    making_ms: tuple[int, ...]

    def making(self, share: float) -> int:
        """The time within which that share of the newest contexts was made; 0 without any."""
        return (
            self.making_ms[min(len(self.making_ms) - 1, int(share * len(self.making_ms)))]
            if self.making_ms
            else 0
        )


def gauges(engine: EngineFacade, reader: Reader) -> Gauges:
    """Reads counters and small tables only."""
    now = engine.clock()
    index = reader.index_state()
    guards = reader.guards()
    failures = engine.hook_health.failures()
    share, number = max(_shares(engine, reader, now), default=(0.0, None))
    breakers = {key: one for key, one in guards.items() if key.startswith("breaker:")}
    spent = [one for key, one in guards.items() if key.startswith("spend:")]
    return Gauges(
        owed=len(reader.due_debts(_ANY_TIME, limit=_ALL)),
        index_lag=index.message_lag + index.summary_lag,
        fullest=share,
        fullest_conversation=number,
        paused_models=tuple(
            sorted(key.partition(":")[2] for key, one in breakers.items() if one["open_until"] > now)
        ),
        paused_sessions=sum(one.get("paused_until", 0) > now for one in spent),
        waiting_messages=WaitingFile(side_path(engine.config)).total(),
        failing_hooks=sum(one.in_a_row > 0 for one in failures),
        last_error_at=max([engine.recent_warnings.newest_at, *(one.at for one in failures)]),
        last_stored_at=reader.last_stored_at() or 0,
        making_ms=tuple(sorted(reader.newest_making_ms(conversations=_SESSIONS))),
    )


def _shares(engine: EngineFacade, reader: Reader, now: int) -> Sequence[tuple[float, int]]:
    recent = reader.conversations_used_since(now - _RECENT_MS, limit=_SESSIONS)
    return [
        (row.context_tokens / max(1, engine.compaction.known_limits(reader, row).room), row.conversation_id)
        for row in recent
        if row.active
    ]
