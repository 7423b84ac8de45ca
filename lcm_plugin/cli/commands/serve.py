"""``lcm serve``."""

from __future__ import annotations

from typing import Annotated

import typer

from lcm_plugin.cli.open_engine import settings_for
from lcm_plugin.cli.options import Database
from lcm_plugin.errors import InputError

_Stdio = Annotated[bool, typer.Option("--stdio", help="Over stdin and stdout, one JSON object a line.")]


def serve(stdio: _Stdio = False, database: Database = None) -> None:
    """Serve the engine to a program in another language, which starts this command itself.

    The program sends calls (`{"id": 1, "method": "before_turn", "params": {…}}`) and gets an answer to each: its
    messages are stored, its contexts assembled, the recall tools and `/lcm` answered. docs/hosts/stdio.md has the
    protocol.

    Examples: `lcm serve --stdio` · `lcm serve --stdio --database talk.db`
    """
    if not stdio:
        raise InputError("lcm serve speaks over stdin and stdout only: say --stdio")
    from lcm_plugin.hosts.stdio.serve import serve as serve_lines

    serve_lines(settings_for(database))
