"""A network that can fail: a TCP proxy on 127.0.0.1 between a client and a server."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Literal

Fate = Literal["answered", "unanswered", "silent", "lost"]
_COMMIT = b"COMMIT\x00"


class TcpProxy:
    """Hands bytes on both ways until it is told otherwise.

    ``commit`` is the fate of the next COMMIT: ``unanswered`` arrives, and the client's connection ends before the
    answer; ``silent`` arrives, and no answer comes although the connection stands; ``lost`` does not even arrive,
    and the connection ends. The server is not told that the client is gone, as in a real network.
    ``then_refuse`` makes whoever connects after that be refused.
    """

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._flowing = threading.Event()
        self._flowing.set()
        self._lock = threading.Lock()
        self._clients: list[socket.socket] = []
        self._all: list[socket.socket] = []
        self._refusing = False
        self.commit: Fate = "answered"
        self.then_refuse = False
        self.commits = 0
        self.fates = 0
        self.requests = 0
        self.refused = 0
        self._cut_at: tuple[int, bool] | None = None
        self._silent: set[socket.socket] = set()
        self._skip = 0
        self._again = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def commit_after(self, nth: int, fate: Fate) -> None:
        """The fate of the nth COMMIT from now on."""
        self._skip, self._again, self.commit = nth - 1, 0, fate

    def commit_every(self, nth: int, fate: Fate) -> None:
        """The fate of every nth COMMIT from now on."""
        self._skip, self._again, self.commit = nth - 1, nth - 1, fate

    def cut_at(self, nth: int, *, arrives: bool) -> None:
        """Ends the client's connection at the nth request from now on, which arrives or not."""
        self._cut_at = self.requests + nth, arrives

    def cancel_cut(self) -> bool:
        """Forgets about `cut_at`; whether the request that it was waiting for has not come."""
        with self._lock:
            due, self._cut_at = self._cut_at is not None, None
            return due

    def freeze(self) -> None:
        """Takes whatever is sent and hands nothing on; new connections are taken and get no answer."""
        self._flowing.clear()

    def thaw(self) -> None:
        """Goes on where it froze."""
        self._flowing.set()

    def cut(self) -> None:
        """Ends all connections and takes no new ones."""
        self._refusing = True
        with self._lock:
            clients, self._clients = self._clients, []
        for client in clients:
            _end(client)

    def redirect(self, port: int) -> None:
        """Ends all connections; new ones go to another server."""
        self.cut()
        self._target = ("127.0.0.1", port)
        self.mend()

    def mend(self) -> None:
        """Takes new connections again."""
        self._refusing = False

    def close(self) -> None:
        """Ends everything, on both sides."""
        self._flowing.set()
        self.cut()
        _end(self._listener)
        for one in self._all:
            _end(one)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._refusing:
                    self.refused += 1
                    client.close()
                    continue
                server = socket.create_connection(self._target)
                with self._lock:
                    self._clients.append(client)
                    self._all += [client, server]
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=self._pump, args=(source, sink, client), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self._flowing.wait()
                self.requests += source is client
                if source is client and (cut := self._cut_now()) is not None:
                    _end(client)
                    if cut:
                        sink.sendall(data)
                    return
                if client in self._silent and source is not client:
                    continue
                if source is client and _COMMIT in data:
                    fate = self._next_fate()
                    if fate == "silent":
                        self._silent.add(client)
                    elif fate != "answered":
                        self._refusing = self.then_refuse
                        _end(client)
                        if fate == "unanswered":
                            sink.sendall(data)
                        return
                sink.sendall(data)
            _end(sink)

    def _cut_now(self) -> bool | None:
        """Whether the request that ends its connection arrives; None when it is not that one."""
        with self._lock:
            if self._cut_at is None or self.requests < self._cut_at[0]:
                return None
            (_, arrives), self._cut_at = self._cut_at, None
            return arrives

    def _next_fate(self) -> Fate:
        with self._lock:
            self.commits += 1
            if self._skip:
                self._skip -= 1
                return "answered"
            fate = self.commit
            if self._again:
                self._skip = self._again
            else:
                self.commit = "answered"
            self.fates += fate != "answered"
            return fate


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
