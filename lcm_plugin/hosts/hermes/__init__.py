"""Lossless Context Management as the context engine of Hermes Agent.

The host finds this module through the entry-point group ``hermes_agent.plugins`` and calls `register`.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

__all__ = ["register"]

logger = logging.getLogger("lcm_plugin.hermes")


def register(ctx: Any) -> None:
    """Registers the engine, its hooks, ``/lcm``, ``hermes lcm`` and the skill. Opens and writes nothing.

    Older hosts, and the folder ``plugins/context_engine``, offer less than the whole; what they do not
    offer is left out.
    """
    from lcm_plugin.hosts.hermes.bind import engine_class
    from lcm_plugin.hosts.hermes.commands import Commands
    from lcm_plugin.hosts.hermes.hooks import Hooks
    from lcm_plugin.hosts.hermes.runtime import Runtime

    runtime = Runtime()
    ctx.register_context_engine(engine_class()(runtime))
    hooks = Hooks(runtime)
    if hasattr(ctx, "register_hook"):
        for name, callback in hooks.callbacks().items():
            ctx.register_hook(name, callback)
    if hasattr(ctx, "register_middleware"):
        ctx.register_middleware("llm_execution", hooks.llm_execution)
    commands = Commands(runtime)
    if hasattr(ctx, "register_command"):
        ctx.register_command("lcm", commands.slash, description=commands.help_line, args_hint="[command]")
    if hasattr(ctx, "register_cli_command"):
        ctx.register_cli_command("lcm", commands.help_line, commands.add_arguments, commands.shell)
    _register_skill(ctx)
    _warn_when_not_selected()


def _register_skill(ctx: Any) -> None:
    if not hasattr(ctx, "register_skill"):
        return
    package = Path(__file__).parents[2]
    for folder in (package / "skills", package.parent / "skills"):
        skill = folder / "lcm" / "SKILL.md"
        if skill.exists():
            ctx.register_skill("lcm", skill, description="How to find again what was said before.")
            return


def _warn_when_not_selected() -> None:
    from lcm_plugin.hosts.hermes.doctor import ENGINE, not_selected, selected_engine
    from lcm_plugin.hosts.hermes.settings import host_config

    try:
        name = selected_engine(host_config())
    except Exception:  # noqa: BLE001 - a host without a readable config says so itself
        return
    if name != ENGINE:
        logger.warning("%s", not_selected(name))
