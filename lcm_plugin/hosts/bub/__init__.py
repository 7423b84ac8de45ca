"""Lossless Context Management as the tape context of Bub.

The host finds `load` through the entry-point group ``bub`` and calls it with its framework.
"""

from __future__ import annotations

from typing import Any

__all__ = ["load"]


def load(framework: Any) -> object:
    """The hooks for the host to register. Opens and writes nothing; a wrong setting raises `ConfigError`.

    The host names what was raised in its log and goes on without the plugin.
    """
    from lcm_plugin.hosts.bub.core import Core
    from lcm_plugin.hosts.bub.hooks import Hooks, Shell
    from lcm_plugin.hosts.bub.log import hand_on_to_host
    from lcm_plugin.hosts.bub.settings import bub_config
    from lcm_plugin.hosts.bub.skills import offer_skill
    from lcm_plugin.hosts.bub.tools import add_tools

    config = bub_config()
    if not config.enabled:
        return Shell(config)
    from lcm_plugin.hosts.bub.completer import HostModel

    hand_on_to_host()
    core = Core(config, completer=HostModel())
    add_tools(core)
    offer_skill()
    return Hooks(framework, core)
