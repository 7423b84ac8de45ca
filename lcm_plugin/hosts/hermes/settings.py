"""Settings as this host keeps them: ``plugins.entries.lcm`` of its config.yaml, below the environment."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lcm_plugin.hosts.hermes.predecessor import INSTEAD, told_once

if TYPE_CHECKING:
    from lcm_plugin.config import LcmConfig

logger = logging.getLogger("lcm_plugin.hermes")
_HOST_KEYS = frozenset({"llm", "allow_tool_override", "allow_tool_overrides"})


def hermes_config() -> LcmConfig:
    """The settings of the running host's profile; the database lives in its home unless told otherwise.

    Raises `ConfigError` for a bad value. What does nothing goes to the host's log, never to the user's terminal.
    """
    config, useless = read_settings()
    for text in useless:
        logger.warning("LCM: %s", text)
    return config


def read_settings() -> tuple[LcmConfig, list[str]]:
    """The settings, and a sentence about each that does nothing: a misspelt one, or one of hermes-lcm."""
    from lcm_plugin.config import LcmConfig
    from lcm_plugin.config.sources import noting

    values = {"database": str(hermes_home() / "lcm" / "lcm.db"), **_entries()}
    with noting() as notes:
        config = LcmConfig.from_plugin(values)
    older = [note.name for note in notes if note.name in INSTEAD]
    texts = [note.text for note in notes if note.name not in INSTEAD]
    return config, [*texts, *([told_once(older)] if older else [])]


def hermes_home() -> Path:
    """The host's home folder: one per profile."""
    from hermes_constants import get_hermes_home

    return Path(get_hermes_home())


def host_config() -> Mapping[str, Any]:
    """The host's own configuration, merged with its defaults."""
    from hermes_cli.config import load_config_readonly

    return load_config_readonly() or {}


def profile_name() -> str:
    """The host's profile, which names the agent in session keys; empty where it has none."""
    try:
        from hermes_cli.profiles import get_active_profile_name

        return str(get_active_profile_name())
    except Exception:  # noqa: BLE001 - older hosts have no profiles, or fail to tell
        return ""


def most_answer_chars(tool: str, window: int) -> int | None:
    """The characters of a tool's result that a model with this window gets whole; None where the host sets no limit.

    Of a longer one it gets the first 1,500 and the path of a file.
    """
    try:
        from tools.budget_config import budget_for_context_window

        limit = budget_for_context_window(window).resolve_threshold(tool)
    except Exception:  # noqa: BLE001 - older hosts have no such limit
        return None
    return int(limit) if math.isfinite(limit) else None


def _entries() -> dict[str, Any]:
    plugins = host_config().get("plugins")
    entries = plugins.get("entries") if isinstance(plugins, Mapping) else None
    entry = entries.get("lcm") if isinstance(entries, Mapping) else None
    if not isinstance(entry, Mapping):
        return {}
    values = {key: value for key, value in entry.items() if key not in _HOST_KEYS}
    if {"databasePath", "dbPath"} & set(values):
        values["database"] = values.pop("databasePath", None) or values.pop("dbPath", None)
    return values
