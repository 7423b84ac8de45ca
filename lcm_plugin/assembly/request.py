"""What a context is wanted for."""

from __future__ import annotations

from dataclasses import dataclass

from lcm_plugin.compaction.tail import TailBounds
from lcm_plugin.types import RunPosition


@dataclass(frozen=True, slots=True)
class Request:
    """What a context is wanted for. Amounts are tokens.

    ``limit`` is the budget less the host's overhead, ``room`` also less the safety margin; only the
    newest user message may use the margin. ``budget`` is the whole, the same from turn to turn.
    ``standing`` is what pins and the newest plan may take, ``keep_latest_of`` the globs of tools that make plans.
    ``run`` is set while other runs go on beside the one that asks.
    """

    budget: int
    limit: int
    room: int
    tail: TailBounds
    prompt: str | None = None
    model: str | None = None
    by_relevance: bool = False
    standing: int = 0
    keep_latest_of: tuple[str, ...] = ()
    run: RunPosition | None = None
