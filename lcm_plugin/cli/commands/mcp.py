"""``lcm mcp``."""

from __future__ import annotations

from typing import Annotated

import typer

from lcm_plugin.cli.open_engine import settings_for
from lcm_plugin.cli.options import Database

_Session = Annotated[
    str | None,
    typer.Argument(
        metavar="SESSION", help="A session key or id, or a number; the whole database if not given."
    ),
]
_Write = Annotated[
    bool,
    typer.Option(
        "--write",
        help="Also offer lcm_expand_query, whose model calls are counted in the database, and keep the search "
        "index up to date.",
    ),
]


def mcp(session: _Session = None, database: Database = None, write: _Write = False) -> None:
    """Serve the recall tools to an MCP client (Claude Code, Codex, an editor) over stdin and stdout.

    The client starts this command itself. Reads only, beside a running host too, unless --write is given.
    Needs the extra: `pip install 'lcm_plugin[mcp]'`.

    Examples: `claude mcp add lcm -- lcm mcp` · `lcm mcp agent:main:main --database talk.db`
    """
    from lcm_plugin.errors import ConfigError
    from lcm_plugin.hosts.mcp.history import History

    config = settings_for(database)
    try:
        from lcm_plugin.hosts.mcp.server import serve
    except ImportError as error:
        raise ConfigError(f"lcm mcp needs the extra: pip install 'lcm_plugin[mcp]' ({error})") from error
    serve(History(config, session, write=write))
