"""``lcm config``: settings as they are in force, and the file that keeps them."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from lcm_plugin.cli import completion
from lcm_plugin.cli.errors import GuardedGroup
from lcm_plugin.cli.options import AsJson
from lcm_plugin.cli.output import print_json, print_table, say

_Key = Annotated[
    str,
    typer.Argument(
        metavar="KEY",
        help="A setting, as leafChunkTokens or LCM_LEAF_CHUNK_TOKENS.",
        autocompletion=completion.settings,
    ),
]

_Window = Annotated[
    int | None,
    typer.Option(
        min=1, help="The window for which values that a policy chooses are given.", show_default="128000"
    ),
]


def add_to(app: typer.Typer) -> None:
    """Registers the group."""
    group = typer.Typer(
        cls=GuardedGroup,
        no_args_is_help=True,
        help="Look at and change settings.",
        rich_markup_mode="markdown",
    )
    for name, command in (("list", list_all), ("get", get), ("unset", unset), ("path", path)):
        group.command(name)(command)
    # So that -1 is a value and not an option.
    group.command("set", context_settings={"ignore_unknown_options": True})(set_value)
    app.add_typer(group, name="config", rich_help_panel="Set up")


def list_all(window: _Window = None, as_json: AsJson = False) -> None:
    """List every setting with its value in force and where it came from.

    Examples: `lcm config list` · `lcm config list --window 32000`
    """
    from lcm_plugin.config.file import settings

    found, holding = list(settings()), _in_force(window)
    if as_json:
        print_json(
            [
                {
                    "key": s.key,
                    "value": s.value,
                    "in_force": holding.get(s.key, s.value),
                    "origin": s.origin,
                    "meaning": s.meaning,
                }
                for s in found
            ]
        )
        return
    print_table(
        ("setting", "value", "from", "meaning"),
        [(s.key, _with_force(s.value, holding.get(s.key)), s.origin, s.meaning) for s in found],
        yields="meaning",
        wraps=True,
    )


def get(key: _Key, window: _Window = None, as_json: AsJson = False) -> None:
    """Print one setting's value; with the value in force where a policy chooses it.

    Examples: `lcm config get contextThreshold` · `lcm config get leafChunkTokens --window 32000`
    """
    from lcm_plugin.config.file import json_key, settings

    wanted = json_key(key)
    setting = next(setting for setting in settings() if setting.key == wanted)
    if as_json:
        force = _in_force(window).get(setting.key, setting.value)
        print_json({"key": setting.key, "value": setting.value, "in_force": force, "origin": setting.origin})
    else:
        say(_with_force(setting.value, _in_force(window).get(setting.key)))


def set_value(
    key: _Key,
    value: Annotated[
        str, typer.Argument(metavar="VALUE", help="The new value; lists as JSON or separated by commas.")
    ],
    as_json: AsJson = False,
) -> None:
    """Write a setting into the settings file, after checking it; the old file is kept as a copy.

    Examples: `lcm config set contextThreshold 0.6` · `lcm config set ignoreSessionPatterns 'cron:**,test:*'`
    """
    _write(key, _parsed(value), as_json)


def unset(key: _Key, as_json: AsJson = False) -> None:
    """Take a setting out of the settings file, so that its default holds again.

    Example: `lcm config unset contextThreshold`
    """
    _write(key, None, as_json)


def path(as_json: AsJson = False) -> None:
    """Print where the settings file is (LCM_CONFIG names another place).

    Example: `cat "$(lcm config path)"`
    """
    from lcm_plugin.config.file import config_path

    place = config_path()
    if as_json:
        print_json({"path": str(place), "exists": place.exists()})
    else:
        say(str(place))


def _write(key: str, value: Any, as_json: bool) -> None:
    from lcm_plugin.config.explain import masked
    from lcm_plugin.config.file import json_key, write_value

    place, backup = write_value(key, value)
    if as_json:
        result = {
            "key": json_key(key),
            "value": masked(value),
            "path": str(place),
            "backup": str(backup) if backup else None,
        }
        print_json(result)
        return
    kept = f" (the old one is {backup})" if backup else ""
    say(f"{json_key(key)} {'removed from' if value is None else 'written to'} {place}{kept}")


def _parsed(text: str) -> Any:
    """The text as JSON where it is JSON (numbers, true, lists), else as it is."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _in_force(window: int | None) -> dict[str, int]:
    """The values that a policy chose for a window, by key."""
    from lcm_plugin.compaction.policy import Call, in_force, limits_for
    from lcm_plugin.config import shown_keys
    from lcm_plugin.config.file import load_config

    config, keys = load_config(), shown_keys()
    chosen = in_force(config, limits_for(config, Call(window)))
    return {keys[name]: value for name, value in chosen.items()}


def _with_force(value: Any, force: int | None) -> str:
    return _shown(value) if force in (None, value) else f"{_shown(value)}, now {force:,}"


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=lambda item: item.model_dump(by_alias=True))
