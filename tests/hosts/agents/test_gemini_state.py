"""What the doctor says of Gemini CLI, by what that prints and by its settings."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lcm_plugin.hosts.agents.doctor import gemini_findings
from lcm_plugin.hosts.agents.gemini_state import obstacles

SERVED = "✓ lcm (from lcm): python -P (stdio) - Connected\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a project of nobody, with a Gemini CLI on the path."""
    program = tmp_path / "bin" / "gemini"
    program.parent.mkdir()
    program.touch(0o755)
    (tmp_path / ".gemini").mkdir()
    (tmp_path / "project").mkdir()
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setenv("GEMINI_CLI_HOME", str(tmp_path))
    monkeypatch.setenv("GEMINI_CLI_SYSTEM_SETTINGS_PATH", str(tmp_path / "system.json"))
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path


def said(extensions: str = '[{"name": "lcm", "isActive": true}]', servers: str = SERVED) -> list[str]:
    """The codes of what is in the way, where Gemini CLI prints so."""

    def printed(command: Sequence[str]) -> str:
        return extensions if "extensions" in command else servers

    return [finding.code for finding in obstacles(printed, "linux")]


def set_to(path: Path, settings: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(settings if isinstance(settings, str) else json.dumps(settings))


def test_nothing_is_in_the_way_of_an_extension_that_is_on(home: Path) -> None:
    assert said() == []


@pytest.mark.parametrize("listed", ["", "[]", "[1]", "not json", '[{"name": "other", "isActive": true}]'])
def test_an_extension_that_gemini_cli_does_not_list_is_not_installed(home: Path, listed: str) -> None:
    assert said(listed) == ["gemini.not_installed"]


def test_an_extension_that_was_disabled_is_named(home: Path) -> None:
    assert said('[{"name": "lcm", "isActive": false}]') == ["gemini.switched_off"]


@pytest.mark.parametrize(
    "servers", ["None.", SERVED.replace("Connected", "Disabled"), SERVED.replace("Connected", "Blocked")]
)
def test_a_server_that_a_folder_or_setting_keeps_away_is_named(home: Path, servers: str) -> None:
    assert said(servers=servers) == ["gemini.server"]


@pytest.mark.parametrize("hooks", [{"enabled": False}, {"disabled": ["other", "lcm"]}])
@pytest.mark.parametrize("name", [".gemini/settings.json", "project/.gemini/settings.json", "system.json"])
def test_hooks_that_a_settings_file_switches_off_are_found(home: Path, name: str, hooks: Any) -> None:
    set_to(home / name, {"hooksConfig": hooks})
    assert said() == ["gemini.hooks_off"]


def test_settings_with_comments_are_read(home: Path) -> None:
    text = '{ // not now: "enabled": true\n "a": "http://x/*", /* more */ "hooksConfig": {"enabled": false} }'
    set_to(home / ".gemini/settings.json", text)
    assert said() == ["gemini.hooks_off"]


def test_an_administrator_who_allows_no_extensions_is_found(home: Path) -> None:
    set_to(home / "system.json", {"admin": {"extensions": {"enabled": False}}})
    assert said() == ["gemini.extensions_off"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"hooksConfig": true, "admin": []}', '{"hooksConfig": {"disabled": null}}']
)
def test_settings_that_say_nothing_of_it_are_no_obstacle(home: Path, text: str) -> None:
    set_to(home / ".gemini/settings.json", text)
    assert said() == []


def test_without_gemini_cli_on_the_path_its_folder_is_looked_at(home: Path) -> None:
    (home / "bin" / "gemini").unlink()
    assert said() == ["gemini.not_installed"]
    (home / ".gemini/extensions/lcm").mkdir(parents=True)
    (home / ".gemini/extensions/lcm/gemini-extension.json").touch()
    assert said() == []


def test_a_gemini_cli_that_does_not_answer_in_time_is_no_obstacle(home: Path) -> None:
    assert said(servers="") == []
    (home / ".gemini/extensions/lcm").mkdir(parents=True)
    (home / ".gemini/extensions/lcm/gemini-extension.json").touch()
    assert said("") == []


@pytest.mark.skipif(sys.platform == "win32", reason="the program here is a shell script")
@pytest.mark.parametrize(("shown", "codes"), [("Connected", set()), ("Disabled", {"gemini.server"})])
def test_a_list_of_servers_that_is_printed_among_errors_is_read(
    home: Path, shown: str, codes: set[str]
) -> None:
    listed = '[{"name": "lcm", "isActive": true}]'
    (home / "bin" / "gemini").write_text(
        f"#!/bin/sh\ncase $1 in mcp) echo '✓ lcm (from lcm): python -P (stdio) - {shown}' >&2;; *) echo '{listed}';; esac\n"
    )
    assert {finding.code for finding in gemini_findings()} & {
        "gemini.server",
        "gemini.not_installed",
    } == codes
