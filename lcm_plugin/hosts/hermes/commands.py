"""``/lcm …`` in a chat and ``hermes lcm …`` in a shell."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from lcm_plugin.types import Session

if TYPE_CHECKING:
    from lcm_plugin.hosts.hermes.runtime import Runtime

_UNBOUND = (
    "LCM serves no session here yet: it is bound when the agent starts, so say something first. "
    "`hermes lcm doctor --host hermes` tells whether Hermes uses LCM at all."
)


class Commands:
    """Runs commands on the session in which they were typed, and on no other."""

    help_line = "Lossless context: status, search, compaction, doctor"

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def slash(self, raw_args: str = "") -> str:
        """The answer to ``/lcm <raw_args>``. The host does not say in which chat: its context does."""
        engine = self._runtime.engine()
        if engine is None:
            failing = [str(one) for one in self._runtime.health.failures() if one.in_a_row]
            return "\n".join([f"LCM is not working: {self._runtime.problem}", *failing])
        session = self._session()
        if session is None:
            return _UNBOUND
        self._runtime.outbox.drain(1.5)
        engine.selected_by_host = self._runtime.live.any()
        return engine.command(session, f"/lcm {raw_args or ''}".strip()).text

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """``hermes lcm`` takes what the command ``lcm`` takes."""
        parser.add_argument("lcm_args", nargs=argparse.REMAINDER, help="see: hermes lcm --help")

    def shell(self, options: argparse.Namespace) -> None:
        """Runs the command ``lcm`` on this host's database."""
        from lcm_plugin.cli import main

        config = self._runtime.config
        if config is None:
            raise SystemExit(f"LCM is not working: {self._runtime.problem}")
        os.environ["LCM_DATABASE_PATH"] = config.database_target
        sys.argv = ["hermes lcm", *options.lcm_args]
        main()

    def _session(self) -> Session | None:
        session_id, gateway_key = _host_session()
        live = self._runtime.live
        engine = live.of_session(session_id) or live.of_gateway_key(gateway_key)
        if engine is not None:
            return engine.session
        if session_id:
            return self._runtime.lanes.known(session_id)
        only = live.only()
        return only.session if only is not None else None


def _host_session() -> tuple[str, str]:
    """The host's session id and gateway key of the chat in which this code runs."""
    try:
        from gateway.session_context import get_session_env
    except ImportError:
        return os.environ.get("HERMES_SESSION_ID", ""), os.environ.get("HERMES_SESSION_KEY", "")
    return get_session_env("HERMES_SESSION_ID", ""), get_session_env("HERMES_SESSION_KEY", "")
