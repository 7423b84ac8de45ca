"""``lcm web``."""

from __future__ import annotations

from typing import Annotated

import typer

from lcm_plugin.cli.open_engine import reading, writing
from lcm_plugin.cli.options import Database
from lcm_plugin.cli.output import say

_Port = Annotated[int, typer.Option(min=0, max=65_535, help="Where to listen; 0 takes a free port.")]
_Write = Annotated[bool, typer.Option("--write", help="Also let pages change what is stored.")]
_Open = Annotated[bool, typer.Option("--open", help="Open the page in the browser.")]


def web(
    database: Database = None, port: _Port = 8765, write: _Write = False, open_page: _Open = False
) -> None:
    """Show sessions, talks and search in the browser, on this machine only; beside a running host too.

    Prints an address that holds a token: who has it may read everything, and change it with --write. Ctrl-C ends it.
    Needs the extra: `pip install 'lcm_plugin[web]'`.

    Examples: `lcm web --open` · `lcm web --database talk.db --port 0`
    """
    from lcm_plugin.errors import ConfigError

    try:
        from lcm_plugin.web.server import serve
    except ImportError as error:
        raise ConfigError(f"lcm web needs the extra: pip install 'lcm_plugin[web]' ({error})") from error

    def ready(address: str) -> None:
        say(address)
        if open_page:
            import webbrowser

            webbrowser.open(address)

    opening = writing if write else reading
    # Whoever may start this may read all of the database.
    with opening(database, recall_scope="all", ignore_session_patterns=[]) as engine:
        serve(engine, port=port, write=write, ready=ready)
