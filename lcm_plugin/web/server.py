"""Serves one database to this machine until Ctrl-C."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import uvicorn

from lcm_plugin.errors import ConfigError
from lcm_plugin.web.app import create_app
from lcm_plugin.web.site import Site

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine

HOST = "127.0.0.1"
_TOKEN_BYTES = 24
_LAST_SECONDS = 2


def serve(engine: Engine, *, port: int, write: bool, ready: Callable[[str], None]) -> None:
    """Serves until it is interrupted. ``ready`` gets the address, with the token, once it can be opened.

    Port 0 takes a free one. Raises `ConfigError` when the port cannot be had.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with listening:
        try:
            listening.bind((HOST, port))
        except OSError as error:
            raise ConfigError(
                f"port {port} cannot be had ({error.strerror}); give another one: --port 0"
            ) from error
        listening.listen()
        port = listening.getsockname()[1]
        site = Site(engine, secrets.token_urlsafe(_TOKEN_BYTES), write)
        app = create_app(site, hosts_of(port))
        settings = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=_LAST_SECONDS,
        )
        threading.Thread(target=app.state.pages.warm, name="lcm-web-warm", daemon=True).start()
        ready(f"http://{HOST}:{port}/?token={site.token}")
        with suppress(KeyboardInterrupt):
            uvicorn.Server(settings).run(sockets=[listening])


def hosts_of(port: int) -> list[str]:
    """The names under which a browser on this machine asks."""
    return [f"{HOST}:{port}", f"localhost:{port}"]
