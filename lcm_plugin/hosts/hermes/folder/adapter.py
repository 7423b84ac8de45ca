"""Finds the installed package and hands the host over to it."""

from __future__ import annotations

import sys
from typing import Any


def register(ctx: Any) -> None:
    """Called by the host when it loads the folder."""
    try:
        from lcm_plugin.hosts.hermes import register as register_with_host
    except ModuleNotFoundError as error:
        if error.name != "lcm_plugin":
            raise
        raise ModuleNotFoundError(
            f"the package lcm_plugin is missing in {sys.prefix}; install it there: "
            f"{sys.executable} -m pip install lcm_plugin",
            name="lcm_plugin",
        ) from error
    register_with_host(ctx)
