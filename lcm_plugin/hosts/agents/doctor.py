"""``lcm doctor --host claude-code|codex|gemini|opencode|openclaw``: is the plugin on, and was the last turn stored?

The proof is the agent's own newest log: what people and models say in it must be in the database.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lcm_plugin.config.file import load_config
from lcm_plugin.config.model import LcmConfig
from lcm_plugin.engine import Engine
from lcm_plugin.errors import StoreUnavailable
from lcm_plugin.hosts.agents import gemini_state
from lcm_plugin.hosts.agents.install import KITS, plugin_folder
from lcm_plugin.hosts.agents.names import Agent, Extent
from lcm_plugin.hosts.agents.plugin_files import MARKETPLACE, OPENCODE_PLUGIN, PLUGIN, plugin_settings
from lcm_plugin.interchange.importers.formats import FORMATS
from lcm_plugin.interchange.importers.importing import SourceFile
from lcm_plugin.interchange.importers.records import Entry, Record, SourceConversation
from lcm_plugin.interchange.importers.report import Keys
from lcm_plugin.interchange.importers.sources import openclaw, opencode
from lcm_plugin.messages.blocks import text_of
from lcm_plugin.recall.times import format_instant
from lcm_plugin.text import plural
from lcm_plugin.types import Finding, Session, Severity

_SECONDS = 30
_NAME = f"{PLUGIN}@{MARKETPLACE}"
_BY_GATEWAY = "gateway-injected"


def claude_code_config() -> LcmConfig:
    """The settings with which Claude Code starts the server."""
    return _config(Agent.CLAUDE_CODE)


def codex_config() -> LcmConfig:
    """The settings with which Codex starts the server."""
    return _config(Agent.CODEX)


def claude_code_findings() -> Iterator[Finding]:
    """What stands between Claude Code and lcm; last whether its newest turn is stored."""
    folder = Path(os.environ.get("CLAUDE_CONFIG_DIR", "~/.claude")).expanduser()
    listed = yield from _listed(Agent.CLAUDE_CODE, "id")
    if listed and not (listed.get("enabled") or listed.get("projectEnabled")):
        yield _switched_off(Agent.CLAUDE_CODE, "claude plugin enable lcm@lcm-local")
    for name in (
        folder / "settings.json",
        Path(".claude/settings.json"),
        Path(".claude/settings.local.json"),
    ):
        if _read(name).get("disableAllHooks") is True:
            yield Finding(
                "claude-code.hooks_off",
                Severity.ERROR,
                f"{name} says disableAllHooks: no turn is stored",
                repair="take disableAllHooks out of it",
            )
    yield from _last_turn(Agent.CLAUDE_CODE, folder / "projects")


def codex_findings() -> Iterator[Finding]:
    """What stands between Codex and lcm, untrusted hooks too; last whether its newest turn is stored."""
    folder = Path(os.environ.get("CODEX_HOME", "~/.codex")).expanduser()
    listed = yield from _listed(Agent.CODEX, "pluginId")
    if listed and not listed.get("enabled"):
        yield _switched_off(Agent.CODEX, "enable the plugin lcm in Codex")
    if listed:
        yield from _trust()
    yield from _last_turn(Agent.CODEX, folder / "sessions")


def gemini_config() -> LcmConfig:
    """The settings with which Gemini CLI starts the server and the hooks."""
    return _config(Agent.GEMINI)


def gemini_findings() -> Iterator[Finding]:
    """What stands between Gemini CLI and lcm; last whether its newest turn is stored."""
    yield from _written(Agent.GEMINI)
    yield from gemini_state.obstacles(_printed, sys.platform)
    yield from _last_turn(Agent.GEMINI, gemini_state.folder() / "tmp")


def opencode_config() -> LcmConfig:
    """The settings with which opencode's plugin starts the process that serves it."""
    return _config(Agent.OPENCODE)


def opencode_findings() -> Iterator[Finding]:
    """What stands between opencode and lcm; last whether its newest turn is stored."""
    yield from _written(Agent.OPENCODE)
    data = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser()
    database, plugin = data / "opencode" / "opencode.db", _definition(Agent.OPENCODE)
    since = plugin.stat().st_mtime_ns // 1_000_000 if plugin.exists() else 0
    records = list(opencode.read_newest(database)) if database.exists() else []
    newest = max((record.at or 0 for record in records if isinstance(record, Entry)), default=0)
    if newest <= since:
        yield _no_turn(Agent.OPENCODE, database)
    else:
        yield _proof(Agent.OPENCODE, database, newest, lambda: _stored_of(Agent.OPENCODE, records))


def openclaw_config() -> LcmConfig:
    """The settings with which OpenClaw's plugin starts the process that serves it."""
    return _config(Agent.OPENCLAW)


def openclaw_findings() -> Iterator[Finding]:
    """What stands between OpenClaw and lcm; last whether the newest turn is stored."""
    yield from _written(Agent.OPENCLAW)
    folder = Path(os.environ.get("OPENCLAW_STATE_DIR") or "~/.openclaw").expanduser()
    settings = Path(os.environ.get("OPENCLAW_CONFIG_PATH") or folder / "openclaw.json")
    plugins = _read(settings).get("plugins")
    slots = plugins.get("slots") if isinstance(plugins, dict) else None
    engine = slots.get("contextEngine") if isinstance(slots, dict) else None
    if engine != PLUGIN:
        text = f"the slot contextEngine in {settings} holds {engine or 'nothing'}: turns run without lcm"
        yield Finding("openclaw.slot", Severity.ERROR, text, repair="lcm install openclaw")
    plugin = _definition(Agent.OPENCLAW)
    since = plugin.stat().st_mtime_ns // 1_000_000 if plugin.exists() else 0
    newest = max(
        (
            found
            for path in folder.glob("agents/*/agent/openclaw-agent.sqlite")
            for found in _sessions_of(path)
        ),
        key=lambda found: found.at,
        default=None,
    )
    if newest is None or newest.at <= since:
        yield _no_turn(Agent.OPENCLAW, folder / "agents")
    else:
        yield _proof(Agent.OPENCLAW, newest.path, newest.at, lambda: _said_of(newest))


@dataclass(frozen=True, slots=True)
class _Said:
    """A session of OpenClaw: what was said in it, and when last. Its entries' ids are not those of what is stored."""

    path: Path
    key: str
    at: int
    texts: tuple[str, ...]


def _sessions_of(path: Path) -> Iterator[_Said]:
    key, at, texts = "", 0, list[str]()
    for record in SourceFile(path, FORMATS[openclaw.NAME]).records():
        if isinstance(record, SourceConversation):
            yield _Said(path, key, at, tuple(texts))
            key, at, texts = "" if record.branch else Keys(openclaw.NAME).of(record), 0, []
        elif isinstance(record, Entry) and key and not record.hidden:
            at = max(at, record.at or 0)
            text = text_of(record.message).strip()
            if any(about.get("model") == _BY_GATEWAY for _, about in record.extras):
                # What the gateway answers to a command is no turn, and neither is the command.
                texts = texts[:-1] if texts and texts[-1].startswith("/") else texts
            elif text:
                texts.append(text)
    yield _Said(path, key, at, tuple(texts))


def _said_of(session: _Said) -> tuple[int, int]:
    with Engine.open(_config(Agent.OPENCLAW), read_only=True) as engine:
        stored = {text_of(message).strip() for message in engine.messages(Session(session.key))}
    return len(session.texts), sum(text in stored for text in session.texts)


def _config(agent: Agent) -> LcmConfig:
    arguments = _server(agent).get("args", [])
    at = arguments.index("--database") if "--database" in arguments else -1
    return load_config(**({"database": arguments[at + 1]} if at >= 0 else {}))


def _server(agent: Agent) -> dict[str, Any]:
    """The server's definition in the plugin that was written; empty when there is none."""
    path = _definition(agent)
    if path.suffix == ".js":
        code = path.read_text(encoding="utf-8") if path.exists() else ""
        command, *arguments = plugin_settings(code).get("command") or [None]
        return {"command": command, "args": arguments} if command else {}
    servers = _read(path).get("mcpServers", {})
    server = servers.get("lcm") if isinstance(servers, dict) else None
    return server if isinstance(server, dict) else {}


def _definition(agent: Agent) -> Path:
    """The file of the plugin that names the server."""
    if agent is Agent.OPENCODE:
        places = (plugin_folder(agent, extent) / OPENCODE_PLUGIN for extent in reversed(Extent))
        return next((path for path in places if path.exists()), plugin_folder(agent) / OPENCODE_PLUGIN)
    return plugin_folder(agent) / PLUGIN / KITS[agent].definition


def _written(agent: Agent) -> Iterator[Finding]:
    """What is wrong with the plugin as `lcm install` wrote it."""
    again, server = f"lcm install {agent.value}", _server(agent)
    if not server:
        text = "its plugin was not written"
        yield Finding(f"{agent.value}.not_written", Severity.ERROR, text, repair=again)
    elif not shutil.which(str(server.get("command"))):
        text = f"the plugin starts {server.get('command')}, which is not there any more"
        yield Finding(f"{agent.value}.interpreter", Severity.ERROR, text, repair=again)


def _listed(agent: Agent, key: str) -> Any:
    """Yields what is wrong with the installation; returns the agent's own entry of the plugin, or nothing."""
    again = f"lcm install {agent.value}"
    yield from _written(agent)
    program = KITS[agent].program
    if not shutil.which(program):
        text = f"{program} is not on the path: whether the plugin is on cannot be seen"
        yield Finding(f"{agent.value}.program", Severity.WARNING, text)
        return {}
    plugins = _asked([program, "plugin", "list", "--json"])
    rows = plugins.get("installed") if isinstance(plugins, dict) else plugins
    found = next((row for row in rows or () if isinstance(row, dict) and row.get(key) == _NAME), None)
    if found is None:
        text = f"{program} does not know the plugin {_NAME}"
        yield Finding(f"{agent.value}.not_installed", Severity.ERROR, text, repair=again)
        return {}
    return found


def _switched_off(agent: Agent, repair: str) -> Finding:
    text = "the plugin is installed and switched off"
    return Finding(f"{agent.value}.switched_off", Severity.ERROR, text, repair=repair)


def _trust() -> Iterator[Finding]:
    hooks = [hook for hook in _codex_hooks() if hook.get("pluginId") == _NAME]
    if not hooks:
        text = "Codex lists no hooks of lcm"
        yield Finding("codex.hooks_off", Severity.ERROR, text, repair="lcm install codex")
    untrusted = [hook["eventName"] for hook in hooks if hook.get("trustStatus") != "trusted"]
    if untrusted:
        text = f"{plural(len(untrusted), 'hook')} not trusted, and skipped without a word: {', '.join(untrusted)}"
        yield Finding(
            "codex.untrusted", Severity.ERROR, text, repair="type /hooks in codex and trust those of lcm"
        )
    off = [hook["eventName"] for hook in hooks if not hook.get("enabled", True)]
    if off:
        text = f"hooks switched off: {', '.join(off)}"
        yield Finding(
            "codex.hooks_off", Severity.ERROR, text, repair="type /hooks in codex and switch them on"
        )


def _codex_hooks() -> list[dict[str, Any]]:
    """The hooks as Codex sees them in this folder, with its word on whether they are trusted."""
    program = shutil.which(KITS[Agent.CODEX].program)
    if program is None:
        return []
    orders = [
        {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "lcm", "version": "1"}}},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [str(Path.cwd())]}},
    ]
    with subprocess.Popen(
        [program, "app-server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            server.stdin.writelines(f"{json.dumps(order)}\n" for order in orders)
            server.stdin.flush()
            for line in server.stdout:
                answer = json.loads(line)
                if answer.get("id") == 2:
                    data = answer.get("result", {}).get("data", [])
                    return [hook for row in data for hook in row.get("hooks", [])]
        finally:
            server.kill()
    return []


def _last_turn(agent: Agent, logs: Path) -> Iterator[Finding]:
    written = _definition(agent)
    since = written.stat().st_mtime if written.exists() else 0.0
    found = [
        path
        for path in logs.rglob("*.jsonl")
        if path.stat().st_mtime > since and path.parent.name != "subagents"
    ]
    if not found:
        yield _no_turn(agent, logs)
        return
    path = max(found, key=lambda path: path.stat().st_mtime)
    records = SourceFile(path, FORMATS[KITS[agent].log]).records()
    at = path.stat().st_mtime_ns // 1_000_000
    yield _proof(agent, path, at, lambda: _stored_of(agent, records))


def _no_turn(agent: Agent, logs: Path) -> Finding:
    text = f"no turn was taken since the plugin was installed (looked for in {logs})"
    return Finding(f"{agent.value}.no_turn", Severity.INFO, text, repair="take a turn, and run this again")


def _proof(agent: Agent, path: Path, at: int, counted: Callable[[], tuple[int, int]]) -> Finding:
    """Whether what an agent logged of its newest session is stored: messages, and stored ones.

    ``at`` is when it wrote last, in ms.
    """
    try:
        messages, stored = counted()
    except StoreUnavailable as error:
        return Finding(f"{agent.value}.last_turn", Severity.ERROR, f"no turn is stored: {error}")
    where = f"{path} ({format_instant(at, 'UTC')})"
    if stored < messages:
        text = f"of the {messages} messages in the newest log {stored} are stored: {where}"
        repair = f"start a new session in {agent.value}; `lcm import` brings in what is missing"
        return Finding(f"{agent.value}.last_turn", Severity.ERROR, text, repair=repair)
    text = f"the last turn is stored: all {messages} messages of {where}"
    return Finding(f"{agent.value}.last_turn", Severity.INFO, text)


def _stored_of(agent: Agent, records: Iterable[Record]) -> tuple[int, int]:
    """How many messages an agent's first session among records has, and how many of them are stored."""
    key, ids = "", set[str]()
    for record in records:
        if isinstance(record, SourceConversation):
            if key:
                break
            key = Keys(KITS[agent].log).of(record)
        elif isinstance(record, Entry) and not (record.hidden or record.inherited):
            ids.add(record.host_id)
    with Engine.open(_config(agent), read_only=True) as engine, engine.store.read() as reader:
        here = [row.conversation_id for row in reader.lane(key)]
        known = reader.known_host_ids(here, list(ids)) if here else set()
    return len(ids), len(known)


def _asked(command: list[str]) -> Any:
    """What a program prints, as JSON; nothing where it fails."""
    try:
        return json.loads(_printed(command))
    except ValueError:
        return {}


def _printed(command: Sequence[str]) -> str:
    """What a program prints; nothing where it is not there or takes too long."""
    found = shutil.which(command[0])
    if found is None:
        return ""
    try:
        ended = subprocess.run(
            [found, *command[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ""
    # Gemini CLI prints its list of servers where others print errors.
    return ended.stdout or ended.stderr


def _read(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
