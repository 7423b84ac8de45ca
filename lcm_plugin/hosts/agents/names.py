"""The agents that a plugin can be installed into, and for whom. Light, since the command line loads it at every start."""

from __future__ import annotations

from enum import StrEnum

TIMEOUT_VARIABLE = "PLUGIN_TIMEOUT_OF_LCM_MS"
"""The environment's name for how long an agent waits for us, where that must be another time than usual."""


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
