"""As much of PostgreSQL's protocol as it takes to say of oneself that one is too old."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def server_of_version(version: str) -> Iterator[int]:
    """The port of a server that lets everybody in and names its version."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_serve, args=(listener, version), daemon=True).start()
        yield listener.getsockname()[1]


def _serve(listener: socket.socket, version: str) -> None:
    with contextlib.suppress(OSError):
        while True:
            client, _ = listener.accept()
            with client:
                (length,) = struct.unpack("!I", client.recv(4, socket.MSG_WAITALL))
                client.recv(length - 4, socket.MSG_WAITALL)  # the startup message
                client.sendall(_welcome(version))
                client.recv(1 << 16)  # its farewell


def _welcome(version: str) -> bytes:
    told = {"server_version": version, "client_encoding": "UTF8", "standard_conforming_strings": "on"}
    return b"".join(
        [
            _message(b"R", struct.pack("!I", 0)),
            *(_message(b"S", f"{name}\0{value}\0".encode()) for name, value in told.items()),
            _message(b"K", struct.pack("!II", 1, 1)),
            _message(b"Z", b"I"),
        ]
    )


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body
