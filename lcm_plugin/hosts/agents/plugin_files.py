"""The files of the plugins for Claude Code, Codex and opencode, and of the extension for Gemini CLI.

The first two read the same kinds of files under other names, and their hooks call a tool of the running server. Gemini CLI
starts a process for each hook, which asks that server over a socket. opencode runs JavaScript in its own process.
Definitions of hooks stay as they are from version to version: Codex asks a person to trust each one again that changed.
All logic lies behind the tool that they call.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from importlib import resources
from pathlib import Path
from typing import Any

from lcm_plugin.hosts.agents.calls import FIELDS
from lcm_plugin.hosts.agents.names import sockets_folder
from lcm_plugin.recall.tools import tool_schemas
from lcm_plugin.version import VERSION

MARKETPLACE, PLUGIN = "lcm-local", "lcm"
ABOUT = "Keeps every turn word for word, and quotes what was said earlier when it is asked for."
_ALWAYS = ("event", "session", "transcript", "cwd")


@dataclass(frozen=True, slots=True)
class Hook:
    """An event that is hooked: its own fields, and the seconds after which the host goes on without an answer."""

    event: str
    fields: tuple[str, ...] = ()
    seconds: int = 5
    matcher: str = ""


CLAUDE_CODE_HOOKS = (
    Hook("SessionStart", ("source",), matcher="compact"),
    Hook("UserPromptSubmit", ("prompt", "agent")),
    Hook("PostToolBatch", ("agent",)),
    Hook("PreCompact"),
    Hook("SubagentStop", ("agent", "agent_transcript")),
    Hook("Stop", ("last",)),
)
# Codex fails a hook of which one field is missing: a prompt has an agent_id in sub-agents only, whose log says it too.
CODEX_HOOKS = (
    Hook("SessionStart", ("source",)),
    Hook("UserPromptSubmit", ("prompt",)),
    Hook("PreCompact"),
    Hook("SubagentStop", ("agent", "agent_transcript")),
    Hook("Stop", ("last",)),
)


OPENCODE_PLUGIN = "plugin/lcm.js"
_SETTINGS = "__SETTINGS__"
GEMINI_HOOKS = ("BeforeAgent", "AfterAgent")
HOOK_CLIENT = Path(__file__).with_name("hook_client.py")


def server_command(
    log: str, database: str | None, module: str = "lcm_plugin.hosts.agents"
) -> tuple[str, list[str]]:
    """The program and arguments that serve a host: this interpreter, which never looks into the project's folder."""
    given = ["--database", database] if database else []
    return sys.executable, ["-P", "-m", module, log, *given]


def claude_code_files(database: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """The marketplace with its plugin, by path."""
    listed = {"name": PLUGIN, "source": f"./{PLUGIN}", "description": ABOUT}
    market = {"name": MARKETPLACE, "owner": {"name": PLUGIN}, "plugins": [listed]}
    plugin = {"name": PLUGIN, "version": VERSION, "description": ABOUT, "author": {"name": PLUGIN}}
    server = _server("claude-code", database, environment) | {"alwaysLoad": True}
    return {
        ".claude-plugin/marketplace.json": _json(market),
        f"{PLUGIN}/.claude-plugin/plugin.json": _json(plugin),
        **_shared(server, _hooks(CLAUDE_CODE_HOOKS, f"plugin:{PLUGIN}:lcm"), "claude-code"),
    }


def codex_files(database: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """The marketplace with its plugin, by path. Its version changes with its files, which Codex copies."""
    files = _shared(_server("codex", database, environment), _hooks(CODEX_HOOKS, "lcm"), "codex")
    version = f"{VERSION}+{blake2b(_json(files).encode(), digest_size=4).hexdigest()}"
    source = {"source": "local", "path": f"./{PLUGIN}"}
    policy = {"installation": "AVAILABLE", "authentication": "ON_INSTALL"}
    listed = {"name": PLUGIN, "source": source, "policy": policy, "category": "Productivity"}
    plugin = {"name": PLUGIN, "version": version, "description": ABOUT, "skills": "./skills/"}
    plugin |= {"mcpServers": "./.mcp.json", "hooks": "./hooks/hooks.json"}
    return {
        ".agents/plugins/marketplace.json": _json({"name": MARKETPLACE, "plugins": [listed]}),
        f"{PLUGIN}/.codex-plugin/plugin.json": _json(plugin),
        **files,
    }


def gemini_files(database: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """The extension, by path."""
    about = {"name": PLUGIN, "version": VERSION, "description": ABOUT}
    server = {"lcm": _server("gemini-cli", database, environment)}
    return {
        f"{PLUGIN}/gemini-extension.json": _json(about | {"mcpServers": server}),
        f"{PLUGIN}/hooks/hooks.json": _json(
            {"hooks": {event: [_gemini_hook(database, environment)] for event in GEMINI_HOOKS}}
        ),
        f"{PLUGIN}/skills/lcm/SKILL.md": skill("gemini"),
    }


def _gemini_hook(database: str | None, environment: Mapping[str, str]) -> dict[str, Any]:
    line = hook_line("gemini-cli", database, windows=os.name == "nt")
    hook = {"name": PLUGIN, "type": "command", "command": line, "timeout": 10_000}
    # Where no server runs it opens the database by these, as the server does.
    return {"matcher": "*", "hooks": [hook | ({"env": dict(environment)} if environment else {})]}


def hook_line(log: str, database: str | None, *, windows: bool) -> str:
    """A hook as one line for the shell that Gemini CLI starts: bash, and PowerShell on Windows.

    bash knows the number of the agent's process, by which a hook finds its session's server. The line never ends with an
    error, even when this Python is gone: Gemini CLI would block the turn.
    """
    command, arguments = server_command(log, database, "lcm_plugin.hosts.agents.command")
    if windows:
        quoted = ["'" + word.replace("'", "''") + "'" for word in (command, *arguments)]
        return " ".join(["&", *quoted]) + "; exit 0"
    started = shlex.join([command, "-I", "-S", str(HOOK_CLIENT), str(sockets_folder())])
    return f'{started} "$PPID" {shlex.join(arguments[3:])}; exit 0'


def opencode_files(database: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """The plugin that opencode runs in its own process, and a skill, by their paths in its folder."""
    command, arguments = server_command("opencode", database, "lcm_plugin.hosts.stdio")
    served = {
        "command": [command, *arguments],
        "tools": [command, *server_command("opencode", database)[1]],
        "environment": dict(environment),
    }
    return {
        OPENCODE_PLUGIN: _javascript("opencode", "lcm.js", served),
        "skill/lcm/SKILL.md": skill("opencode"),
    }


def openclaw_files(database: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """The plugin for OpenClaw's context engine slot, by path."""
    command, arguments = server_command("openclaw", database, "lcm_plugin.hosts.stdio")
    tools = [one["function"] for one in tool_schemas()]
    served = {"command": [command, *arguments], "tools": tools, "environment": dict(environment)}
    manifest = {
        "id": PLUGIN,
        "name": "Lossless Context Management",
        "version": VERSION,
        "description": ABOUT,
        "kind": "context-engine",
        "activation": {"onStartup": True},
        "contracts": {"tools": [tool["name"] for tool in tools]},
        "configSchema": {"type": "object", "additionalProperties": False, "properties": {}},
    }
    package = {
        "name": "lcm-openclaw",
        "version": VERSION,
        "private": True,
        "type": "module",
        "main": "index.js",
    }
    return {
        f"{PLUGIN}/openclaw.plugin.json": _json(manifest),
        f"{PLUGIN}/package.json": _json(package | {"openclaw": {"extensions": ["./index.js"]}}),
        f"{PLUGIN}/index.js": _javascript("openclaw", "index.js", served),
    }


def _javascript(host: str, name: str, settings: Mapping[str, Any]) -> str:
    """A plugin's code, with the client of the process and the settings in it."""
    code = resources.files(f"lcm_plugin.hosts.{host}").joinpath(name).read_text(encoding="utf-8")
    client = resources.files("lcm_plugin.hosts.stdio").joinpath("client.js").read_text(encoding="utf-8")
    return code.replace("__CLIENT__\n", client).replace(_SETTINGS, json.dumps(settings, ensure_ascii=False))


def plugin_settings(code: str) -> dict[str, Any]:
    """What was put into a plugin in JavaScript; empty for a file that is none of ours."""
    found = re.search(r"^const \{ command, tools, environment \} = (\{.*\})$", code, re.MULTILINE)
    return json.loads(found.group(1)) if found else {}


def skill(host: str) -> str:
    """The skill that says when to search, and what to do when the user asks about lcm."""
    text = resources.files("lcm_plugin.hosts.agents").joinpath("skill.md").read_text(encoding="utf-8")
    return text.replace("{host}", host)


def _shared(server: Mapping[str, Any], hooks: Mapping[str, Any], host: str) -> dict[str, str]:
    return {
        f"{PLUGIN}/.mcp.json": _json({"mcpServers": {"lcm": server}}),
        f"{PLUGIN}/hooks/hooks.json": _json({"hooks": hooks}),
        f"{PLUGIN}/skills/lcm/SKILL.md": skill(host),
    }


def _server(host: str, database: str | None, environment: Mapping[str, str]) -> dict[str, Any]:
    command, arguments = server_command(host, database)
    return {"command": command, "args": arguments} | ({"env": dict(environment)} if environment else {})


def _hooks(hooks: Sequence[Hook], server: str) -> dict[str, Any]:
    return {one.event: [_hook(one, server)] for one in hooks}


def _hook(hook: Hook, server: str) -> dict[str, Any]:
    given = {name: f"${{{FIELDS[name]}}}" for name in (*_ALWAYS, *hook.fields) if name != "event"}
    calling = {"type": "mcp_tool", "server": server, "tool": "lcm_hook", "timeout": hook.seconds}
    defined = {"hooks": [calling | {"input": {"event": hook.event, **given}}]}
    return ({"matcher": hook.matcher} if hook.matcher else {}) | defined


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
