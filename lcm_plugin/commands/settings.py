"""``/lcm config``: each setting with its value, its source, and its allowed values."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from lcm_plugin.commands.facade import EngineFacade
from lcm_plugin.commands.texts import FAILED
from lcm_plugin.compaction.policy import Limits, in_force
from lcm_plugin.config import LcmConfig, setting_names, shown_keys
from lcm_plugin.config.explain import allowed, is_auto, masked, nearest
from lcm_plugin.config.sources import variables_of
from lcm_plugin.types import CommandResult, Session

_SHOWN_CHARS = 60


def config(engine: EngineFacade, session: Session, words: list[str]) -> CommandResult:
    """All settings as a table, those that were set first; or one setting with its meaning.

    What a policy chooses is given as it holds for the session's newest model call.
    """
    with engine.store.read() as reader:
        limits = engine.compaction.known_limits(reader, engine.sessions.conversation(reader, session))
    rows = setting_rows(engine.config, limits)
    if words:
        return _one(rows, words[0])
    rows.sort(key=lambda row: row["source"] == "default")
    lines = ["| setting | value | from | allowed |", "|---|---|---|---|"]
    lines += [f"| {r['key']} | {_value(r)} | {r['source']} | {_plain(r['allowed'])} |" for r in rows]
    return CommandResult("\n".join(lines), {"settings": rows})


def setting_rows(config: LcmConfig, limits: Limits) -> list[dict[str, Any]]:
    """Every setting as data, in the order of the model. Passwords are masked.

    ``in_force`` is what holds for the call of ``limits``, for the settings that a policy chooses; else None.
    """
    keys, holding = shown_keys(), in_force(config, limits)
    return [
        {
            "key": keys[name],
            "value": "auto"
            if is_auto(field) and getattr(config, name) is None
            else _masked(getattr(config, name)),
            "in_force": holding.get(name),
            "budget": config.budget(limits.call.budget) if name in holding else None,
            "source": config.source_of(name),
            "allowed": allowed(field),
            "meaning": field.description or "",
            "variables": list(variables_of(name)),
        }
        for name, field in LcmConfig.model_fields.items()
    ]


def _one(rows: list[dict[str, Any]], word: str) -> CommandResult:
    names, keys = setting_names(), shown_keys()
    name = names.get(word) or names.get(word.lower().removeprefix("lcm_"))
    if name is None:
        lowered = {other.lower(): field for other, field in names.items()}
        name = lowered.get(word.lower())
    if name is None:
        shown = word[:40].replace("`", "'")
        return CommandResult(
            f"There is no setting `{shown}`{nearest(word, list(keys.values()))}. `/lcm config` lists them all.",
            {"outcome": FAILED},
            ok=False,
        )
    row = next(row for row in rows if row["key"] == keys[name])
    text = (
        f"**{row['key']}** = {_value(row, 2_000)} (from {row['source']})\n{row['meaning']}\n"
        f"Allowed: {row['allowed']}. Set it as `{row['key']}` in the plugin's config or as `{row['variables'][0]}` "
        "in the environment."
    )
    return CommandResult(text, row)


def _masked(value: Any) -> Any:
    if isinstance(value, list):
        return [_masked(item) for item in value]
    if isinstance(value, BaseModel):
        return value.model_dump(by_alias=True, exclude_none=True)
    return masked(value)


def _value(row: dict[str, Any], most: int = _SHOWN_CHARS) -> str:
    shown = _cell(row["value"], most)
    if row["in_force"] in (None, row["value"]):
        return shown
    return f"{shown}, now {row['in_force']:,} (budget {row['budget']:,})"


def _cell(value: Any, most: int = _SHOWN_CHARS) -> str:
    if value is None:
        return "none"
    if value == "":
        return "(empty)"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = text if len(text) <= most else f"{text[: most - 1]}…"
    return f"`{_plain(text.replace('`', chr(39)))}`"


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
