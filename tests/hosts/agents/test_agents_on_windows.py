"""What the pages say about Windows: definitions with backslashes and spaces, and logs whose lines end with two characters.

Nothing here runs on Windows; what decides there are pure functions, which are given its paths.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path, PureWindowsPath

import pytest
from agent_logs import KEY, Log

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.hosts.agents.capture import Capture
from lcm_plugin.hosts.agents.plugin_files import (
    claude_code_files,
    codex_files,
    gemini_files,
    hook_line,
    openclaw_files,
    opencode_files,
    plugin_settings,
)

REAL = sys.executable
PYTHON = str(PureWindowsPath(r"C:\Program Files\Python311\python.exe"))
DATABASE = str(PureWindowsPath(r"C:\Users\Ann Lee\AppData\Local\lcm\lcm.db"))
Files = Callable[[str | None, Mapping[str, str]], dict[str, str]]


@pytest.fixture(autouse=True)
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter that lcm runs with, as Windows names it."""
    monkeypatch.setattr(sys, "executable", PYTHON)


@pytest.mark.parametrize(
    ("files", "name"),
    [
        (claude_code_files, "lcm/.mcp.json"),
        (codex_files, "lcm/.mcp.json"),
        (gemini_files, "lcm/gemini-extension.json"),
    ],
)
def test_a_server_is_named_word_for_word_as_a_list_that_no_shell_reads(files: Files, name: str) -> None:
    text = files(DATABASE, {})[name]
    server = json.loads(text)["mcpServers"]["lcm"]
    assert (server["command"], server["args"][-2:]) == (PYTHON, ["--database", DATABASE])
    assert r"C:\\Program Files\\Python311\\python.exe" in text


@pytest.mark.parametrize(
    ("files", "name"), [(opencode_files, "plugin/lcm.js"), (openclaw_files, "lcm/index.js")]
)
def test_a_plugin_in_javascript_names_them_word_for_word(files: Files, name: str) -> None:
    settings = plugin_settings(files(DATABASE, {})[name])
    assert settings["command"][0] == PYTHON
    assert settings["command"][-2:] == ["--database", DATABASE]


def test_hooks_of_claude_code_and_codex_hold_no_path_at_all() -> None:
    for files in (claude_code_files, codex_files):
        assert "\\" not in files(DATABASE, {})["lcm/hooks/hooks.json"]


def test_a_hook_that_is_a_line_is_quoted_as_powershell_reads_it() -> None:
    assert hook_line("gemini-cli", r"C:\Ann's\lcm.db", windows=True) == (
        r"& 'C:\Program Files\Python311\python.exe' '-P' '-m' 'lcm_plugin.hosts.agents.command' 'gemini-cli'"
        r" '--database' 'C:\Ann''s\lcm.db'; exit 0"
    )


def test_what_a_host_says_is_read_as_utf_8_whatever_the_terminals_encoding_is(tmp_path: Path) -> None:
    log, database = Log(tmp_path), tmp_path / "lcm.db"
    log.turn("Der Torcode für Köln-Süd ist HERON-4417.", "Gut.")
    with Engine.open(LcmConfig(database=str(database))) as engine:
        Capture(engine, "claude-code").store([log.path])
    asked = {"hook_event_name": "BeforeAgent", "session_id": "other", "cwd": "/home/ann/pump"}
    asked["prompt"] = "Wie war der Torcode für Köln-Süd?"
    ended = subprocess.run(
        [REAL, "-m", "lcm_plugin.hosts.agents.command", "gemini-cli", "--database", str(database)],
        input=json.dumps(asked, ensure_ascii=False).encode(),
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    assert "HERON-4417" in json.loads(ended.stdout)["hookSpecificOutput"]["additionalContext"]


def test_lines_that_end_as_on_windows_are_read_and_stored_without_the_ending(tmp_path: Path) -> None:
    log = Log(tmp_path)
    for line in log.turn_lines("first\r\nand more", "one"):
        log.write(line.replace(b"\n", b"\r\n"))
    with Engine.open(LcmConfig(database=str(tmp_path / "lcm.db"))) as engine:
        capture = Capture(engine, "claude-code")
        assert capture.store([log.path]) == 2
        assert capture.store([log.path]) == 0
        for line in log.turn_lines("second", "two"):
            log.write(line.replace(b"\n", b"\r\n"))
        assert capture.store([log.path]) == 2
        asked = [one["content"] for one in engine.messages(Session(KEY)) if one["role"] == "user"]
    assert asked == ["first\r\nand more", "second"]
