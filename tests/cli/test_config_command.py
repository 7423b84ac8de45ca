"""``lcm config``: values with their origin, and a file that is never half written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fakes.shell import Done, run_here


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "settings" / "config.json"


def config(place: Path, *arguments: str, **environment: str) -> Done:
    return run_here("config", *arguments, environment={"LCM_CONFIG": str(place)} | environment)


def origin(place: Path, key: str, **environment: str) -> tuple[object, str]:
    found = json.loads(config(place, "get", key, "--json", **environment).stdout)
    return found["value"], found["origin"]


def test_a_value_is_written_and_in_force(place: Path) -> None:
    assert origin(place, "contextThreshold") == (0.75, "default")
    assert config(place, "set", "contextThreshold", "0.6").returncode == 0
    assert json.loads(place.read_text()) == {"contextThreshold": 0.6}
    assert origin(place, "contextThreshold") == (0.6, "file")


def test_what_a_policy_chooses_is_given_with_the_value_in_force(place: Path) -> None:
    def in_force(policy: str, window: str) -> int:
        done = config(
            place, "get", "leafChunkTokens", "--window", window, "--json", LCM_CONTEXT_POLICY=policy
        )
        return int(json.loads(done.stdout)["in_force"])

    assert [in_force("economy", window) for window in ("8000", "128000")] == [4_000, 12_000]
    small, large = in_force("balanced", "8000"), in_force("balanced", "128000")
    assert 0 < small < large <= 20_000
    assert f"auto, now {large:,}" in config(place, "get", "leafChunkTokens").stdout
    assert "auto, now" in config(place, "list").stdout


def test_the_environment_wins_over_the_file(place: Path) -> None:
    config(place, "set", "leafChunkTokens", "9000")
    assert origin(place, "leafChunkTokens", LCM_LEAF_CHUNK_TOKENS="7000") == (7000, "environment")


def test_a_key_may_be_written_in_every_way(place: Path) -> None:
    config(place, "set", "LCM_LEAF_CHUNK_TOKENS", "9000")
    config(place, "set", "leaf_chunk_tokens", "8000")
    assert json.loads(place.read_text()) == {"leafChunkTokens": 8000}


def test_a_bad_value_is_refused_and_the_file_stays(place: Path) -> None:
    config(place, "set", "leafChunkTokens", "9000")
    before = place.read_bytes()
    done = config(place, "set", "leafChunkTokens", "-3")
    assert done.returncode == 4
    assert "leafChunkTokens" in done.stderr
    assert done.stderr.count("\n") == 1
    assert place.read_bytes() == before
    assert [entry.name for entry in place.parent.iterdir()] == ["config.json"]


def test_an_unknown_key_is_refused(place: Path) -> None:
    done = config(place, "set", "leafChunkTokenz", "9000")
    assert done.returncode == 4
    assert not place.exists()


def test_the_old_file_is_kept_as_a_copy(place: Path) -> None:
    config(place, "set", "leafChunkTokens", "9000")
    config(place, "set", "leafChunkTokens", "8000")
    assert json.loads(place.with_name("config.json.bak").read_text()) == {"leafChunkTokens": 9000}


def test_a_negative_number_is_a_value(place: Path) -> None:
    assert config(place, "set", "incrementalMaxDepth", "-1").returncode == 0
    assert origin(place, "incrementalMaxDepth") == (-1, "file")


def test_unset_brings_the_default_back(place: Path) -> None:
    config(place, "set", "leafChunkTokens", "9000")
    assert config(place, "unset", "leafChunkTokens").returncode == 0
    assert origin(place, "leafChunkTokens") == ("auto", "default")


def test_a_broken_file_is_named_with_its_line_and_not_overwritten(place: Path) -> None:
    place.parent.mkdir()
    place.write_text('{\n  "leafChunkTokens": \n}')
    done = config(place, "set", "contextThreshold", "0.5")
    assert done.returncode == 4
    assert "broken JSON on line 3" in done.stderr
    assert "leafChunkTokens" in place.read_text()


def test_list_names_every_setting_once(place: Path) -> None:
    from lcm_plugin import LcmConfig

    listed = json.loads(config(place, "list", "--json").stdout)
    assert len({row["key"] for row in listed}) == len(listed) == len(LcmConfig.model_fields)


def test_path_prints_where_the_file_is(place: Path) -> None:
    assert config(place, "path").stdout.strip() == str(place)


def test_a_password_is_not_shown(place: Path) -> None:
    url = "postgresql://ines:geheim@db/lcm"
    shown = config(place, "get", "database", LCM_DATABASE_URL=url).stdout
    assert "geheim" not in shown
    assert "ines" in shown
