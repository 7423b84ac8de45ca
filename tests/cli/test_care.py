"""``doctor, compact, backup``."""

from __future__ import annotations

import json
import shutil
import sqlite3
import stat
from pathlib import Path

import pytest
from fakes.shell import run_here

from lcm_plugin.cli.errors import DATABASE

INCIDENT = Path(__file__).resolve().parents[2] / "examples" / "incident.jsonl"
KEY = "agent:replay:main"


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("care")
    rows = [json.loads(line) for line in INCIDENT.read_text(encoding="utf-8").splitlines()[:220]]
    (folder / "t.json").write_text(json.dumps(rows), encoding="utf-8")
    done = run_here("replay", folder / "t.json", "--database", folder / "a.db", "--json")
    assert done.returncode == 0, done.stderr
    return folder / "a.db"


@pytest.fixture
def database(replayed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(replayed.parent, tmp_path / "copy")) / "a.db"


@pytest.mark.long
def test_doctor_finds_nothing_in_a_healthy_database(database: Path) -> None:
    before = database.read_bytes()
    done = run_here("doctor", "--database", database, "--json")
    assert done.returncode == 0, done.stderr
    # A replayed lane was last used when its transcript was written.
    assert {finding["code"] for finding in json.loads(done.stdout)["findings"]} <= {"lane_stale"}
    assert database.read_bytes() == before
    assert run_here("doctor", KEY, "--database", database).returncode == 0


def test_doctor_names_what_is_broken_and_changes_nothing(database: Path) -> None:
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        [lost] = connection.execute("SELECT min(message_id) FROM summary_messages").fetchone()
        connection.execute("DELETE FROM summary_messages WHERE message_id = ?", (lost,))
    connection.close()
    before = database.read_bytes()
    done = run_here("doctor", "--database", database, "--json")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert not report["ok"]
    assert any(f"msg_{lost}" in finding["ids"] for finding in report["findings"])
    assert database.read_bytes() == before
    assert f"msg_{lost}" in run_here("doctor", "--database", database).stdout


def test_compact_shrinks_the_context_and_loses_nothing(database: Path) -> None:
    done = run_here("compact", KEY, "--database", database, "--budget", "4000", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["compacted"]
    assert result["tokens_after"] < result["tokens_before"]
    assert run_here("doctor", "--database", database).returncode == 0
    again = run_here("compact", KEY, "--database", database, "--budget", "4000", "--due")
    assert again.returncode == 0


def test_a_compaction_that_leaves_work_says_so_by_its_exit_code(database: Path) -> None:
    words = ("compact", KEY, "--database", database, "--budget", "4000", "--json")
    small = {"LCM_LEAF_CHUNK_TOKENS": "400", "LCM_LEAF_TARGET_TOKENS": "96", "LCM_FRESH_TAIL_COUNT": "2"}
    bounded = run_here(*words, environment=small | {"LCM_SWEEP_DEADLINE_MS": "1"})
    assert (bounded.returncode, json.loads(bounded.stdout)["reason"]) == (6, "deferred")
    done = run_here(*words, environment=small)
    assert (done.returncode, json.loads(done.stdout)["compacted"]) == (0, True)


def test_compact_can_be_taken_back_once(database: Path) -> None:
    compacted = run_here("compact", KEY, "--database", database, "--budget", "4000", "--json")
    before = json.loads(compacted.stdout)["tokens_before"]
    undone = run_here("compact", KEY, "--database", database, "--undo", "--json")
    assert undone.returncode == 0, undone.stderr
    assert json.loads(undone.stdout)["tokens_after"] == before
    again = run_here("compact", KEY, "--database", database, "--undo")
    assert again.returncode != 0
    assert "nothing was undone" in again.stderr
    assert run_here("doctor", "--database", database).returncode == 0


def test_compact_refuses_a_budget_below_the_least(database: Path) -> None:
    done = run_here("compact", KEY, "--database", database, "--budget", "999")
    assert done.returncode != 0
    assert "--budget" in done.stderr
    assert "1,000" in done.stderr


def test_backup_writes_a_private_copy_that_opens(database: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copies" / "b.db"
    done = run_here("backup", copy, "--database", database, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["path"] == str(copy)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    for place in (database, copy):
        status = json.loads(run_here("status", "--database", place, "--json").stdout)
        assert status["messages"] == 220


def test_backup_never_overwrites(database: Path, tmp_path: Path) -> None:
    target = tmp_path / "b.db"
    target.write_text("precious")
    done = run_here("backup", target, "--database", database)
    assert done.returncode == 5
    assert target.read_text() == "precious"


def test_backup_without_a_name_lies_beside_the_database(database: Path) -> None:
    written = json.loads(run_here("backup", "--database", database, "--json").stdout)["path"]
    assert Path(written).parent == database.parent
    assert Path(written) != database


@pytest.mark.parametrize(
    "words",
    [
        ("worker", "--until-idle"),
        ("compact", "1"),
        ("ask", "what was said?"),
        ("doctor", "--later", "scan"),
        ("doctor", "--apply"),
        ("prune", "--older-than", "1d", "--apply", "--confirm", "delete"),
        ("redact", "x", "--apply", "--confirm", "redact"),
        ("status",),
        ("grep", "x"),
    ],
)
def test_a_mistyped_path_is_named_and_no_database_is_made(tmp_path: Path, words: tuple[str, ...]) -> None:
    mistyped = tmp_path / "folder" / "lmc.db"
    done = run_here(*words, "--database", mistyped)
    assert done.returncode == DATABASE, done.stdout
    assert f"there is no database at {mistyped}" in done.stderr
    assert list(tmp_path.iterdir()) == []
