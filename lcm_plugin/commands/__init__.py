"""The chat commands ``/lcm …`` (also ``/lossless …``): Markdown for people, data for programs.

A command sees its own session only. ``COMMANDS`` is the one table of them; the manifest, the help and
docs/commands.md come from it.
"""

from __future__ import annotations

from lcm_plugin.commands.dispatch import COMMANDS, command_list, is_command, run_command
from lcm_plugin.commands.resets import apply_reset

__all__ = ["COMMANDS", "apply_reset", "command_list", "is_command", "run_command"]
