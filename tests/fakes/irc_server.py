"""A small IRC server on 127.0.0.1 with one bot in it, for tests that drive a chat gateway.

    with IrcServer() as irc:
        ...                                   # the program under test connects to irc.port
        irc.until_joined()
        irc.say("anna", "hello", "Noted: hello")

A nick is a person who writes to the bot directly; what the bot answers that nick is what comes back.
"""

from __future__ import annotations

import re
import socketserver
import threading
import time
from types import TracebackType


class IrcServer:
    """Takes one bot in and keeps what it says to whom. A context manager."""

    def __init__(self) -> None:
        self.bot = ""
        self.said: dict[str, list[str]] = {}
        self._changed = threading.Condition()
        self._connection: _Connection | None = None
        self._server = _Server(("127.0.0.1", 0), _Connection)
        self._server.irc = self
        self.port = int(self._server.server_address[1])

    def __enter__(self) -> IrcServer:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def until_joined(self, seconds: float = 60) -> None:
        """Waits until the bot is in its channel."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._connection is not None, seconds), "no bot came"

    def say(self, nick: str, text: str, expect: str, seconds: float = 60) -> str:
        """Sends a line to the bot and waits for an answer that the pattern fits; all of it comes back."""
        with self._changed:
            seen = len(self.said.setdefault(nick, []))
            assert self._connection is not None
        self._connection.send(f":{nick}!{nick}@localhost PRIVMSG {self.bot} :{text}")
        end = time.monotonic() + seconds
        with self._changed:
            while True:
                answer = "\n".join(self.said[nick][seen:])
                if re.search(expect, answer):
                    return answer
                if not self._changed.wait(end - time.monotonic()) or time.monotonic() > end:
                    raise AssertionError(
                        f"{nick} said {text[:80]!r}, expected {expect!r}, was told:\n{answer}"
                    )

    def joined(self, connection: _Connection, bot: str) -> None:
        """The bot is in its channel."""
        with self._changed:
            self._connection, self.bot = connection, bot
            self._changed.notify_all()

    def told(self, nick: str, text: str) -> None:
        """The bot said something to somebody."""
        with self._changed:
            self.said.setdefault(nick, []).append(text)
            self._changed.notify_all()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    irc: IrcServer


class _Connection(socketserver.StreamRequestHandler):
    server: _Server

    def send(self, line: str) -> None:
        """Sends a line to the bot."""
        self.wfile.write(f"{line}\r\n".encode())

    def handle(self) -> None:
        """Understands as much of the protocol as a bot needs."""
        bot = ""
        for raw in self.rfile:
            command, _, rest = raw.decode("utf-8", "replace").rstrip("\r\n").partition(" ")
            if command == "NICK":
                bot = rest
                self.send(f":localhost 001 {bot} :Welcome")
            elif command == "JOIN":
                self.send(f":{bot} JOIN {rest}")
                self.server.irc.joined(self, bot)
            elif command == "PRIVMSG":
                nick, _, text = rest.partition(" :")
                self.server.irc.told(nick, text)
            elif command == "QUIT":
                return
