"""Runs a server over this process's stdin and stdout."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import BinaryIO

from lcm_plugin.config import LcmConfig
from lcm_plugin.errors import LcmError
from lcm_plugin.hosts.stdio.lines import Lines, Method
from lcm_plugin.hosts.stdio.methods import PROTOCOL, HostMethods
from lcm_plugin.plugin import LcmPlugin
from lcm_plugin.version import VERSION

_CLOSING_SECONDS = 5.0


def serve(
    config: LcmConfig, of_host: Callable[[LcmPlugin], Mapping[str, Method]] = lambda plugin: {}
) -> None:
    """Serves until the client closes stdin or sends SIGTERM or SIGINT. The database opens beside the first calls.

    ``of_host`` makes the methods that one host has beside those that all have.
    """
    plugin = LcmPlugin(config)
    lines = Lines({**HostMethods(plugin).all(), **of_host(plugin)}, _own_stdout())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: _leave(plugin))
    lines.say({"ready": PROTOCOL, "version": VERSION})
    threading.Thread(target=_open, args=(plugin,), name="lcm-open", daemon=True).start()
    try:
        lines.serve(sys.stdin.buffer)
    finally:
        plugin.close()


def _open(plugin: LcmPlugin) -> None:
    # A database that cannot be opened is tried again, and named, at each call that needs it.
    with suppress(LcmError):
        plugin.engine.count_tokens("warm")


def _own_stdout() -> BinaryIO:
    """The client's pipe; whatever else is printed in this process goes to stderr, and not between two answers."""
    own = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return own


def _leave(plugin: LcmPlugin) -> None:
    """Ends the process: the thread that waits for the next line of stdin cannot be woken."""
    closing = threading.Thread(target=plugin.close, daemon=True)
    closing.start()
    closing.join(_CLOSING_SECONDS)
    os._exit(0)
