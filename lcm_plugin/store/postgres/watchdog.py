"""A connection that does not wait for an answer for ever.

The network layer finds out about a peer that is gone (`connect_options`). It does not about one that takes our packets
and is silent: a frozen server, or something in between. So whoever waits long asks the server over a new
connection whether it is there at all, and whether it still works for the session that waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

_LOOK_EVERY_S = 2.0
_REFUSAL = "FATAL:"
_SESSION = "SELECT state FROM pg_stat_activity WHERE pid = %s"


class NoAnswer(psycopg.OperationalError):
    """Nothing came for ``waited`` seconds; ``problem`` is why no other connection could be made either."""

    def __init__(self, waited: float, why: str, problem: psycopg.Error | None = None) -> None:
        super().__init__(f"no answer for {waited:.0f} s, {why}")
        self.waited = waited
        self.problem = problem


class _Stream(psycopg.ServerCursor[tuple[Any, ...]]):
    """Rows that are fetched as they are read."""

    def __init__(self, connection: WatchedConnection, *args: Any, **more: Any) -> None:
        super().__init__(connection, *args, **more)
        connection.streams.append(self)


class WatchedConnection(psycopg.Connection[tuple[Any, ...]]):
    """Closes itself, with `NoAnswer`, when no answer is to be expected any more.

    ``patience`` is how long (seconds) it waits before the first look; ``connect_anew`` makes another connection to the same
    server. ``incarnation`` changes whenever the server starts anew; ``direct`` is false when something in between
    shares its connections; each transaction
    then ``begins_with`` our settings. ``number`` is that of the write transaction it is in.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.made_at = time.monotonic()
        self.server_cursor_factory = _Stream
        self.streams: list[_Stream] = []
        self.incarnation = ""
        self.number = ""
        self.direct = False
        self.begins_with = b""
        self.patience = 0.0
        self.connect_anew: Callable[[], psycopg.Connection[tuple[Any, ...]]] | None = None

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **more: Any) -> Any:
        """Runs one exchange with the server."""
        return super().wait(self._watched(gen) if self.patience else gen, *args, **more)

    def end_streams(self) -> None:
        """After a transaction: one that was left half read must not be closed in the middle of a later one."""
        for stream in self.streams:
            stream.close()
        self.streams.clear()

    def _watched(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        begun = time.monotonic()
        look_at, idle_before = begun + self.patience, False
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() >= look_at:
                    idle_before = self._look(begun, idle_before)
                    look_at = time.monotonic() + _LOOK_EVERY_S
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value

    def _look(self, begun: float, idle_before: bool) -> bool:
        """Whether the server has done its part, as far as it says; the answer may be on its way then."""
        assert self.connect_anew is not None
        if self.pgconn.transaction_status != TransactionStatus.ACTIVE:
            return False
        try:
            with self.connect_anew() as other:
                found = other.execute(_SESSION, (self.info.backend_pid,)).fetchone()
        except psycopg.Error as error:
            if _REFUSAL in str(error):
                return False  # somebody is there, who has too many connections already
            raise self._given_up(begun, "and no new connection can be made", error) from None
        if not self.direct or (found is not None and found[0] == "active"):
            return False
        if found is None or idle_before:
            raise self._given_up(begun, "although the server is done")
        return True

    def _given_up(self, begun: float, why: str, problem: psycopg.Error | None = None) -> NoAnswer:
        self.pgconn.finish()
        return NoAnswer(time.monotonic() - begun, why, problem)
