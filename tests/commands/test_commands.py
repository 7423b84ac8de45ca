"""``/lcm`` as a chat user types it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from databases import RawDatabase
from histories import SETTINGS, talk_in
from messages import assistant, user
from small_talk import Model

from lcm_plugin import Engine, Session
from lcm_plugin.commands import COMMANDS, apply_reset, is_command
from lcm_plugin.types import CommandResult, Completer, Reset

pytestmark = pytest.mark.both_stores_under_ci

OTHER = Session("agent:main:other", "run-x")


def ask(engine: Engine, session: Session, text: str) -> CommandResult:
    return engine.command(session, text)


@pytest.mark.parametrize(
    "text", ["/lcm", "/lossless", "/LCM status", "  /lcm  ", "/lcm@my_bot status", "/lcm\nhelp"]
)
def test_what_is_a_command(text: str) -> None:
    assert is_command(text)


@pytest.mark.parametrize("text", ["", "lcm", "/lcmx", "please /lcm", "/ lcm", "/losslessly"])
def test_what_is_none(text: str) -> None:
    assert not is_command(text)


def test_no_word_means_status_and_both_names_are_one(busy: Engine, session: Session) -> None:
    assert ask(busy, session, "/lcm") == ask(busy, session, "/lossless status")


def test_help_names_every_command(busy: Engine, session: Session) -> None:
    text = ask(busy, session, "/lcm help").text
    assert all(f"`/lcm {name}" in text for name in COMMANDS)


@pytest.mark.parametrize(
    ("word", "meant"), [("statsu", "status"), ("doctr", "doctor"), ("undoo", "undo"), ("backups", "backup")]
)
def test_an_unknown_word_gets_the_nearest_and_the_help_line(
    busy: Engine, session: Session, word: str, meant: str
) -> None:
    answer = ask(busy, session, f"/lcm {word}")
    assert f"`/lcm {meant}`" in answer.text
    assert "`/lcm help`" in answer.text
    assert not answer.ok
    assert answer.data["nearest"] == meant


def test_a_word_like_nothing_gets_the_help_line_only(busy: Engine, session: Session) -> None:
    answer = ask(busy, session, "/lcm `rm -rf`")
    assert "Did you mean" not in answer.text
    assert "`/lcm help`" in answer.text
    assert answer.text.count("`") % 2 == 0


@pytest.mark.parametrize("text", ["/lcm status now", "/lcm undo all", "/lcm new 1 2", "/lcm tree a b"])
def test_words_too_many_are_refused_with_the_way_to_write_it(
    busy: Engine, session: Session, text: str
) -> None:
    answer = ask(busy, session, text)
    assert not answer.ok
    assert "It is written" in answer.text


@pytest.mark.parametrize("name", list(COMMANDS))
def test_no_command_shows_another_chats_words(busy: Engine, session: Session, name: str) -> None:
    arguments = {"show": " msg_49", "grep": " orchid", "tree": ""}.get(name, "")
    answer = ask(busy, session, f"/lcm {name}{arguments}")
    shown = repr(answer.data) + answer.text.replace("orchid", "", int(name == "grep"))
    assert "orchid number" not in shown
    assert OTHER.key not in shown


@pytest.mark.parametrize("name", list(COMMANDS))
def test_an_unbound_chat_is_told_so_and_shown_nothing(busy: Engine, name: str) -> None:
    answer = ask(busy, Session(""), f"/lcm {name}")
    assert "pump" not in answer.text
    if name == "status":
        assert "not bound to a session" in answer.text
    elif COMMANDS[name].needs_session:
        assert not answer.ok
        assert "not bound to a session" in answer.text


@pytest.mark.parametrize("name", list(COMMANDS))
def test_an_ignored_session_is_told_so(
    open_engine: Callable[..., Engine], busy: Engine, session: Session, name: str
) -> None:
    engine = open_engine(ignore_session_patterns=[session.key])
    answer = ask(engine, session, f"/lcm {name}")
    assert "pump number" not in answer.text + repr(answer.data)
    if COMMANDS[name].needs_session or name == "status":
        assert "ignored" in answer.text


# -- status


def test_status_says_all_that_matters(busy: Engine, session: Session) -> None:
    data = ask(busy, session, "/lcm status").data
    own = data["session"]
    assert (data["messages"], data["conversations"], data["enabled"], data["selected_by_host"]) == (
        54,
        2,
        True,
        None,
    )
    assert own["messages"] == 48
    assert own["raw_messages"] + own["covered_messages"] == 48
    assert own["context_tokens"] == sum(item.tokens for item in busy.context_items(session))
    assert own["frontier"] == next(item.id for item in busy.context_items(session) if item.kind == "message")
    covered = busy.messages(session)[: own["covered_messages"]]
    assert own["covered_tokens"] == sum(busy.count_tokens(m) for m in covered)
    assert own["compression_ratio"] == round(own["covered_tokens"] / own["summary_tokens"], 1)
    assert own["compaction"]["state"] == "done"
    assert own["guards"]["paused_models"] == []
    assert data["last_error"] is None


@pytest.mark.sqlite_only
def test_status_says_how_far_the_index_is_behind(busy: Engine, session: Session) -> None:
    assert ask(busy, session, "/lcm status").data["index"]["message_lag"] == 54
    ask(busy, session, "/lcm grep pump")
    assert ask(busy, session, "/lcm status").data["index"]["message_lag"] == 0


def test_status_reckons_with_the_model_calls_of_the_session(busy: Engine, session: Session) -> None:
    before = ask(busy, session, "/lcm status").data["session"]
    assert (before["budget"], before["threshold_tokens"]) == (128_000, 96_000)
    busy.schedule_compaction(session, 64_000, overhead_tokens=3_000, model="m")
    now = ask(busy, session, "/lcm status").data["session"]
    assert (now["budget"], now["threshold_tokens"]) == (64_000, 45_750)
    other = Session("agent:main:other")
    busy.ingest(other, [{"role": "user", "content": "hello"}])
    assert ask(busy, other, "/lcm status").data["session"]["budget"] == 128_000


def test_status_tells_whether_the_host_really_uses_it(busy: Engine, session: Session) -> None:
    assert "no host has asked" in ask(busy, session, "/lcm").text
    busy.selected_by_host = False
    assert "**not used by the host**" in ask(busy, session, "/lcm").text
    busy.selected_by_host = True
    assert "used by the host" in ask(busy, session, "/lcm").text


def test_status_shows_the_newest_trouble_of_this_session_only(
    busy: Engine, session: Session, clock: Any
) -> None:
    busy.events.emit("compaction.failed", level=30, session_key=OTHER.key, error="someone else's trouble")
    assert "since the start" in ask(busy, session, "/lcm").text
    clock.forward(60_000)
    busy.events.emit("summary.rejected", level=30, session_key=session.key, reason="an *echo*")
    clock.forward(60_000)
    busy.events.emit("compaction.pass", level=20, session_key=session.key, reason="not a trouble")
    text = ask(busy, session, "/lcm").text
    assert "a model's summary was not accepted (reason an \\*echo\\*)" in text
    assert "was not accepted" in ask(busy, Session("", session.id), "/lcm").text
    assert "someone else" not in text
    busy.events.emit("search.index_broken", level=40, error="of the whole database")
    assert "of the whole database" in ask(busy, session, "/lcm").text


def test_status_shows_debt_with_reason_and_next_try(busy: Engine, session: Session, clock: Any) -> None:
    number = ask(busy, session, "/lcm").data["session"]["conversation_id"]
    with busy.store.write() as writer:
        writer.request_compaction(number, "over_threshold", 9_000, clock())
        writer.claim_debt(number, "me", clock(), 1_000)
        writer.settle_debt(
            number,
            "me",
            "failed",
            clock(),
            reason="model_failed",
            error="no | answer",
            next_attempt_at=clock() + 120_000,
        )
    answer = ask(busy, session, "/lcm status")
    assert answer.data["session"]["compaction"]["next_attempt_at"] == clock() + 120_000
    assert "failed, because of model failed" in answer.text
    assert "next try 2026-" in answer.text
    assert "no \\| answer" in answer.text
    assert answer.data["session"]["budget"] == 9_000


@pytest.mark.parametrize(
    ("model", "settings", "cause", "text"),
    [
        (lambda request: "", {}, "rejected", "since no model's text was a usable summary"),
        (
            Model(),
            {"summary_max_calls_per_window": 1},
            "calls_used_up",
            "since the session's summary calls were used up",
        ),
    ],
)
def test_status_names_why_summaries_were_extracted(
    open_engine: Callable[..., Engine],
    session: Session,
    model: Completer,
    settings: dict[str, int],
    cause: str,
    text: str,
) -> None:
    engine = open_engine(completer=model, **SETTINGS, **settings)
    talk_in(engine, session, 24)
    engine.compact(session, budget=1_000)
    status = ask(engine, session, "/lcm status")
    data = status.data["session"]
    assert data["fallback_causes"] == {cause: data["fallback_summaries"]}
    assert data["fallback_summaries"] > 0
    assert f"by extraction, {text}" in status.text
    assert "no model answered" not in status.text


def test_status_counts_fallback_summaries_and_resting_models(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    def broken(request: object) -> str:
        raise RuntimeError("the model is down")

    engine = open_engine(completer=broken, **SETTINGS)
    talk_in(engine, session, 24)
    engine.compact(session, force=True, budget=1_000)
    answer = ask(engine, session, "/lcm status")
    assert answer.data["session"]["fallback_summaries"] > 0
    assert "by extraction, since no model answered" in answer.text
    assert answer.data["session"]["guards"]["paused_models"]
    assert "rests until" in answer.text
    assert answer.data["last_error"] is not None


def test_reading_commands_write_nothing(busy: Engine, session: Session, tmp_path: Path) -> None:
    ask(busy, session, "/lcm grep pump")
    watcher = sqlite3.connect(tmp_path / "lcm.db")
    before = watcher.execute("PRAGMA data_version").fetchone()
    for text in (
        "/lcm",
        "/lcm help",
        "/lcm tree",
        "/lcm show msg_1",
        "/lcm new 0",
        "/lcm reset",
        "/lcm config",
        "/lcm doctor",
    ):
        assert ask(busy, session, text).ok, text
    assert watcher.execute("PRAGMA data_version").fetchone() == before
    watcher.close()


# -- what happens in one of four words


def test_compact_says_done_and_then_noop(open_engine: Callable[..., Engine], session: Session) -> None:
    engine = open_engine(**SETTINGS)
    talk_in(engine, session, 20)
    first, second = ask(engine, session, "/lcm compact"), ask(engine, session, "/lcm compact")
    assert (first.data["outcome"], second.data["outcome"]) == ("done", "noop")
    assert first.text.startswith("Compacted")
    assert second.text.startswith("There was nothing to compact")
    assert first.ok
    assert second.ok


def test_compact_says_deferred_when_another_worker_has_the_lease(
    open_engine: Callable[..., Engine], session: Session, clock: Any
) -> None:
    engine = open_engine(**SETTINGS)
    talk_in(engine, session, 20)
    with engine.store.write() as writer:
        writer.claim_debt(1, "another process", clock(), 60_000)
    answer = ask(engine, session, "/lcm compact")
    assert answer.data["outcome"] == "deferred"
    assert answer.ok


def test_undo_says_done_and_then_noop(busy: Engine, session: Session) -> None:
    before = busy.context_items(session)
    apply_reset(busy, Reset(session, "new"))
    assert "`/lcm undo`" in ask(busy, session, "/lcm").text
    assert ask(busy, session, "/lcm undo").data == {"outcome": "done", "restored": len(before)}
    assert busy.context_items(session) == before
    again = ask(busy, session, "/lcm undo")
    assert again.data == {"outcome": "noop", "restored": 0}
    assert "nothing to undo" in again.text


def test_previews_do_nothing(busy: Engine, session: Session) -> None:
    before = busy.context_items(session)
    for text in ("/lcm new", "/lcm new 0", "/lcm new -1", "/lcm reset"):
        assert ask(busy, session, text).data["outcome"] == "noop"
    assert busy.context_items(session) == before
    assert not ask(busy, session, "/lcm new many").ok
    assert not ask(busy, session, "/lcm new -2").ok


def test_a_preview_and_the_real_new_agree(busy: Engine, session: Session) -> None:
    preview = ask(busy, session, "/lcm new 0").data
    done = apply_reset(busy, Reset(session, "new", 0)).data
    assert {**preview, "outcome": ""} == {**done, "outcome": ""}
    assert done["outcome"] == "done"


def test_new_says_when_nothing_is_carried_over_and_why(busy: Engine, session: Session) -> None:
    deep = apply_reset(busy, Reset(session, "new", 7)).text
    assert "Nothing is carried over: only summaries of depth 7 or more would be" in deep
    assert "the deepest one has depth 1" in deep
    empty = Session("agent:main:fresh")
    busy.ingest(empty, [user("hi"), assistant("hello")])
    assert "no summaries yet" in apply_reset(busy, Reset(empty, "new")).text
    assert "There was nothing in the context." in apply_reset(busy, Reset(empty, "new")).text


def test_reset_says_what_was_archived_and_then_that_there_is_nothing(busy: Engine, session: Session) -> None:
    first = apply_reset(busy, Reset(session, "reset"))
    assert first.data["messages"] == 48
    second = apply_reset(busy, Reset(session, "reset"))
    assert second.data["outcome"] == "noop"
    assert "nothing to reset" in second.text


def test_doctor_finds_nothing_and_finds_a_broken_context(
    busy: Engine, session: Session, raw_database: Callable[..., RawDatabase]
) -> None:
    assert ask(busy, session, "/lcm doctor").data["healthy"]
    raw_database().change("UPDATE conversations SET raw_tokens = raw_tokens + 5 WHERE conversation_id = 1")
    answer = ask(busy, session, "/lcm doctor")
    assert answer.data["findings"]
    assert "Nothing was changed" in answer.text


@pytest.mark.sqlite_only
def test_backup_writes_a_copy_that_opens(busy: Engine, session: Session) -> None:
    answer = ask(busy, session, "/lcm backup")
    assert answer.data["outcome"] == "done"
    with sqlite3.connect(answer.data["path"]) as copy:
        assert copy.execute("SELECT count(*) FROM messages").fetchone() == (54,)
    copy.close()
    assert Path(answer.data["path"]).stat().st_mode & 0o777 == 0o600


@pytest.mark.sqlite_only
def test_backup_fails_clearly_when_the_place_is_taken(busy: Engine, session: Session) -> None:
    assert ask(busy, session, "/lcm backup").ok
    answer = ask(busy, session, "/lcm backup")
    assert answer.data["outcome"] == "failed"
    assert "exists already" in answer.text


# -- reading


def test_the_tree_draws_every_summary_of_the_context(busy: Engine, session: Session) -> None:
    answer = ask(busy, session, "/lcm tree")
    refs = [item.id for item in busy.context_items(session) if item.kind == "summary"]
    assert refs
    assert all(ref in answer.text for ref in refs)
    assert "└─" in answer.text
    one = ask(busy, session, f"/lcm tree {refs[0]}")
    assert one.data["tree"][0]["id"] == refs[0]
    assert one.data["tree"][0]["below"]


@pytest.mark.long
@pytest.mark.sqlite_only
def test_a_huge_tree_stays_on_a_screen(open_engine: Callable[..., Engine], session: Session) -> None:
    engine = open_engine(**{**SETTINGS, "leaf_chunk_tokens": 120})
    talk_in(engine, session, 150)
    engine.compact(session, force=True, budget=2_000)
    assert len(ask(engine, session, "/lcm tree").text.splitlines()) < 60


def test_a_foreign_or_unknown_summary_is_not_drawn(busy: Engine, session: Session) -> None:
    ref = next(item.id for item in busy.context_items(session) if item.kind == "summary")
    foreign = ask(busy, OTHER, f"/lcm tree {ref}")
    unknown = ask(busy, OTHER, f"/lcm tree sum_{'0' * 16}")
    assert foreign.text.replace(ref, "") == unknown.text.replace(f"sum_{'0' * 16}", "")


def test_show_is_word_for_word_and_cannot_be_broken_out_of(engine: Engine, session: Session) -> None:
    nasty = "before\n```\n**bold** [link](http://x)\n````\nafter"
    engine.ingest(session, [user(nasty)])
    text = ask(engine, session, "/lcm show msg_1").text
    assert f"\n`````\n{nasty}\n`````" in text


def test_show_pages_a_long_text(open_engine: Callable[..., Engine], session: Session) -> None:
    engine = open_engine(max_expand_tokens=200)
    long = " ".join(f"word{number}" for number in range(2_000))
    engine.ingest(session, [user(long)])
    shown, text = "", "/lcm show msg_1"
    for _ in range(100):
        answer = ask(engine, session, text)
        shown += answer.data["content"]
        if "next_offset" not in answer.data:
            break
        assert f"`/lcm show msg_1 {answer.data['next_offset']}`" in answer.text
        text = f"/lcm show msg_1 {answer.data['next_offset']}"
    assert shown == long


@pytest.mark.parametrize(
    "text", ["/lcm show", "/lcm show msg_999", "/lcm show nonsense", "/lcm show msg_1 x", "/lcm grep"]
)
def test_a_bad_request_to_read_is_answered(busy: Engine, session: Session, text: str) -> None:
    answer = ask(busy, session, text)
    assert not answer.ok
    assert answer.data["outcome"] == "failed"
    assert answer.text


def test_grep_finds_what_was_summarised_away(busy: Engine, session: Session) -> None:
    answer = ask(busy, session, "/lcm grep pump number 3 lifts")
    assert answer.data["hits"]
    assert answer.data["hits"][0]["id"] in answer.text
    nothing = ask(busy, session, "/lcm grep xylophone")
    assert nothing.data["outcome"] == "noop"
    assert nothing.ok


# -- settings


def test_config_shows_value_source_and_range_of_every_setting(
    open_engine: Callable[..., Engine], session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LCM_LEAF_CHUNK_TOKENS", "12345")
    engine = open_engine(fresh_tail_count=9)
    rows = {row["key"]: row for row in ask(engine, session, "/lcm config").data["settings"]}
    assert len(rows) == len(type(engine.config).model_fields)
    assert (rows["leafChunkTokens"]["value"], rows["leafChunkTokens"]["source"]) == (12_345, "environment")
    assert (rows["freshTailCount"]["value"], rows["freshTailCount"]["source"]) == (9, "argument")
    assert rows["timezone"]["source"] == "default"
    assert rows["hardThreshold"]["allowed"] == "a number, above 0 and at most 1"
    table = ask(engine, session, "/lcm config").text.splitlines()
    assert len(table) == len(rows) + 2
    assert all(line.replace("\\|", "").count("|") == 5 for line in table)


def test_config_masks_passwords(open_engine: Callable[..., Engine], session: Session) -> None:
    engine = open_engine(summary_base_url="https://me:hunter2@models.example/v1?api_key=sk-secret&x=1")
    answer = ask(engine, session, "/lcm config")
    assert "hunter2" not in answer.text + repr(answer.data)
    assert "sk-secret" not in answer.text + repr(answer.data)
    assert "models.example" in answer.text


@pytest.mark.parametrize(
    "word", ["contextThreshold", "context_threshold", "LCM_CONTEXT_THRESHOLD", "CONTEXTTHRESHOLD"]
)
def test_one_setting_by_any_spelling(busy: Engine, session: Session, word: str) -> None:
    answer = ask(busy, session, f"/lcm config {word}")
    assert answer.data["key"] == "contextThreshold"
    assert "above 0 and at most 1" in answer.text


def test_an_unknown_setting_gets_the_nearest(busy: Engine, session: Session) -> None:
    answer = ask(busy, session, "/lcm config contextThreshhold")
    assert "did you mean 'contextThreshold'" in answer.text
    assert not answer.ok
