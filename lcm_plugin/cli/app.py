"""The command line's root: global options and the commands, each in a module of its own."""

from __future__ import annotations

from typing import Annotated

import typer

from lcm_plugin.cli.commands import (
    browse,
    care,
    chat,
    config,
    export,
    import_,
    mcp,
    migrate,
    pins,
    prune,
    recall,
    redact,
    replay,
    status,
    worker,
)
from lcm_plugin.cli.errors import GuardedGroup

app = typer.Typer(
    cls=GuardedGroup,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from lcm_plugin import __version__

        print(f"lcm {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Lossless Context Management: look at, search and look after a host's stored conversations.

    Exit codes: 0 fine, 1 internal fault or failed check, 2 usage or input, 3 not found, 4 setting, 5 database.
    """


for module in (
    status,
    browse,
    recall,
    mcp,
    care,
    pins,
    worker,
    prune,
    redact,
    import_,
    export,
    migrate,
    replay,
    chat,
    config,
):
    module.add_to(app)
