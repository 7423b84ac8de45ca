"""What a person types while Claude Code works: a message of the turn that took it up, once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from fakes.shell import run_here
from imported_store import Imported, asides, words
from session_logs import ClaudeLog

from lcm_plugin import Engine, Session
from lcm_plugin.interchange.export.html import write_page
from lcm_plugin.interchange.export.markdown import write_markdown
from lcm_plugin.messages.parts import rebuild
from lcm_plugin.sessions.names import named

KEY = "agent:claude-code:s1"
WORDS = "stop, use host pine-42"
IMAGE = {
    "type": "image",
    "source": {
        "type": "base64",
        "media_type": "image/png",
        "data": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
    },
}


def interrupted(path: Path, attached: Any = WORDS, *, answered: bool = True, **about: Any) -> Path:
    """A turn in the middle of which something was queued. ``attached`` is what the attachment holds, if there is one."""
    log = ClaudeLog(path)
    log.user("Move the tables")
    log.call("toolu_1")
    log.queue("enqueue", WORDS)
    log.queue("remove", WORDS, reason="absorbed_mid_turn")
    log.result("toolu_1")
    if attached is not None:
        log.queued(attached, **about)
    if answered:
        log.assistant("Moving them to pine-42.")
    return path


def test_queued_words_are_one_message_between_the_result_and_the_answer(
    imported: Imported, tmp_path: Path
) -> None:
    report = imported.bring(interrupted(tmp_path / "s1.jsonl"))
    rows = imported.active(KEY)
    assert [text for text in words(rows) if text] == ["Move the tables", WORDS, "Moving them to pine-42."]
    roles = [(row.head.role, bool(row.head.answers)) for row in rows if not row.head.hidden]
    assert roles == [
        ("user", False),
        ("assistant", False),
        ("user", True),
        ("user", False),
        ("assistant", False),
    ]
    assert "pine-42" not in str(asides(rows))
    assert dict(report.repeats) == {"queue-operation": 2}


def test_queued_images_come_with_the_words(imported: Imported, tmp_path: Path) -> None:
    prompt = [{"type": "text", "text": WORDS}, IMAGE]
    report = imported.bring(interrupted(tmp_path / "s1.jsonl", prompt))
    (row,) = [row for row in imported.active(KEY) if WORDS in str(rebuild(row)["content"])]
    assert imported.engine.library.whole(row)["content"] == prompt
    assert report.total("images") == 1


def test_other_command_modes_stay_records(imported: Imported, tmp_path: Path) -> None:
    imported.bring(interrupted(tmp_path / "s1.jsonl", commandMode="task-notification"))
    assert [text for text in words(imported.active(KEY)) if text] == [
        "Move the tables",
        "Moving them to pine-42.",
    ]
    assert any("queued_command" in str(block) for _, block in asides(imported.active(KEY)))


def test_words_that_only_the_queue_holds_stand_before_the_answer(imported: Imported, tmp_path: Path) -> None:
    imported.bring(interrupted(tmp_path / "s1.jsonl", None))
    assert [text for text in words(imported.active(KEY)) if text] == [
        "Move the tables",
        WORDS,
        "Moving them to pine-42.",
    ]


def test_a_log_that_grows_has_the_words_once(imported: Imported, tmp_path: Path) -> None:
    path = interrupted(tmp_path / "whole" / "s1.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    growing = tmp_path / "s1.jsonl"
    for count in range(1, len(lines) + 1):
        growing.write_bytes(b"".join(lines[:count]))
        imported.bring(growing)
    assert [text for text in words(imported.active(KEY)) if text] == [
        "Move the tables",
        WORDS,
        "Moving them to pine-42.",
    ]


def test_copies_of_requests_are_counted_and_kept_only_on_demand(imported: Imported, tmp_path: Path) -> None:
    log = ClaudeLog(tmp_path / "s1.jsonl")
    log.user("Look")
    log.add({"type": "api-request", "sessionId": "s1", "id": "r1"})
    log.add({"type": "api-request-blob", "sessionId": "s1", "hash": "h", "message": "Look"})
    log.record("attachment", attachment={"type": "skill_listing", "content": "- one"})
    log.record("attachment", attachment={"type": "agent_listing_delta", "added": []})
    log.record("attachment", attachment={"type": "prompt_snapshot", "prompt": "You are"})
    log.assistant("Looked.")
    report = imported.bring(log.path)
    assert dict(report.dropped) == {
        "api-request": 1,
        "api-request-blob": 1,
        "skill_listing": 1,
        "agent_listing_delta": 1,
        "prompt_snapshot": 1,
    }
    assert len(asides(imported.active(KEY))) == 1
    kept = imported.bring(log.path, keep_records=True)
    assert kept.total("new") == kept.total("hidden") == 5
    assert not kept.dropped


def test_a_summary_covers_what_came_before_left_out_records(imported: Imported, tmp_path: Path) -> None:
    long = "the tide tables of the harbour " * 30
    log = ClaudeLog(tmp_path / "s1.jsonl")
    log.user(long)
    log.assistant(long)
    log.record("attachment", attachment={"type": "prompt_snapshot", "prompt": "You are"})
    log.user("The tide tables.", isCompactSummary=True)
    log.user("go on")
    imported.bring(log.path)
    summary_id, rest = imported.context(KEY)
    assert summary_id.startswith("sum_")
    assert rest == "go on"


def test_a_title_that_a_person_gave_comes_before_one_that_a_model_made(
    imported: Imported, tmp_path: Path
) -> None:
    log = ClaudeLog(tmp_path / "s1.jsonl")
    last = log.user("Look")
    log.add({"type": "summary", "summary": "Looking", "leafUuid": last["uuid"]})
    log.add({"type": "ai-title", "aiTitle": "A look around", "sessionId": "s1"})
    log.add({"type": "custom-title", "customTitle": "Harbour", "sessionId": "s1"})
    assert imported.bring(log.path).conversations[0].title == "Harbour"


def test_an_imported_session_has_names_and_its_first_words(imported: Imported, tmp_path: Path) -> None:
    log = ClaudeLog(tmp_path / "s1.jsonl")
    log.user("Move the tables", cwd="/work/app", version="2.1.332")
    log.add({"type": "ai-title", "aiTitle": "Tables", "sessionId": "s1"})
    imported.bring(log.path)
    (row,) = imported.lane(KEY)
    assert (row.title, row.project, row.source) == ("Tables", "/work/app", "claude-code 2.1.332")
    with imported.engine.store.read() as reader:
        (shown,) = named(reader, [row])
    assert (shown.messages, shown.begins) == (1, "Move the tables")
    log.add({"type": "custom-title", "customTitle": "Harbour tables", "sessionId": "s1"})
    imported.bring(log.path)
    assert imported.lane(KEY)[0].title == "Harbour tables"


def test_records_are_counted_and_listed_as_talk_nowhere(
    open_engine: Callable[..., Engine], tmp_path: Path
) -> None:
    imported = Imported(open_engine("talk"))
    engine = imported.engine
    log = ClaudeLog(tmp_path / "s1.jsonl")
    log.record("system", subtype="turn_duration", content="tide-record")
    log.user("Move the tables")
    log.assistant("Moved.")
    report = imported.bring(log.path)
    (row,) = imported.lane(KEY)
    status = engine.command(Session(KEY), "/lcm status").data
    pieces: list[bytes] = []
    with engine.store.read() as reader:
        write_markdown(reader, pieces.append, [row], zone="UTC", now=0)
        markdown = b"".join(pieces).decode()
        pieces.clear()
        limits = partial(engine.compaction.known_limits, reader)
        write_page(reader, pieces.append, [row], engine.config, limits=limits, now=0)
        page = b"".join(pieces).decode()
    assert report.total("messages") == status["messages"] == engine.library.status().messages == 2
    assert "| messages | 2 |" in markdown
    assert " 2 as they were" in markdown
    assert " tokens in 2 items |" in markdown
    assert [line[-5:] for line in markdown.splitlines() if line.startswith("| 20")] == ["| 2 |"]
    assert "tide-record" not in markdown
    assert '"messages": 2' in page
    assert "tide-record" not in page
    assert row.message_count == 4


def test_no_command_counts_records_as_talk(tmp_path: Path) -> None:
    log = ClaudeLog(tmp_path / "s1.jsonl")
    log.record("system", subtype="turn_duration", content="tide-record")
    log.user("Move the tables")
    log.assistant("Moved.")
    database = tmp_path / "lcm.db"
    run_here("import", log.path, "--apply", "-d", database)
    assert "· 2 messages as they were ·" in run_here("tree", "1", "-d", database).stdout
    items = run_here("context", "1", "-d", database).stdout
    assert [items.count(f"\t{what}\t") for what in ("record", "user", "assistant")] == [2, 1, 1]
    pages = [(name, run_here("export", "-o", tmp_path / name, "-d", database)) for name in ("a.md", "a.html")]
    assert all(f"/{name}: 1 conversation, 2 messages, " in done.stderr + done.stdout for name, done in pages)
    rows = run_here("export", "-o", tmp_path / "a.jsonl", "-d", database)
    assert "1 conversation, 2 messages and 2 records, " in rows.stderr + rows.stdout
