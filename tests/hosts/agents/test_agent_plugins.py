"""`lcm install`: the plugins' files, what stays the same in them, and what a dry run does not do."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from lcm_plugin.errors import InputError
from lcm_plugin.hosts.agents.calls import FIELDS
from lcm_plugin.hosts.agents.install import install, plugin_folder, uninstall
from lcm_plugin.hosts.agents.names import Agent, Extent
from lcm_plugin.hosts.agents.plugin_files import (
    claude_code_files,
    codex_files,
    gemini_files,
    plugin_settings,
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in (
        "XDG_DATA_HOME",
        "XDG_CONFIG_HOME",
        "LCM_DATABASE",
        "LCM_DATABASE_PATH",
        "LCM_CONFIG",
        "PYTHONPATH",
    ):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def hooks_of(files: dict[str, str]) -> dict[str, list[dict[str, object]]]:
    found: dict[str, list[dict[str, object]]] = json.loads(files["lcm/hooks/hooks.json"])["hooks"]
    return found


@pytest.mark.parametrize("agent", Agent)
def test_a_dry_run_writes_nothing(home: Path, agent: Agent) -> None:
    done = install(agent, Extent.USER, None, dry_run=True)
    assert done.files
    assert bool(done.commands) is (agent is not Agent.OPENCODE)
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("agent", [Agent.CLAUDE_CODE, Agent.CODEX, Agent.GEMINI])
def test_without_the_agent_its_files_are_written_and_the_rest_is_named(home: Path, agent: Agent) -> None:
    done = install(agent, Extent.USER, str(home / "talk.db"))
    assert all((plugin_folder(agent) / name).is_file() for name in done.files)
    assert [line for line in done.left_to_do if line.startswith("Run: ")]
    named = "gemini-extension.json" if agent is Agent.GEMINI else ".mcp.json"
    server = json.loads((plugin_folder(agent) / "lcm" / named).read_text())["mcpServers"]["lcm"]
    assert server["command"] == sys.executable
    assert server["args"][-2:] == ["--database", str(home / "talk.db")]
    uninstall(agent, Extent.USER)
    assert not plugin_folder(agent).exists()


def test_the_database_that_the_environment_names_is_kept(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LCM_DATABASE", str(home / "named.db"))
    install(Agent.CODEX, Extent.USER, None)
    server = json.loads((plugin_folder(Agent.CODEX) / "lcm/.mcp.json").read_text())["mcpServers"]["lcm"]
    assert server["args"][-2:] == ["--database", str(home / "named.db")]


def test_hooks_are_defined_alike_whatever_is_installed() -> None:
    for files in (claude_code_files, codex_files):
        assert hooks_of(files(None, {})) == hooks_of(files("other.db", {"LCM_CONFIG": "x"}))


def test_a_codex_plugin_has_another_version_when_its_files_change() -> None:
    named = "lcm/.codex-plugin/plugin.json"
    assert codex_files(None, {})[named] == codex_files(None, {})[named]
    assert codex_files(None, {})[named] != codex_files("other.db", {})[named]


def test_every_hook_calls_the_running_server_with_fields_that_it_knows() -> None:
    for files, server in ((claude_code_files, "plugin:lcm:lcm"), (codex_files, "lcm")):
        hooks = hooks_of(files(None, {}))
        assert {"UserPromptSubmit", "Stop", "SessionStart"} <= set(hooks)
        for event, [defined] in hooks.items():
            [hook] = defined["hooks"]  # type: ignore[misc]
            assert (hook["type"], hook["server"], hook["tool"]) == ("mcp_tool", server, "lcm_hook")
            assert hook["input"].pop("event") == event
            assert hook["input"] == {name: f"${{{FIELDS[name]}}}" for name in hook["input"]}


def test_hooks_that_are_processes_have_the_settings_that_their_server_has() -> None:
    files = gemini_files(None, {"LCM_CONFIG": "x"})
    hooks = json.loads(files["lcm/hooks/hooks.json"])["hooks"]
    server = json.loads(files["lcm/gemini-extension.json"])["mcpServers"]["lcm"]
    found = [hook["env"] for [defined] in hooks.values() for hook in defined["hooks"]]
    assert found == [server["env"]] * 2 == [{"LCM_CONFIG": "x"}] * 2


def test_codex_has_no_plugins_for_one_project() -> None:
    with pytest.raises(InputError, match="leave out --project"):
        install(Agent.CODEX, Extent.PROJECT, None)


@pytest.mark.parametrize("extent", Extent)
def test_opencodes_plugin_lies_in_a_folder_of_its_own_and_leaves_what_is_beside_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, extent: Extent
) -> None:
    monkeypatch.chdir(home)
    folder = home / (".config/opencode" if extent is Extent.USER else ".opencode")
    (folder / "plugin").mkdir(parents=True)
    (folder / "plugin" / "other.js").write_text("// mine")
    done = install(Agent.OPENCODE, extent, str(home / "talk.db"), capture_only=True)
    assert all((folder / name).is_file() for name in done.files)
    settings = plugin_settings((folder / "plugin/lcm.js").read_text(encoding="utf-8"))
    assert settings["command"][:4] == [sys.executable, "-P", "-m", "lcm_plugin.hosts.stdio"]
    assert settings["command"][-2:] == settings["tools"][-2:] == ["--database", str(home / "talk.db")]
    assert settings["environment"]["LCM_CAPTURE_ONLY"] == "true"
    assert uninstall(Agent.OPENCODE, extent, dry_run=True).removed == done.files
    assert all((folder / name).is_file() for name in done.files)
    uninstall(Agent.OPENCODE, extent)
    assert [path.name for path in folder.rglob("*") if path.is_file()] == ["other.js"]
    assert not (folder / "skill").exists()


def test_openclaws_plugin_declares_the_tools_that_it_registers(home: Path) -> None:
    done = install(Agent.OPENCLAW, Extent.USER, str(home / "talk.db"))
    folder = plugin_folder(Agent.OPENCLAW)
    settings = plugin_settings((folder / "lcm/index.js").read_text(encoding="utf-8"))
    declared = json.loads((folder / "lcm/openclaw.plugin.json").read_text())["contracts"]["tools"]
    assert [tool["name"] for tool in settings["tools"]] == declared
    assert settings["command"][-2:] == ["--database", str(home / "talk.db")]
    assert done.left_to_do[0].startswith("Run: openclaw plugins install --link")
    uninstall(Agent.OPENCLAW, Extent.USER)
    assert not folder.exists()
