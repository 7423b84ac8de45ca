"""Session keys: one lane for each workspace and session of the host."""

from __future__ import annotations

from pathlib import Path

import pytest

from lcm_plugin.hosts.bub.lanes import key_of, session_of
from lcm_plugin.sessions.globs import matches_any


def test_a_key_names_workspace_channel_and_chat(tmp_path: Path) -> None:
    session = session_of({"session_id": "telegram:42", "_runtime_workspace": str(tmp_path / "notes")})
    assert session is not None
    agent, name, *lane = session.key.split(":")
    assert (agent, name.rsplit("-", 1)[0], lane) == ("agent", "notes", ["telegram", "42"])
    assert matches_any(["agent:*:telegram:**"], session.key)


def test_equal_sessions_of_two_workspaces_are_two_lanes(tmp_path: Path) -> None:
    keys = {key_of(tmp_path / name, "cli:local") for name in ("a/notes", "b/notes", "notes")}
    assert len(keys) == 3


@pytest.mark.parametrize("folder", ["/", "/tmp/a:b c", "/tmp/ü", "/tmp/…"])
def test_odd_folders_make_keys_of_three_parts(folder: str) -> None:
    agent, name, lane = key_of(Path(folder), "local").split(":")
    assert agent == "agent"
    assert len(name) > 9
    assert lane == "local"


def test_a_temporary_session_is_a_subagents() -> None:
    assert key_of(Path("/w"), "temp/ab12").split(":", 2)[2] == "subagent:ab12"


def test_a_state_without_a_session_has_no_lane() -> None:
    assert session_of({}) is None
    assert session_of({"session_id": ""}) is None
