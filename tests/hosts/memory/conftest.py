"""A clean start for programs that run an event loop."""

from __future__ import annotations

import asyncio
import warnings

import pytest


@pytest.fixture(autouse=True)
def no_loop_left_behind() -> None:
    """Closes the loop that a library may have made in this thread: `asyncio.run` would drop it unclosed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            asyncio.get_event_loop().close()
        except RuntimeError:
            pass
        else:
            asyncio.set_event_loop(None)
