"""What stands between a Bub installation and the plugin."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

from lcm_plugin.types import Finding, Severity

NAME = "lcm"


def own_findings() -> Iterator[Finding]:
    """Errors of the installation: Bub finds no plugin, cannot load it, or asks another one for its contexts."""
    if not any(point.name == NAME for point in entry_points(group="bub")):
        yield Finding(
            "bub.not_found",
            Severity.ERROR,
            f"Bub finds no plugin named 'lcm' in this Python ({sys.prefix}).",
            repair=f"{sys.executable} -m pip install 'lcm_plugin[bub]'",
        )
        return
    from bub.framework import BubFramework

    framework: Any = BubFramework()
    framework.load_hooks()
    manager = framework.plugin_manager
    asked = manager.hook.build_tape_context.get_hookimpls()
    if not any(_is_ours(one.plugin) for one in asked):
        yield Finding(
            "bub.not_loaded",
            Severity.ERROR,
            "Bub did not load the plugin 'lcm', or it is switched off; Bub's log names the cause.",
        )
    elif not _is_ours(asked[-1].plugin):
        yield Finding(
            "bub.not_selected",
            Severity.ERROR,
            f"another plugin builds Bub's contexts: {type(asked[-1].plugin).__module__}.",
            repair="switch that plugin off",
        )


def _is_ours(plugin: object) -> bool:
    return type(plugin).__module__.startswith("lcm_plugin.")
