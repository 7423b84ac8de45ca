"""Settings as this host keeps them: the section ``lcm`` of its config.yml, below the environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lcm_plugin.config import LcmConfig


def bub_config() -> LcmConfig:
    """The settings in force; the database lies in the host's home unless told otherwise.

    Raises `ConfigError` for a bad value.
    """
    from bub import configure

    return config_of(configure.get_config_data().get("lcm"), bub_home())


def bub_home() -> Path:
    """The host's home folder: ``BUB_HOME`` or ``~/.bub``."""
    import bub

    return Path(bub.home)


def config_of(section: object, home: Path) -> LcmConfig:
    """The settings that a section of the host's file makes."""
    values: dict[str, Any] = dict(section) if isinstance(section, Mapping) else {}
    if not {"database", "databasePath", "dbPath"} & set(values):
        values["database"] = str(home / "lcm" / "lcm.db")
    return LcmConfig.from_plugin(values)
