"""``bub lcm …``: the command ``lcm`` with this host's settings, on its database."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from lcm_plugin.config import LcmConfig


def add_command(app: typer.Typer, config: LcmConfig) -> None:
    """Adds it to the host's command line."""

    @app.command(
        "lcm",
        help="Look at, search and look after what LCM has stored.",
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    )
    def lcm(context: typer.Context) -> None:
        from lcm_plugin.cli import main
        from lcm_plugin.hosts.bub.settings import as_environment

        os.environ.update(as_environment(config))
        sys.argv = ["bub lcm", *context.args]
        main()
