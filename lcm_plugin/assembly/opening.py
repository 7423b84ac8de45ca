"""The request that a turn began with, when only the turn's beginning was compacted.

A very long turn may be compacted up to its newest messages. What is left then begins in the middle of the
turn, so its request is shown once more, word for word, between the summaries and the rest. Which request
that is depends on where the newest summary ends, not on what comes later; so it stays until the next
compaction.
"""

from __future__ import annotations

from lcm_plugin.assembly.render import Rendered, Renderer
from lcm_plugin.assembly.view import View, older_request
from lcm_plugin.store.protocol import Reader
from lcm_plugin.types import RunPosition


def turn_opening(
    reader: Reader, renderer: Renderer, view: View, run: RunPosition | None = None
) -> Rendered | None:
    """The compacted request of the turn that the raw messages after the newest summary belong to.

    Where the raw messages begin after the request of the ``run`` that asks, it is that request.
    """
    position = _newest_summary(view)
    if position is None:
        return None
    first = next((one for one in view.shown[position + 1 :] if one and one.kind != "instruction"), None)
    if first is not None and first.is_request:
        return None
    before = first.ordinal if first else None
    if run and (before is None or before > run.turn):
        before = run.turn + 1
    request = older_request(reader, renderer, view, before)
    if request is None or _stands_raw(view, request.ordinal):
        return None
    return renderer.words_only(request)


def insert_opening(items: list[Rendered], opening: Rendered) -> list[Rendered]:
    """The items with the request behind the newest summary."""
    summaries = [index for index, item in enumerate(items) if item.kind == "summary"]
    at = summaries[-1] + 1 if summaries else 0
    return [*items[:at], opening, *items[at:]]


def _newest_summary(view: View) -> int | None:
    for position in range(len(view.items) - 1, -1, -1):
        if view.items[position].message is None:
            return position
    return None


def _stands_raw(view: View, seq: int) -> bool:
    return any(item.ordinal == seq and item.message is not None for item in view.items)
