"""The agents that a plugin can be installed into, and for whom. Light, since the command line loads it at every start."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

TIMEOUT_VARIABLE = "PLUGIN_TIMEOUT_OF_LCM_MS"
"""The environment's name for how long an agent waits for us, where that must be another time than usual."""

STARTING = frozenset({"gemini-cli"})
"""The logs of the agents that start a process for each hook, and show their model every tool of a server."""


class Agent(StrEnum):
    """The agents that a plugin can be installed into."""

    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    GEMINI = "gemini"
    OPENCLAW = "openclaw"
    OPENCODE = "opencode"


class Extent(StrEnum):
    """For all projects of this user, or only for the project in the current folder."""

    USER = "user"
    PROJECT = "project"


def agents_folder() -> Path:
    """Where what belongs to the agents lies, in this user's folder of data."""
    import platformdirs

    return Path(platformdirs.user_data_dir("lcm", appauthor=False)) / "agents"


def sockets_folder() -> Path:
    """Where the servers of sessions answer hooks that are processes."""
    return agents_folder() / "hooks"
