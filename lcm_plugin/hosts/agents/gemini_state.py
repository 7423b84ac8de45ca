"""What stands between Gemini CLI and lcm: what it says itself, and its settings, which may hold comments."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from lcm_plugin.hosts.agents.plugin_files import PLUGIN
from lcm_plugin.types import Finding, Severity

Printing = Callable[[Sequence[str]], str]
"""What a program prints; empty where it fails."""
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_SYSTEM = {
    "darwin": "/Library/Application Support/GeminiCli",
    "win32": "C:\\ProgramData\\gemini-cli",
}


def folder() -> Path:
    """Where Gemini CLI keeps what is a user's."""
    return Path(os.environ.get("GEMINI_CLI_HOME") or "~").expanduser() / ".gemini"


def obstacles(printed: Printing, platform: str) -> Iterator[Finding]:
    """What keeps turns from being stored. ``printed`` asks Gemini CLI, where it is on the path."""
    listed = (
        _value(printed(["gemini", "extensions", "list", "-o", "json"])) if shutil.which("gemini") else None
    )
    if isinstance(listed, list):
        yield from _as_it_says(listed, printed)
    elif not (folder() / "extensions" / PLUGIN / "gemini-extension.json").exists():
        yield _not_installed()
    yield from _in_settings(platform)


def _as_it_says(listed: list[Any], printed: Printing) -> Iterator[Finding]:
    rows = [row for row in listed if isinstance(row, dict)]
    found = next((row for row in rows if row.get("name") == PLUGIN), None)
    if found is None:
        yield _not_installed()
    elif found.get("isActive") is False:
        text = "the extension is installed and switched off in this folder"
        repair = f"gemini extensions enable {PLUGIN}"
        yield Finding("gemini.switched_off", Severity.ERROR, text, repair=repair)
    else:
        lines = printed(["gemini", "mcp", "list"]).splitlines()
        state = next(
            (line.rpartition(" - ")[2] for line in lines if f" {PLUGIN} (from {PLUGIN})" in line), ""
        )
        if lines and state != "Connected":
            yield _without_server(state)


def _without_server(state: str) -> Finding:
    text = (
        f"Gemini CLI does not run lcm's server in this folder ({state.lower() or 'not listed'}): each hook does all by "
        "itself, which takes a second, and the tools are missing"
    )
    repair = "trust this folder with /permissions in gemini, and keep lcm out of mcp.excluded"
    return Finding("gemini.server", Severity.WARNING, text, repair=repair)


def _not_installed() -> Finding:
    text = f"Gemini CLI has no extension {PLUGIN}"
    return Finding("gemini.not_installed", Severity.ERROR, text, repair="lcm install gemini")


def _in_settings(platform: str) -> Iterator[Finding]:
    system = Path(_SYSTEM.get(platform, "/etc/gemini-cli")) / "settings.json"
    for name in (
        folder() / "settings.json",
        Path(".gemini/settings.json"),
        Path(os.environ.get("GEMINI_CLI_SYSTEM_SETTINGS_PATH") or system),
    ):
        settings = _settings(name)
        hooks, admin = _part(settings, "hooksConfig"), _part(settings, "admin")
        if hooks.get("enabled") is False or PLUGIN in (hooks.get("disabled") or ()):
            text = f"{name} switches the hooks off: no turn is stored"
            yield Finding("gemini.hooks_off", Severity.ERROR, text, repair="take it out of hooksConfig")
        if _part(admin, "extensions").get("enabled") is False:
            text = f"{name} allows no extension (admin.extensions): no turn is stored"
            yield Finding("gemini.extensions_off", Severity.ERROR, text, repair="ask who keeps that file")


def _settings(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    value = _value(_COMMENT.sub(lambda match: match.group(1) or "", text))
    return value if isinstance(value, dict) else {}


def _part(settings: dict[str, Any], name: str) -> dict[str, Any]:
    value = settings.get(name)
    return value if isinstance(value, dict) else {}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
