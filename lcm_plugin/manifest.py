"""The manifest a host reads before it loads the plugin: ``plugin.json``.

It is generated from the code, so that it cannot say anything else than the code does:

    python -m lcm_plugin.manifest > plugin.json
"""

from __future__ import annotations

import json
import re
from typing import Any

import lcm_plugin
from lcm_plugin.config import LcmConfig
from lcm_plugin.hookspecs import PROJECT, HostHooks, PluginHooks
from lcm_plugin.plugin import LcmPlugin

_ADVANCED = re.compile(r"hard|fanout|overage|sweep|backoff|window|busy|bootstrap|promptAware|chunk|maxExpand")
_SENSITIVE = frozenset({"database"})


def manifest() -> dict[str, Any]:
    """The manifest as JSON data."""
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
        "hooks": {"implements": _hook_names(HostHooks), "calls": _hook_names(PluginHooks)},
        "configSchema": schema,
        "uiHints": {key: _hint(key, rule) for key, rule in schema["properties"].items()},
    }


def config_schema() -> dict[str, Any]:
    """The settings as JSON schema, keys as a host's plugin config has them."""
    schema = LcmConfig.model_json_schema(by_alias=True)
    schema["additionalProperties"] = True
    del schema["title"]
    for rule in schema["properties"].values():
        rule.pop("title", None)
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
