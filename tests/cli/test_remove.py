"""``lcm prune`` and ``lcm redact``, up to the last byte on the disk."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest
from fakes.shell import run_here
from messages import assistant, call, result, user

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.maintenance.backup import remove_copy
from lcm_plugin.store.side_file import side_path
from lcm_plugin.store.waiting import WaitingFile

KEY = "agent:main:main"
LANE = Session(KEY, "run-1")
SECRET = 'pa"ss-Hunter2-ümlaut'
TOKEN = "ghp_R4nd0mT0kenForTests9"
TOKEN_PATTERN = "ghp_[A-Za-z0-9]{16,}"


def fill(folder: Path, *, turns: int = 14, secret: str = TOKEN) -> Path:
    """A database with the secret in a text, a call, a result, a payload, an attached file, a summary, an index."""
    database = folder / "lcm.db"
    config = LcmConfig(
        database=str(database),
        fresh_tail_count=2,
        leaf_chunk_tokens=400,
        leaf_min_fanout=2,
        large_file_token_threshold=1_000,
    )
    log = "\n".join(f"line {n} of a log" for n in range(700))
    with Engine.open(config) as engine:
        for number in range(turns):
            engine.ingest(
                LANE,
                [
                    user(f"question {number} " + "and so on " * 20),
                    assistant(f"answer {number} " + "so " * 40),
                ],
            )
        engine.ingest(
            LANE,
            [
                user(f"My access key: {secret} is what you need."),
                call("c1", "login", json.dumps({"key": secret})),
                result("c1", f"logged in with {secret}"),
                assistant(None, reasoning_content=f"The key {secret} works", tool_calls=[]),
                user(f"{log}\n{secret}\n{log}"),
                assistant("fine"),
            ],
        )
        for number in range(8):
            engine.ingest(LANE, [user(f"more {number} " + "and on " * 30), assistant(f"well {number} " * 20)])
        engine.compact(LANE, force=True)
        assert engine.call_tool(LANE, "lcm_grep", {"pattern": "question"})["hits"]
    return database


def holding(folder: Path, secret: str) -> list[str]:
    """The files whose bytes hold the secret, as it is or as JSON writes it, whole or in its longest word."""
    longest = max(re.findall(r"[A-Za-z0-9]+", secret), key=len)
    forms = {secret.encode(), json.dumps(secret)[1:-1].encode(), longest.lower().encode()}
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and any(form in path.read_bytes() for form in forms)
    )


def data_of(*words: object) -> Any:
    done = run_here(*words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_redact_shows_where_a_secret_is_and_changes_nothing(tmp_path: Path) -> None:
    database = fill(tmp_path)
    before = database.read_bytes()
    done = run_here("redact", TOKEN_PATTERN, "--database", database)
    assert done.returncode == 0, done.stderr
    assert "nothing was changed" in done.stdout
    assert TOKEN not in done.stdout + done.stderr
    assert database.read_bytes() == before
    found = data_of("redact", TOKEN_PATTERN, "--database", database)
    assert (found["applied"], found["messages"], found["files"]) == (False, 5, 1)
    assert found["summaries"] >= 1


@pytest.mark.long
def test_redact_leaves_no_byte_of_it_in_database_log_payloads_and_copies(tmp_path: Path) -> None:
    database = fill(tmp_path)
    assert run_here("backup", "--database", database).returncode == 0
    assert len(holding(tmp_path, TOKEN)) >= 3
    done = data_of("redact", TOKEN_PATTERN, "--apply", "--confirm", "redact", "--database", database)
    assert done["messages"] == 5
    assert [copy["state"] for copy in done["copies"]] == ["rewritten"]
    assert holding(tmp_path, TOKEN) == []
    assert data_of("doctor", "--database", database)["ok"]
    for path in (database, *tmp_path.glob("*.bak")):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with sqlite3.connect(path) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert connection.execute("SELECT count(*) FROM message_parts").fetchone()[0] > 20
        connection.close()
    again = data_of("redact", TOKEN_PATTERN, "--database", database)
    assert (again["messages"], again["summaries"], again["files"], again["notes"]) == (0, 0, 0, 0)


def test_a_literal_secret_is_read_from_standard_input_and_found_in_json_too(tmp_path: Path) -> None:
    database = fill(tmp_path, secret=SECRET)
    assert holding(tmp_path, SECRET)
    words = ("redact", "--literal", "-", "--apply", "--confirm", "redact", "--database", database)
    done = run_here(*words, stdin=f"{SECRET}\n")
    assert done.returncode == 0, done.stderr
    assert SECRET not in done.stdout + done.stderr
    assert holding(tmp_path, SECRET) == []
    assert holding(tmp_path, "Hunter2") == []


@pytest.mark.long
@pytest.mark.parametrize(("choice", "left"), [("delete", 0), ("keep", 1)])
def test_copies_are_deleted_or_kept_when_that_is_chosen(tmp_path: Path, choice: str, left: int) -> None:
    database = fill(tmp_path, turns=4)
    assert run_here("backup", "--database", database).returncode == 0
    data_of(
        "redact", TOKEN_PATTERN, "--apply", "--confirm", "redact", "--copies", choice, "--database", database
    )
    assert len(list(tmp_path.glob("*.bak"))) == left
    assert bool(holding(tmp_path, TOKEN)) is bool(left)


def test_a_damaged_copy_is_named_and_the_rest_is_done(tmp_path: Path) -> None:
    database = fill(tmp_path, turns=4)
    (tmp_path / "lcm.db.20260101T000000Z.bak").write_bytes(b"not a database " * 99)
    done = run_here("redact", TOKEN_PATTERN, "--apply", "--confirm", "redact", "--database", database)
    assert done.returncode == 1
    assert "20260101T000000Z.bak: failed" in done.stdout
    assert holding(tmp_path, TOKEN) == []


@pytest.mark.parametrize("name", ["lcm-copy.db", "by hand"])
def test_a_database_beside_it_that_holds_the_secret_is_named(tmp_path: Path, name: str) -> None:
    """A copy by hand shares the payload files: what it needs stays, and nobody is told that all is gone."""
    database = fill(tmp_path, turns=4)
    copy = tmp_path / name
    shutil.copyfile(database, copy)
    words = ("redact", TOKEN_PATTERN, "--apply", "--confirm", "redact", "--database")
    done = run_here(*words, database)
    assert done.returncode == 1
    left = holding(tmp_path, TOKEN)
    assert name in left
    assert f"other database {copy}: holds it" in done.stdout
    (payload,) = [path for path in left if path != name]
    assert str(tmp_path / payload) in done.stdout
    told = json.loads(run_here(*words, database, "--json").stdout)
    assert [place["state"] for place in told["other_databases"]] == ["holds it"]
    done = run_here(*words, copy)
    assert done.returncode == 0, done.stdout
    assert holding(tmp_path, TOKEN) == []


def test_a_database_that_cannot_be_asked_is_named(tmp_path: Path) -> None:
    database = fill(tmp_path, turns=2)
    (tmp_path / "notes.txt").write_text(f"not a database {TOKEN}")
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(database.read_bytes()[: 3 * 4_096])
    done = run_here("redact", TOKEN_PATTERN, "--apply", "--confirm", "redact", "--database", database)
    assert done.returncode == 1
    assert f"other database {damaged}: unknown" in done.stdout
    assert "notes.txt" not in done.stdout


def waiting_file(database: Path) -> WaitingFile:
    """A file in which a batch with the secret waits to be stored, and one without it."""
    file = WaitingFile(side_path(LcmConfig(database=str(database))))
    file.add(LANE, "append", [user(f"My access key: {TOKEN} is what you need."), user("nothing")])
    file.add(LANE, "append", [user("nothing either")])
    return file


def test_what_waits_to_be_stored_is_found_and_redacted(tmp_path: Path) -> None:
    database = tmp_path / "lcm.db"
    Engine.open(LcmConfig(database=str(database))).close()
    file = waiting_file(database)
    words = ("redact", TOKEN_PATTERN, "--apply", "--confirm", "redact", "--database", database)
    seen = run_here("redact", TOKEN_PATTERN, "--database", database)
    assert f"messages that wait to be stored in {file.path}: holds it" in seen.stdout
    assert "--apply --confirm redact" in seen.stdout
    done = run_here(*words)
    assert (done.returncode, f"stored in {file.path}: rewritten" in done.stdout) == (0, True)
    assert holding(tmp_path, TOKEN) == []
    batch = file.oldest(KEY)
    assert batch is not None
    assert batch.messages == [user("My access key: [REDACTED] is what you need."), user("nothing")]
    assert file.count(KEY) == 3
    assert data_of(*words[:2], "--database", database)["waiting"][0]["state"] == "clean"


def test_what_another_process_is_just_storing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = tmp_path / "lcm.db"
    Engine.open(LcmConfig(database=str(database))).close()
    file = waiting_file(database)
    batch = file.oldest(KEY)
    assert batch is not None
    with monkeypatch.context() as patch:
        # The process that started this one: alive, and another.
        patch.setattr(os, "getpid", os.getppid)
        assert file.claim(batch, (1, 1))
    words = ("redact", TOKEN_PATTERN, "--apply", "--confirm", "redact", "--database", database)
    done = run_here(*words)
    assert done.returncode == 1
    assert f"{file.path}: failed (another process is just storing" in done.stdout


def test_a_damaged_file_of_waiting_messages_is_named(tmp_path: Path) -> None:
    database = tmp_path / "lcm.db"
    Engine.open(LcmConfig(database=str(database))).close()
    aside = tmp_path / "lcm.db.waiting.damaged-1"
    aside.write_bytes(b"pages " + TOKEN.encode())
    done = run_here("redact", TOKEN_PATTERN, "--apply", "--confirm", "redact", "--database", database)
    assert (done.returncode, f"{aside}: holds it (damaged" in done.stdout) == (1, True)


def test_redact_wants_its_word_and_one_kind_of_thing(tmp_path: Path) -> None:
    database = fill(tmp_path, turns=2)
    for words, told in (
        (("redact", TOKEN_PATTERN, "--apply"), "--confirm redact"),
        (("redact", "(", "--database", database), "no RE2 expression"),
        (("redact", "a", "b", "--database", database), "one expression"),
        (("redact", "msg_1", "--remember", "--apply", "--confirm", "redact"), "needs an expression"),
        (("redact", "--literal", "x", "--remember"), "into the settings"),
    ):
        done = run_here(*words)
        assert done.returncode == 2, words
        assert told in done.stderr
    missing = run_here("redact", "msg_99999", "--database", database)
    assert missing.returncode == 3


def test_remember_puts_the_expression_into_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "settings" / "config.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"redactPatterns": ["old-[0-9]+"]}))
    monkeypatch.setenv("LCM_CONFIG", str(settings))
    database = fill(tmp_path, turns=2)
    done = data_of(
        "redact", TOKEN_PATTERN, "--apply", "--confirm", "redact", "--remember", "--database", database
    )
    assert done["remembered_in"] == str(settings)
    assert json.loads(settings.read_text())["redactPatterns"] == ["old-[0-9]+", TOKEN_PATTERN]


def test_redact_by_id_blanks_a_message_and_names_the_summaries_above(tmp_path: Path) -> None:
    database = fill(tmp_path)
    done = data_of("redact", "msg_1-msg_2", "--apply", "--confirm", "redact", "--database", database)
    assert done["messages"] == 2
    assert done["summaries_above"]
    shown = run_here("show", "msg_1", "--database", database)
    assert "[REDACTED]" in shown.stdout
    assert "question 0" not in shown.stdout
    assert data_of("doctor", "--database", database)["ok"]


def archived(tmp_path: Path) -> Path:
    database = fill(tmp_path)
    with Engine.open(LcmConfig(database=str(database))) as engine:
        engine.reset_session(LANE)
        engine.ingest(LANE, [user("present words"), assistant("yes")])
    return database


def test_prune_shows_first_and_removes_after_a_checked_copy(tmp_path: Path) -> None:
    database = archived(tmp_path)
    before = database.read_bytes()
    shown = run_here("prune", "--kind", "archived", "--database", database)
    assert shown.returncode == 0, shown.stderr
    assert "nothing was removed" in shown.stdout
    assert database.read_bytes() == before
    planned = data_of("prune", "--kind", "archived", "--database", database)
    assert planned["messages"] == 50
    done = data_of("prune", "--kind", "archived", "--apply", "--confirm", "delete", "--database", database)
    assert (done["messages"], done["conversations"], done["files"]) == (50, 1, 1)
    assert done["size_after"] < done["size_before"]
    backup = Path(done["backup"])
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    with sqlite3.connect(backup) as connection:
        assert connection.execute("SELECT count(*) FROM messages").fetchone() == (52,)
    connection.close()
    remove_copy(str(backup))
    assert holding(tmp_path, TOKEN) == []
    assert data_of("doctor", "--database", database)["ok"]
    assert not [path for path in (tmp_path / "lcm-files").rglob("*") if path.is_file()]


def test_prune_keeping_summaries_says_so_where_they_are_read(tmp_path: Path) -> None:
    database = archived(tmp_path)
    words = ("--kind", "archived", "--keep-summaries", "--apply", "--confirm", "delete", "--no-backup")
    done = data_of("prune", *words, "--database", database)
    assert (done["backup"], done["messages"], done["summaries"]) == ("", 50, 0)
    assert data_of("doctor", "--database", database)["ok"]
    assert "was pruned on" in run_here("show", "msg_1", "--database", database).stdout


@pytest.mark.long
def test_what_was_removed_is_listed_and_never_what_it_was(tmp_path: Path) -> None:
    database = archived(tmp_path)
    assert data_of("removed", "--database", database) == []
    data_of("redact", TOKEN_PATTERN, "--apply", "--confirm", "redact", "--database", database)
    data_of(
        "prune", "--kind", "archived", "--apply", "--confirm", "delete", "--no-backup", "--database", database
    )
    acts = data_of("removed", "--database", database)
    assert [(act["kind"], act["messages"]) for act in acts] == [("prune", 50), ("redact", 5)]
    assert all(act["requested_by"] and act["created_at"] for act in acts)
    shown = run_here("removed", "--database", database).stdout
    assert "prune" in shown
    assert TOKEN not in shown + json.dumps(acts)


def test_prune_wants_a_choice_its_word_and_amounts_it_understands(tmp_path: Path) -> None:
    database = fill(tmp_path, turns=2)
    for words, told in (
        (("prune",), "say what is to go"),
        (("prune", "--older-than", "90d", "--apply"), "--confirm delete"),
        (("prune", "--older-than", "soon"), "'soon' is no age"),
        (("prune", "--max-size", "big"), "'big' is no size"),
        (("prune", "--kind", "old-ish"), "archived"),
    ):
        done = run_here(*words, "--database", database)
        assert done.returncode == 2, words
        assert told in done.stderr
