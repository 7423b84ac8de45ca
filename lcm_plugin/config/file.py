"""The settings file: JSON with camelCase keys, for hosts that hand over no configuration of their own.

It ranks where a host's plugin config ranks: above the defaults, below environment and arguments.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lcm_plugin.config.explain import is_auto, masked, nearest
from lcm_plugin.config.model import LcmConfig, setting_names, shown_keys
from lcm_plugin.errors import ConfigError
from lcm_plugin.private_files import make_private_folder, write_private_file

PATH_VARIABLE = "LCM_CONFIG"
Origin = Literal["argument", "environment", "file", "default"]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: key in camelCase, value, where it came from, what it means.

    A value of None is shown as ``auto`` where a policy chooses it.

    A password in the value is masked: settings are shown on screens and in reports.
    """

    key: str
    value: Any
    origin: Origin
    meaning: str


def config_path() -> Path:
    """Where the file is: ``LCM_CONFIG``, or ``lcm/config.json`` in the user's settings folder."""
    named = os.environ.get(PATH_VARIABLE)
    if named:
        return Path(named).expanduser()
    import platformdirs

    return Path(platformdirs.user_config_dir("lcm", appauthor=False)) / "config.json"


def read_file(path: Path | None = None) -> dict[str, Any]:
    """What the file says; nothing when there is none. Raises `ConfigError` naming file and line."""
    path = path or config_path()
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}: broken JSON on line {error.lineno}: {error.msg}") from error
    except OSError as error:
        raise ConfigError(f"the settings file {path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"the settings file {path} is not text in UTF-8") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected one JSON object with settings")
    return values


def load_config(**explicit: Any) -> LcmConfig:
    """The settings in force: arguments, environment, file, defaults."""
    return LcmConfig.from_plugin(read_file(), **explicit)


def settings() -> Iterator[Setting]:
    """Every setting in force, in the order of the settings page."""
    config = load_config()
    for name, field in LcmConfig.model_fields.items():
        source = config.source_of(name)
        origin: Origin = "file" if source == "plugin config" else source
        value = getattr(config, name)
        shown = "auto" if value is None and is_auto(field) else masked(value)
        yield Setting(json_key(name), shown, origin, field.description or "")


def json_key(name: str) -> str:
    """The camelCase key of a setting, however it was written (``LEAF_CHUNK_TOKENS``, ``leafChunkTokens``)."""
    names = setting_names()
    found = names.get(name) or names.get(name.lower().removeprefix("lcm_"))
    if found is None:
        hint = nearest(name, [*shown_keys(), *names])
        raise ConfigError(f"no setting {name!r}{hint}; `lcm config list` names them all")
    head, *rest = found.split("_")
    return head + "".join(part.capitalize() for part in rest)


def write_value(key: str, value: Any) -> tuple[Path, Path | None]:
    """Sets one key of the file (None removes it); returns the file and the copy made of it before.

    The whole file is checked first, then replaced at once, so that a reader sees the old one or the new.
    """
    path = config_path()
    values = read_file(path)
    name = json_key(key)
    same = {other for other in values if setting_names().get(other) == setting_names()[name]}
    changed = {other: item for other, item in values.items() if other not in same}
    if value is not None:
        changed[name] = value
    LcmConfig(**changed)
    backup = _back_up(path)
    _replace(path, changed)
    return path, backup


def _back_up(path: Path) -> Path | None:
    if not path.exists():
        return None
    backup = path.with_name(path.name + ".bak")
    with write_private_file(backup) as file:
        file.write(path.read_bytes())
    backup.chmod(0o600)
    return backup


def _replace(path: Path, values: Mapping[str, Any]) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        make_private_folder(path.parent)
        with write_private_file(fresh) as file:
            file.write((json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error
