"""Settings as this host keeps them: the section ``lcm`` of its config.yml, below the environment."""

from __future__ import annotations

import json
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


def as_environment(config: LcmConfig) -> dict[str, str]:
    """The host's settings as ``LCM_*`` variables, for the command ``lcm``, which does not read the host's file."""
    values = config.model_dump(mode="json")
    own = [name for name in values if config.source_of(name) == "plugin config"]
    return {f"LCM_{name.upper()}": _as_text(values[name]) for name in own}


def _as_text(value: Any) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value)
