"""``lcm replay``, run as a person runs it."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import time
from pathlib import Path

import pytest
from fakes.processes import Running
from fakes.shell import Done, program, run_here, run_program
from replayed import INCIDENT, Replayed
from waiting import eventually


def lcm(*arguments: str | Path, stdin: str = "") -> Done:
    return run_here(*arguments, stdin=stdin)


def replayed(*arguments: str | Path, stdin: str = "") -> dict:
    done = lcm("replay", *arguments, "--json", stdin=stdin)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def jsonl(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def summary_ids(database: Path) -> list[tuple]:
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        return connection.execute("select summary_id, content from summaries order by summary_id").fetchall()


@pytest.mark.long
def test_the_incident_stays_bounded_and_nothing_is_lost(incident: Replayed) -> None:
    report = incident.report
    assert report["recovered"] == report["messages"] == 591
    assert report["context_tokens_max"] <= report["budget"] == 16_000
    assert report["context_tokens_final"] < 0.7 * report["tokens_in"]
    assert report["invalid_contexts"] == report["over_budget_contexts"] == 0
    assert len(report["summaries_by_depth"]) >= 2
    assert report["balanced"]
    assert report["recovered_through_summaries"] > 400
    assert report["seconds"] > 0


@pytest.mark.long
def test_a_second_run_makes_the_same_summaries(incident: Replayed, tmp_path: Path) -> None:
    database = incident.database
    replayed(INCIDENT, "--budget", "16000", "--database", tmp_path / "b.db")
    assert summary_ids(database) == summary_ids(tmp_path / "b.db") != []


def test_a_finished_replay_can_be_run_again_and_stores_nothing_twice(incident: Replayed) -> None:
    database, first = incident.database, incident.report
    again = replayed(INCIDENT, "--database", database)
    assert (again["resumed_at"], again["turns"], again["recovered"]) == (591, 0, 591)
    assert again["summaries_by_depth"] == first["summaries_by_depth"]


@pytest.mark.long
def test_killed_at_any_point_it_goes_on_and_stores_every_message_once(tmp_path: Path) -> None:
    database = tmp_path / "a.db"
    lucky = random.Random(11)
    stored: list[int] = []
    for _ in range(5):
        running = Running(*program("replay", INCIDENT, "--database", database)[1:])
        before = stored[-1] if stored else 0
        eventually(lambda: running.poll() is not None or message_count(database) > before)  # noqa: B023
        time.sleep(lucky.uniform(0, 0.3))
        running.send_signal(signal.SIGKILL)
        assert running.wait() == -signal.SIGKILL
        stored.append(message_count(database))
    report = replayed(INCIDENT, "--database", database)
    assert stored == sorted(stored)
    assert report["resumed_at"] == stored[-1] > 0
    assert report["recovered"] == message_count(database) == 591
    assert report["extra_messages"] == 0


def message_count(database: Path) -> int:
    try:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=5) as connection:
            return connection.execute("select count(*) from messages").fetchone()[0]
    except sqlite3.OperationalError:
        return 0


def test_standard_input_and_several_files_are_one_session(tmp_path: Path) -> None:
    rows = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    path = jsonl(tmp_path / "a.jsonl", *rows)
    assert replayed("-", stdin=json.dumps(rows))["recovered"] == 2
    assert replayed(path, path)["recovered"] == 4


def test_without_a_database_nothing_is_left_behind(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", {"role": "user", "content": "hello"})
    environment = {**os.environ, "TMPDIR": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data")}
    done = run_program("replay", path, environment=environment)
    assert done.returncode == 0, done.stderr
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.jsonl"]


def test_the_report_for_people_shows_figures_tree_and_proof(incident: Replayed) -> None:
    database = incident.database
    done = lcm("replay", INCIDENT, "--budget", "16000", "--database", database)
    assert (done.returncode, done.stderr) == (0, "")
    for text in ("591 messages", "of 16,000 tokens", "sum_", "/lcm", "591 of 591 messages came back"):
        assert text in done.stdout
    assert "\x1b" not in done.stdout


GOOD = {"role": "user", "content": "hello"}


@pytest.mark.parametrize(
    ("rows", "extra", "complaint"),
    [
        (json.dumps(GOOD) + "\n" + '{"role": ', (), "a.jsonl, line 2: broken JSON"),
        (json.dumps(GOOD) + "\n" + '{"content": "x"}', (), "a.jsonl, line 2: a message without role"),
        (
            json.dumps({"role": "user", "content": "word " * 500}),
            ("--budget", "300"),
            "does not fit a budget of 300",
        ),
    ],
)
def test_bad_input_is_one_line_and_leaves_no_state(
    tmp_path: Path, rows: str, extra: tuple[str, ...], complaint: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(rows, encoding="utf-8")
    done = lcm("replay", path, "--database", tmp_path / "a.db", *extra)
    assert (done.returncode, done.stdout) == (2, "")
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "a.db").exists()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    done = lcm("replay", tmp_path / "gone.jsonl")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "gone.jsonl: No such file or directory" in done.stderr


def test_a_database_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("in the way")
    path = jsonl(tmp_path / "a.jsonl", GOOD)
    done = lcm("replay", path, "--database", place / "a.db")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert str(place) in done.stderr


def test_a_session_that_holds_something_else_is_not_mixed_up(tmp_path: Path) -> None:
    first = jsonl(tmp_path / "a.jsonl", GOOD)
    other = jsonl(tmp_path / "b.jsonl", {"role": "user", "content": "something else"})
    replayed(first, "--database", tmp_path / "a.db")
    done = lcm("replay", other, "--database", tmp_path / "a.db")
    assert done.returncode == 2
    assert "holds another conversation" in done.stderr
    assert message_count(tmp_path / "a.db") == 1


def test_a_session_that_the_settings_ignore_is_named(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", GOOD)
    done = run_here("replay", path, environment={"LCM_IGNORE_SESSION_PATTERNS": "agent:replay:*"})
    assert (done.returncode, done.stdout) == (2, "")
    assert "do not let session 'agent:replay:main' be stored" in done.stderr
