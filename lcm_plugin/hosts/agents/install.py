"""``lcm install``: writes an agent's plugin, has the agent install it, and says what is left to do."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lcm_plugin.config.file import PATH_VARIABLE, load_config
from lcm_plugin.errors import InputError
from lcm_plugin.hosts.agents.names import TIMEOUT_VARIABLE, Agent, Extent, agents_folder
from lcm_plugin.hosts.agents.plugin_files import (
    MARKETPLACE,
    OPENCODE_PLUGIN,
    PLUGIN,
    claude_code_files,
    codex_files,
    gemini_files,
    openclaw_files,
    opencode_files,
)
from lcm_plugin.store.open import is_server

_SECONDS = 120
_KEPT = (PATH_VARIABLE, "XDG_DATA_HOME", "XDG_CONFIG_HOME", "PYTHONPATH", TIMEOUT_VARIABLE)
_NAME = f"{PLUGIN}@{MARKETPLACE}"


_SCOPES = {Extent.USER: "user", Extent.PROJECT: "local"}


@dataclass(frozen=True, slots=True)
class Kit:
    """How one agent takes a plugin.

    ``log`` is the importers' name of its logs. ``replace`` are commands that take an earlier version out and may fail,
    ``add`` and ``remove`` put this one in and take it out. ``{folder}`` and ``{scope}`` in them are filled in.
    ``definition`` is the plugin's file that names the server. ``own_folder`` is a folder of the agent that it reads
    plugins from by itself, for which no command is needed.
    """

    program: str
    log: str
    files: Callable[[str | None, Mapping[str, str]], dict[str, str]]
    replace: tuple[tuple[str, ...], ...]
    add: tuple[tuple[str, ...], ...]
    remove: tuple[tuple[str, ...], ...]
    left_to_do: str
    per_project: bool = False
    definition: str = ".mcp.json"
    own_folder: Callable[[Extent], Path] | None = None


def _opencode_folder(extent: Extent) -> Path:
    if extent is Extent.PROJECT:
        return Path(".opencode").absolute()
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "opencode"


_FORGET_CODEX = (("plugin", "remove", _NAME), ("plugin", "marketplace", "remove", MARKETPLACE))
_FORGET_GEMINI = (("extensions", "uninstall", PLUGIN),)
KITS = {
    Agent.CLAUDE_CODE: Kit(
        "claude",
        "claude-code",
        claude_code_files,
        (),
        (
            ("plugin", "marketplace", "add", "{folder}", "--scope", "{scope}"),
            ("plugin", "install", _NAME, "--scope", "{scope}"),
        ),
        (
            ("plugin", "uninstall", _NAME, "--scope", "{scope}"),
            ("plugin", "marketplace", "remove", MARKETPLACE, "--scope", "{scope}"),
        ),
        "Start a new session, or /reload-plugins in a running one. `lcm doctor --host claude-code` checks it after a turn.",
        per_project=True,
    ),
    Agent.CODEX: Kit(
        "codex",
        "codex",
        codex_files,
        _FORGET_CODEX,
        (("plugin", "marketplace", "add", "{folder}"), ("plugin", "add", _NAME)),
        _FORGET_CODEX,
        "Start codex, type /hooks and trust the hooks of lcm: untrusted hooks are skipped without a word. "
        "`lcm doctor --host codex` checks it after a turn.",
    ),
    Agent.GEMINI: Kit(
        "gemini",
        "gemini-cli",
        gemini_files,
        _FORGET_GEMINI,
        (("extensions", "install", "{folder}/lcm", "--consent", "--skip-settings"),),
        _FORGET_GEMINI,
        "Start a new session. `lcm doctor --host gemini` checks it after a turn.",
        definition="gemini-extension.json",
    ),
    Agent.OPENCLAW: Kit(
        "openclaw",
        "openclaw",
        openclaw_files,
        (),
        (("plugins", "install", "--link", "--force", "--accept-capabilities", "{folder}/lcm"),),
        (("plugins", "uninstall", PLUGIN, "--force"),),
        "Start OpenClaw's gateway again. `lcm doctor --host openclaw` checks it after a turn, /lcm says what is stored.",
        definition="index.js",
    ),
    Agent.OPENCODE: Kit(
        "opencode",
        "opencode",
        opencode_files,
        (),
        (),
        (),
        "Start opencode again. `lcm doctor --host opencode` checks it after a turn, /lcm says in a session what is stored.",
        per_project=True,
        definition=OPENCODE_PLUGIN,
        own_folder=_opencode_folder,
    ),
}


@dataclass(slots=True)
class Installed:
    """What was done, or with a dry run what would be: files written or removed, commands run, and what is left to do."""

    agent: str
    folder: str
    files: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    left_to_do: list[str] = field(default_factory=list)
    failed: str = ""


def install(
    agent: Agent, extent: Extent, database: str | None, *, dry_run: bool = False, capture_only: bool = False
) -> Installed:
    """Writes the plugin and has the agent install it. Raises `InputError` for an extent that the agent lacks.

    ``capture_only`` leaves contexts to an agent that would get them from here; the others' are always their own.
    """
    kit = KITS[agent]
    _check_extent(agent, kit, extent)
    folder = plugin_folder(agent, extent)
    done = Installed(agent.value, str(folder))
    stored_in, environment = _settings_to_keep(database)
    if capture_only:
        environment["LCM_CAPTURE_ONLY"] = "true"
    for name, text in kit.files(stored_in, environment).items():
        done.files.append(name)
        if not dry_run:
            _write(folder / name, text)
    if not dry_run:
        _run(kit.program, _filled(kit.replace, folder, extent), None)
    _run(kit.program, _filled(kit.add, folder, extent), done, dry_run=dry_run)
    done.left_to_do.append(kit.left_to_do)
    return done


def uninstall(agent: Agent, extent: Extent, *, dry_run: bool = False) -> Installed:
    """Has the agent forget the plugin, and deletes its files. What is stored stays."""
    kit = KITS[agent]
    _check_extent(agent, kit, extent)
    folder = plugin_folder(agent, extent)
    done = Installed(agent.value, str(folder))
    _run(kit.program, _filled(kit.remove, folder, extent), done, dry_run=dry_run)
    if kit.own_folder is not None:
        done.removed = [name for name in kit.files(None, {}) if (folder / name).exists()]
        if not dry_run:
            _delete(folder, done.removed)
    elif not dry_run and not done.failed:
        shutil.rmtree(folder, ignore_errors=True)
    return done


def plugin_folder(agent: Agent, extent: Extent = Extent.USER) -> Path:
    """Where the plugin of an agent is written."""
    own = KITS[agent].own_folder
    return agents_folder() / agent.value if own is None else own(extent)


def _filled(commands: Sequence[Sequence[str]], folder: Path, extent: Extent) -> list[list[str]]:
    return [[word.format(folder=folder, scope=_SCOPES[extent]) for word in command] for command in commands]


def _check_extent(agent: Agent, kit: Kit, extent: Extent) -> None:
    if extent is Extent.PROJECT and not kit.per_project:
        raise InputError(f"{agent.value} keeps plugins for the user, not for a project: leave out --project")


def _settings_to_keep(database: str | None) -> tuple[str | None, dict[str, str]]:
    """The database and the settings file as they are in force here: an agent starts its servers with few variables."""
    environment = {name: os.environ[name] for name in _KEPT if os.environ.get(name)}
    if not database:
        config = load_config()
        database = config.database_target if config.source_of("database") == "environment" else None
    if database and not is_server(database):
        database = str(Path(database).expanduser().absolute())
    return database, environment


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _delete(folder: Path, names: Sequence[str]) -> None:
    """Deletes files, and the folders that hold nothing any more."""
    for name in names:
        path = folder / name
        path.unlink()
        while (path := path.parent) != folder and not any(path.iterdir()):
            path.rmdir()


def _run(
    program: str, commands: Sequence[Sequence[str]], done: Installed | None, *, dry_run: bool = False
) -> None:
    """Runs an agent's commands in order, up to the first that fails; without ``done`` failures do not matter."""
    found = shutil.which(program)
    for number, command in enumerate(commands):
        shown = " ".join([program, *command])
        if done is not None and (dry_run or not found):
            (done.commands if dry_run else done.left_to_do).append(shown if dry_run else f"Run: {shown}")
            continue
        if not found:
            return
        ended = subprocess.run(
            [found, *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        if done is None:
            continue
        done.commands.append(shown)
        if ended.returncode:
            done.failed = f"{shown}: {(ended.stderr or ended.stdout).strip()[:500]}"
            done.left_to_do += [f"Run: {' '.join([program, *one])}" for one in commands[number:]]
            return
