"""What the plugins of coding agents start: ``python -m lcm_plugin.hosts.agents claude-code [--database PATH|URL]``."""

from __future__ import annotations

import argparse
import sys


def main(arguments: list[str]) -> None:
    """Serves one session of a host until it closes the connection."""
    parser = argparse.ArgumentParser("lcm_plugin.hosts.agents", description=__doc__)
    parser.add_argument("host")
    parser.add_argument("--database")
    asked = parser.parse_args(arguments)
    from lcm_plugin.config.file import load_config
    from lcm_plugin.hosts.agents.server import INSTRUCTIONS, AgentSession

    session = AgentSession(
        load_config(**({"database": asked.database} if asked.database else {})), asked.host
    )
    from lcm_plugin.hosts.mcp.server import serve

    serve(session, INSTRUCTIONS)


if __name__ == "__main__":
    main(sys.argv[1:])
