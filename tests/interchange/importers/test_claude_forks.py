"""Forks of Claude Code's sessions: copies under equal ids are stored once."""

from __future__ import annotations

import json
from pathlib import Path

from imported_store import Imported, words
from session_logs import ClaudeLog


def key(name: str) -> str:
    return f"agent:claude-code:{name}"


def copied(log: ClaudeLog, into: str, *, marked: bool) -> ClaudeLog:
    """A new session that begins with a session's records, and says so or not."""
    fork = ClaudeLog(log.path.with_name(f"{into}.jsonl"), log.second)
    for line in log.path.read_text().splitlines():
        record = json.loads(line)
        mark = {"forkedFrom": {"sessionId": log.path.stem, "messageUuid": record["uuid"]}} if marked else {}
        fork.last = fork.add({**record, "sessionId": into, **mark})["uuid"]
    return fork


def test_a_marked_fork_holds_only_what_is_new(imported: Imported, tmp_path: Path) -> None:
    log = ClaudeLog(tmp_path / "zz.jsonl")
    log.user("map the harbour")
    log.assistant("Mapped.")
    fork = copied(log, "aa", marked=True)
    log.user("mark the cranes")
    fork.user("mark the ships")
    first, second = imported.bring_all(tmp_path)
    assert (Path(first.path).stem, Path(second.path).stem) == ("zz", "aa")
    assert words(imported.active(key("zz"))) == ["map the harbour", "Mapped.", "mark the cranes"]
    assert words(imported.active(key("aa"))) == ["mark the ships"]
    assert second.conversations[0].forked_from == (key("zz"),)


def test_a_fork_that_does_not_say_so_is_known_by_its_ids(imported: Imported, tmp_path: Path) -> None:
    log = ClaudeLog(tmp_path / "zz.jsonl")
    log.user("map the harbour")
    log.assistant("Mapped.")
    fork = copied(log, "aa", marked=False)
    imported.bring(log.path)
    log.user("mark the cranes")
    fork.user("mark the ships")
    imported.bring_all(tmp_path)
    assert words(imported.active(key("zz"))) == ["map the harbour", "Mapped.", "mark the cranes"]
    assert words(imported.active(key("aa"))) == ["mark the ships"]
    assert [report.total("new") for report in imported.bring_all(tmp_path)] == [0, 0]


def test_a_fork_of_a_fork_is_new_only_where_it_is_new(imported: Imported, tmp_path: Path) -> None:
    log = ClaudeLog(tmp_path / "a.jsonl")
    log.user("map the harbour")
    second = copied(log, "b", marked=True)
    second.user("mark the cranes")
    third = copied(second, "c", marked=True)
    third.user("mark the ships")
    imported.bring_all(tmp_path)
    assert [words(imported.active(key(name))) for name in "abc"] == [
        ["map the harbour"],
        ["mark the cranes"],
        ["mark the ships"],
    ]


def test_a_last_line_that_is_being_written_is_left_for_the_next_import(
    imported: Imported, tmp_path: Path
) -> None:
    log = ClaudeLog(tmp_path / "s1.jsonl")
    log.user("one")
    whole = log.path.read_bytes()
    log.user("two")
    both = log.path.read_bytes()
    log.path.write_bytes(both[: len(whole) + 30])
    (report,) = imported.bring_all(tmp_path)
    assert (report.unfinished, report.broken_count) == (2, 0)
    assert imported.context(key("s1")) == ["one"]
    log.path.write_bytes(both)
    (report,) = imported.bring_all(tmp_path)
    assert report.unfinished == 0
    assert imported.context(key("s1")) == ["one", "two"]


def test_a_broken_line_in_the_middle_is_still_one(imported: Imported, tmp_path: Path) -> None:
    log = ClaudeLog(tmp_path / "s1.jsonl")
    log.user("one")
    with log.path.open("a") as file:
        file.write('{"type": \n')
    log.user("two")
    report = imported.bring(log.path)
    assert (report.unfinished, report.broken_count) == (0, 1)
