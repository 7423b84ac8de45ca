"""Another summariser in the same agent: both would cost model calls, and its summaries would stand beside ours."""

from __future__ import annotations

import sys
import warnings
from typing import Any

_SUMMARISER = "SummarizationMiddleware"
_DEEPEST = 8


def warn_of_summariser(ours: Any) -> bool:
    """Warns when the agent that is being built around ``ours`` has a summariser, too; whether it did.

    LangChain gives a middleware no list of its neighbours; the list that it builds from is found in its frame.
    """
    for listing in _lists_being_built():
        if any(one is ours for one in listing):
            others = [one for one in listing if one is not ours and _summarises(one)]
            if others:
                warnings.warn(
                    f"{type(others[0]).__name__} summarises beside LcmMiddleware: leave it out, let LcmMiddleware take "
                    f'its place with name="{_SUMMARISER}" (deepagents), or keep it and set captureOnly.',
                    stacklevel=3,
                )
                return True
    return False


def _lists_being_built() -> list[Any]:
    found: list[Any] = []
    frame = sys._getframe(1)
    for _ in range(_DEEPEST):
        if frame is None:
            break
        listing = frame.f_locals.get("middleware")
        if isinstance(listing, (list, tuple)):
            found.append(listing)
        frame = frame.f_back  # type: ignore[assignment]
    return found


def _summarises(middleware: Any) -> bool:
    return any(_SUMMARISER in kind.__name__ for kind in type(middleware).__mro__)
