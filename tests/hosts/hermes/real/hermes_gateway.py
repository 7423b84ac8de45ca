"""The host's gateway as a process of its own, killed at the end without a goodbye."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from world import BIN, World

EVERYBODY = {"GATEWAY_ALLOW_ALL_USERS": "true"}


@contextmanager
def gateway(world: World, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Runs ``hermes gateway run``; what it prints is in ``gateway.out`` of the home."""
    with (world.home / "gateway.out").open("w") as output:
        process = subprocess.Popen(
            [str(BIN / "hermes"), "gateway", "run"],
            env={**world.environment, **EVERYBODY, **environment},
            cwd=world.home,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
