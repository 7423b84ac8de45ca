"""An agent in a terminal, as a person sits before it: keys go in, and the screen is what an emulator makes of its output."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pyte
from real_agents import Agent

ENTER, UP, CLEAR, ESCAPE = "\r", "\x1b[A", "\x15", "\x1b"
_ROWS, _COLUMNS = 50, 120
# A busy machine is no fault of an agent.
_SECONDS = 300
_LEAVING_SECONDS = 10
_AGAIN_SECONDS = 0.5


class _Screen(pyte.Screen):
    """A screen that passes over what some programs tell newer terminals about their keyboards."""

    def select_graphic_rendition(self, *attributes: int, private: bool = False) -> None:
        if not private:
            super().select_graphic_rendition(*attributes)


class Terminal:
    """The terminal that an agent runs in."""

    def __init__(self, master: int) -> None:
        self._master = master
        self._screen = _Screen(_COLUMNS, _ROWS)
        # What the emulator answers where a program asks the terminal something.
        self._screen.write_process_input = self.press
        self._stream = pyte.ByteStream(self._screen)
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait(self, pattern: str) -> None:
        """Waits until a pattern stands on the screen."""
        deadline = time.monotonic() + _SECONDS
        with self._changed:
            while not re.search(pattern, text := "\n".join(self._screen.display)):
                left = deadline - time.monotonic()
                assert left > 0, f"the screen never shows {pattern}:\n{text}"
                self._changed.wait(left)

    def press(self, keys: str) -> None:
        """Types keys."""
        os.write(self._master, keys.encode())

    def enter(self, line: str) -> None:
        """Types a line, and ends it when it can be seen: what comes with it would be taken for pasted."""
        self.press(line)
        self.wait(re.escape(line))
        self.press(ENTER)

    def submit(self, line: str, pattern: str) -> None:
        """Types a line, and ends it until a pattern shows: an end that comes at once may be part of the line."""
        self.press(line)
        self.wait(re.escape(line))
        deadline = time.monotonic() + _SECONDS
        while not self._shows(pattern, _AGAIN_SECONDS):
            assert time.monotonic() < deadline, f"the screen never shows {pattern}"
            self.press(ENTER)

    def _shows(self, pattern: str, seconds: float) -> bool:
        """Whether a pattern stands on the screen within some seconds."""
        with self._changed:
            return self._changed.wait_for(
                lambda: bool(re.search(pattern, "\n".join(self._screen.display))), seconds
            )

    def close(self) -> None:
        """Ends with the program, whose end of the terminal is closed."""
        self._reader.join(_SECONDS)
        os.close(self._master)

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 65_536)
            except OSError:
                return
            with self._changed:
                self._stream.feed(data)
                self._changed.notify_all()
            if not data:
                return


@contextmanager
def terminal(agent: Agent, *arguments: str) -> Iterator[Terminal]:
    """An agent in a terminal of its own, which is ended with the block."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    process = subprocess.Popen(
        [agent.program, *arguments],
        cwd=agent.project,
        env=agent.env() | {"TERM": "xterm-256color", "LANG": "C.UTF-8"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    screen = Terminal(master)
    try:
        yield screen
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_LEAVING_SECONDS)
        # Gemini CLI's own child does not hear of it, and holds the terminal.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(_SECONDS)
        screen.close()
