"""The socket on which a session's server answers hooks that are processes (`hook_client`).

It lies in a folder that only this user can enter, named after the process that started the server, which is the one that
starts the hooks: each finds its own session's server among several. It is there before the server can answer, and says
to each hook at once that it lives: one that hears nothing goes on without an answer.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lcm_plugin.private_files import make_private_folder

Answering = Callable[[dict[str, Any], float], dict[str, Any]]
"""Answers what a host says, which waited for so many seconds."""
_LONGEST_PATH = 100
"""Bytes; a socket's path may have a little more on every system."""
_OPEN_FILES = Path("/proc/self/fd")
_WAITING = 64
_SECONDS = 5.0
_NEW_SECONDS = 10.0
_CHUNK = 1 << 16
_MOST_BYTES = 1 << 26
_ALIVE = b" "
"""Before the answer, in whose JSON it means nothing."""
_NOTE = "late-"
"""Before a socket's name: the file in which a hook notes that its server hangs."""
_CREDENTIALS = struct.Struct("3i")


class HookSocket:
    """A socket that connections wait on from now on. Raises `OSError` where this machine or folder allows none."""

    def __init__(self, folder: Path) -> None:
        if not hasattr(socket, "AF_UNIX"):
            raise OSError("this system has no local sockets")
        make_private_folder(folder)
        about = folder.stat()
        if about.st_uid != os.geteuid() or about.st_mode & 0o077:
            raise PermissionError(f"{folder} is not private to this user")
        _remove_dead(folder)
        self._path = folder / f"{os.getppid()}-{os.getpid()}"
        self._ready = threading.Event()
        self._answering: Answering | None = None
        self._remove()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with _short(self._path) as name:
                self._socket.bind(name)
            self._path.chmod(0o600)
            self._socket.listen(_WAITING)
        except OSError:
            self._socket.close()
            raise
        threading.Thread(target=self._accept, name="lcm-hooks", daemon=True).start()

    def answer_with(self, answering: Answering) -> None:
        """Answers what waits and what comes, each hook in a thread of its own. ``answering`` does not raise."""
        self._answering = answering
        self._ready.set()

    def close(self) -> None:
        """Takes the socket away; a hook that comes later finds none."""
        self._remove()
        with suppress(OSError):
            # Wakes the thread that waits for a connection.
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        # Who waits for an answer gets none.
        self._ready.set()

    def _remove(self) -> None:
        self._path.unlink(missing_ok=True)
        self._path.with_name(_NOTE + self._path.name).unlink(missing_ok=True)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(
                target=self._answer, args=(connection,), name=f"lcm-hook-{connection.fileno()}", daemon=True
            ).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError, ValueError):
            began = time.monotonic()
            connection.settimeout(_SECONDS)
            if not _is_own(connection):
                return
            # What a hook that has left says is stored all the same.
            with suppress(OSError):
                connection.sendall(_ALIVE)
            said = json.loads(_received(connection))
            self._ready.wait()
            if isinstance(said, dict) and self._answering is not None:
                answer = self._answering(said, time.monotonic() - began)
                connection.sendall(json.dumps(answer).encode() + b"\n")


def _is_own(connection: socket.socket) -> bool:
    """Whether this user's process is at the other end, as far as the system says; no other can enter the folder."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    given = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(given)
    # A process of another container has no number here: it is not this session's.
    return bool(process) and user == os.geteuid()


def _received(connection: socket.socket) -> bytes:
    data = bytearray()
    while part := connection.recv(_CHUNK):
        data += part
        if len(data) > _MOST_BYTES:
            raise ValueError("too long")
    return bytes(data)


def _remove_dead(folder: Path) -> None:
    """Removes the sockets that killed servers left, and notes about them; one that is new may only not listen yet."""
    for path in folder.iterdir():
        if path.name.startswith(_NOTE):
            if not path.with_name(path.name.removeprefix(_NOTE)).exists():
                path.unlink(missing_ok=True)
            continue
        with (
            suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial,
            _short(path) as name,
        ):
            try:
                trial.settimeout(_SECONDS)
                trial.connect(name)
            except ConnectionRefusedError:
                if time.time() - path.lstat().st_mtime > _NEW_SECONDS:
                    path.unlink()


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """A name for a socket that is short enough. Raises `OSError` where there is none."""
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        if not (_OPEN_FILES / str(folder)).exists():
            raise OSError(f"{path} is too long for a socket")
        yield str(_OPEN_FILES / str(folder) / path.name)
    finally:
        os.close(folder)
