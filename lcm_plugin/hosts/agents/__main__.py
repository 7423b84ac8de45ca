"""What the plugins of coding agents start: ``python -m lcm_plugin.hosts.agents claude-code [--database PATH|URL]``."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from lcm_plugin.hosts.agents.names import STARTING, sockets_folder

if TYPE_CHECKING:
    from lcm_plugin.hosts.agents.hook_socket import HookSocket


def main(arguments: list[str]) -> None:
    """Serves one session of a host until it closes the connection."""
    parser = argparse.ArgumentParser("lcm_plugin.hosts.agents", description=__doc__)
    parser.add_argument("host")
    parser.add_argument("--database")
    asked = parser.parse_args(arguments)
    # First of all: from then on a hook waits for what is still to come.
    waiting = _socket() if asked.host in STARTING else None
    from lcm_plugin.config.file import load_config
    from lcm_plugin.hosts.agents.server import INSTRUCTIONS, AgentSession

    session = AgentSession(
        load_config(**({"database": asked.database} if asked.database else {})), asked.host, waiting
    )
    from lcm_plugin.hosts.mcp.server import serve

    serve(session, INSTRUCTIONS, session.rest)


def _socket() -> HookSocket | None:
    from lcm_plugin.hosts.agents.hook_socket import HookSocket

    try:
        return HookSocket(sockets_folder())
    except OSError:
        # Hooks are processes then.
        return None


if __name__ == "__main__":
    main(sys.argv[1:])
