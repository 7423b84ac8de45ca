"""What a server gives back while nobody asks it anything: sessions stay open for hours, and many beside each other."""

from __future__ import annotations

import asyncio

import anyio
import anyio.to_thread

from lcm_plugin.messages.merging import COUNTS

REST_SECONDS = 300.0
"""Longer than most pauses in a talk, since the next call loads again what was given back."""


class Rest:
    """Gives memory back after so many seconds without a call, once until the next one. For one event loop."""

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = REST_SECONDS if seconds is None else seconds
        self._stirred = anyio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def stir(self) -> None:
        """There is a call: the seconds begin anew."""
        self._stirred.set()

    def stir_from_thread(self) -> None:
        """The same, for a call that another thread took."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.stir)

    async def watch(self) -> None:
        """Runs until it is cancelled."""
        self._loop = asyncio.get_running_loop()
        while True:
            self._stirred = anyio.Event()
            with anyio.move_on_after(self._seconds) as pause:
                await self._stirred.wait()
            if pause.cancelled_caught:
                await anyio.to_thread.run_sync(COUNTS.release)
                await self._stirred.wait()
