"""The manifest a host reads before it loads the plugin: ``plugin.json``.

It is generated from the code, so that it cannot say anything else than the code does:

    python -m lcm_plugin.manifest > plugin.json
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, get_args

import lcm_plugin
from lcm_plugin.compaction.policy import Call, in_force, limits_for
from lcm_plugin.config import LcmConfig, Policy, shown_keys
from lcm_plugin.config.explain import is_auto
from lcm_plugin.hookspecs import PROJECT, HostHooks, PluginHooks
from lcm_plugin.plugin import LcmPlugin
from lcm_plugin.recall.tools import ALL_TOOL_NAMES

_ADVANCED = re.compile(r"hard|fanout|overage|sweep|backoff|window|busy|bootstrap|promptAware|chunk|maxExpand")
WINDOWS = (8_000, 32_000, 128_000, 1_000_000)
_SENSITIVE = frozenset({"database"})


def manifest() -> dict[str, Any]:
    """The manifest as JSON data: ``tools`` are those of the defaults, ``contracts`` those of any settings."""
    plugin = LcmPlugin()
    schema = config_schema()
    return {
        "id": PROJECT,
        "name": "Lossless Context Management",
        "version": lcm_plugin.__version__,
        "description": (lcm_plugin.__doc__ or "").strip(),
        "kind": "context-engine",
        "entryPoint": {"group": "lcm.plugins", "name": PROJECT, "object": "lcm_plugin.plugin:plugin"},
        "skills": ["skills/lcm"],
        "commands": plugin.lcm_commands(),
        "tools": [tool["function"]["name"] for tool in plugin.lcm_tools()],
        "contracts": {"tools": list(ALL_TOOL_NAMES)},
        "hooks": {"implements": _hook_names(HostHooks), "calls": _hook_names(PluginHooks)},
        "configSchema": schema,
        "uiHints": {key: _hint(key, rule) for key, rule in schema["properties"].items()},
        "autoValues": auto_values(),
    }


def auto_values(windows: Sequence[int] = WINDOWS) -> dict[str, dict[str, dict[str, int]]]:
    """What ``auto`` stands for: by key, policy and window (tokens), with no other setting and no overhead."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    keys = shown_keys()
    for policy in get_args(Policy):
        config = LcmConfig.model_construct(context_policy=policy)
        for window in windows:
            for name, value in in_force(config, limits_for(config, Call(window))).items():
                found.setdefault(keys[name], {}).setdefault(policy, {})[str(window)] = value
    return found


def config_schema() -> dict[str, Any]:
    """The settings as JSON schema, keys as a host's plugin config has them."""
    schema, keys = LcmConfig.model_json_schema(by_alias=True), shown_keys()
    schema["additionalProperties"] = True
    del schema["title"]
    autos = {keys[name] for name, field in LcmConfig.model_fields.items() if is_auto(field)}
    for key, rule in schema["properties"].items():
        rule.pop("title", None)
        if key in autos:
            rule["anyOf"].append({"const": "auto"})
            rule["default"] = "auto"
    return schema


def as_text() -> str:
    """``plugin.json`` as it stands in the repository."""
    return json.dumps(manifest(), indent=2, ensure_ascii=False) + "\n"


def _hint(key: str, rule: dict[str, Any]) -> dict[str, Any]:
    words = re.sub(r"(?<=[a-z])([A-Z])", lambda match: " " + match[1].lower(), key)
    hint: dict[str, Any] = {"label": words[0].upper() + words[1:], "help": rule.get("description", "")}
    if _ADVANCED.search(key):
        hint["advanced"] = True
    if key in _SENSITIVE:
        hint["sensitive"] = True
    return hint


def _hook_names(specs: type) -> list[str]:
    return [name for name in vars(specs) if not name.startswith("_")]


if __name__ == "__main__":
    print(as_text(), end="")
