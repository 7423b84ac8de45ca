"""Settings as this host keeps them: ``plugins.entries.lcm`` of its config.yaml, below the environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lcm_plugin.config import LcmConfig

_HOST_KEYS = frozenset({"llm", "allow_tool_override", "allow_tool_overrides"})


def hermes_config() -> LcmConfig:
    """The settings of the running host's profile; the database lives in its home unless told otherwise.

    Raises `ConfigError` for a bad value.
    """
    values = {"database": str(hermes_home() / "lcm" / "lcm.db"), **_entries()}
    return LcmConfig.from_plugin(values)


def hermes_home() -> Path:
    """The host's home folder: one per profile."""
    from hermes_constants import get_hermes_home

    return Path(get_hermes_home())


def host_config() -> Mapping[str, Any]:
    """The host's own configuration, merged with its defaults."""
    from hermes_cli.config import load_config_readonly

    return load_config_readonly() or {}


def profile_name() -> str:
    """The host's profile, which names the agent in session keys."""
    try:
        from hermes_cli.profiles import get_active_profile_name

        name = get_active_profile_name()
    except Exception:  # noqa: BLE001 - older hosts have no profiles, or fail to tell
        return "main"
    return "main" if name in ("default", "custom", "") else str(name)


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
