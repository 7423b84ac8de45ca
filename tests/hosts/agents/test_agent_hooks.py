"""The hooks of coding agents: what they store and answer, and that a host's turn never waits for them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_logs import KEY, SESSION, Log
from hypothesis import given, settings
from hypothesis import strategies as st

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.errors import StoreUnavailable
from lcm_plugin.hosts.agents.calls import HookCall
from lcm_plugin.hosts.agents.capture import Capture
from lcm_plugin.hosts.agents.hooks import DEADLINE_SECONDS, OPENING_SECONDS, Hooks
from lcm_plugin.hosts.agents.resume import MOST_CHARS, resume_pack
from lcm_plugin.messages.markup import is_resume, resume_block

EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PostToolBatch",
    "PreCompact",
    "SubagentStop",
    "Stop",
    "Unknown",
)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine.open(LcmConfig(database=str(tmp_path / "lcm.db"))) as opened:
        yield opened


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


@pytest.fixture
def hooks(engine: Engine) -> Iterator[Hooks]:
    made = Hooks("claude-code", lambda: engine)
    wait_until(lambda: made.warm)
    yield made
    made.close()


def said(engine: Engine, key: str = KEY) -> list[str]:
    """The talk of a session, without records that no model is shown."""
    messages = engine.messages(Session(key))
    texts = []
    for message in messages:
        content = message["content"]
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        texts += [block["text"] for block in blocks if block.get("type") == "text"]
    return texts


def call(event: str, log: Log, **more: str) -> HookCall:
    return HookCall.of({"event": event, "session": SESSION, "transcript": str(log.path), **more})


def wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not done():
        assert time.monotonic() < deadline
        threading.Event().wait(0.005)


def test_what_a_log_gained_is_stored_at_each_end_of_a_turn(engine: Engine, hooks: Hooks, log: Log) -> None:
    log.turn("first", "one")
    assert hooks.answer(call("Stop", log, last="one")) == {}
    wait_until(lambda: said(engine) == ["first", "one"])
    log.turn("second", "two")
    hooks.answer(call("Stop", log, last="two"))
    hooks.answer(call("Stop", log, last="two"))
    wait_until(lambda: said(engine) == ["first", "one", "second", "two"])
    hooks.close()
    assert hooks.answer(call("Stop", log)) == {}


def test_an_answer_that_is_written_late_is_waited_for(engine: Engine, log: Log) -> None:
    log.add("user", "first")
    late = log.line("assistant", [{"type": "text", "text": "a late answer"}])

    def write() -> None:
        log.write(late)

    timer = threading.Timer(0.1, write)
    timer.start()
    Capture(engine, "claude-code").store([log.path], "a late answer", 10.0)
    timer.join()
    assert said(engine) == ["first", "a late answer"]


def test_an_answer_that_never_comes_costs_no_more_than_the_wait_and_is_read_later(
    engine: Engine, log: Log
) -> None:
    log.add("user", "first")
    capture = Capture(engine, "claude-code")
    capture.store([log.path], "an answer", 0.05)
    assert said(engine) == ["first"]
    log.add("assistant", [{"type": "text", "text": "an answer"}])
    capture.store([log.path])
    assert said(engine) == ["first", "an answer"]


def test_half_a_line_is_read_when_it_is_whole(engine: Engine, log: Log) -> None:
    log.add("user", "first")
    line = log.line("assistant", [{"type": "text", "text": "in two pieces"}])
    capture = Capture(engine, "claude-code")
    for piece, wanted in ((line[:60], ["first"]), (line[60:], ["first", "in two pieces"])):
        log.write(piece)
        capture.store([log.path])
        assert said(engine) == wanted


def test_the_next_session_reads_what_the_last_one_left(engine: Engine, log: Log) -> None:
    log.add("user", "first")
    Capture(engine, "claude-code").store([log.path])
    log.add("assistant", [{"type": "text", "text": "written after the last event"}])
    assert Capture(engine, "claude-code").finish() == 1
    assert said(engine) == ["first", "written after the last event"]
    assert Capture(engine, "claude-code").finish() == 0


def test_several_processes_may_read_one_log(engine: Engine, log: Log) -> None:
    for number in range(20):
        log.turn(f"request {number}", f"answer {number}")
    captures = [Capture(engine, "claude-code") for _ in range(4)]
    threads = [threading.Thread(target=one.store, args=([log.path],)) for one in captures]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(said(engine)) == len(set(said(engine))) == 40


def test_our_own_texts_in_a_log_do_not_become_history(engine: Engine, log: Log) -> None:
    ours = resume_block("The last request: first")
    log.turn("first", "one")
    attachment = {"type": "hook_additional_context", "content": [ours], "hookEvent": "SessionStart"}
    log.add("attachment", "", attachment=attachment, message=None)
    log.add(
        "attachment", "", attachment={"type": "hook_success", "stdout": json.dumps({"a": ours})}, message=None
    )
    log.add("user", ours)
    log.turn(f"what is {ours} here?", "two")
    Capture(engine, "claude-code").store([log.path])
    assert said(engine) == ["first", "one", f"what is {ours} here?", "two"]
    with engine.store.read() as reader:
        conversation = reader.find_conversation(Session(KEY))
        assert conversation is not None
        rows = reader.messages(conversation.conversation_id, limit=50)
    held = [one.head.hidden for one in rows if "lcm-resume" in json.dumps([part.text for part in one.parts])]
    assert held == [False]


def in_time(answered: Callable[[], object], seconds: float) -> bool:
    """Whether something takes no longer, at least once in ten times: a busy machine only makes it slower."""

    def taken() -> float:
        started = time.monotonic()
        answered()
        return time.monotonic() - started

    return any(taken() < seconds for _ in range(10))


def test_a_database_that_opens_slowly_costs_a_prompt_no_more_than_its_wait(engine: Engine, log: Log) -> None:
    opening = threading.Event()

    def slow() -> Engine:
        opening.wait(300)
        return engine

    hooks = Hooks("claude-code", slow)
    log.turn("first", "one")
    prompt = call("UserPromptSubmit", log, prompt="first")
    assert hooks.answer(prompt) == {}
    assert in_time(lambda: hooks.answer(prompt), OPENING_SECONDS + 0.2)
    opening.set()
    wait_until(lambda: said(engine) == ["first", "one"])
    hooks.close()


def test_a_database_that_cannot_be_opened_breaks_no_turn(log: Log) -> None:
    def broken() -> Engine:
        raise StoreUnavailable("no such disk")

    hooks = Hooks("claude-code", broken)
    for event in EVENTS:
        assert hooks.answer(call(event, log, prompt="what was the code?", source="compact")) == {}
    hooks.close()


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=12), st.none() | st.text() | st.integers() | st.lists(st.text()), max_size=6
    )
)
def test_whatever_a_host_sends_there_is_an_answer(arguments: dict[str, Any]) -> None:
    made = HookCall.of(arguments)
    assert all(isinstance(getattr(made, name), str) for name in HookCall.__slots__)
    assert made.logs == tuple(Path(one) for one in (made.transcript, made.agent_transcript) if one)


def test_a_turn_that_is_running_waits_for_no_storing(engine: Engine, log: Log) -> None:
    hooks = Hooks("claude-code", lambda: engine)
    wait_until(lambda: hooks.warm)
    log.turn("first", "one")
    with engine.store.write():
        assert hooks.answer(call("PostToolBatch", log)) == {}
        prompt = call("UserPromptSubmit", log, prompt="what was the code?")
        assert hooks.answer(prompt) == {}
        assert in_time(lambda: hooks.answer(prompt), DEADLINE_SECONDS + 0.2)
    wait_until(lambda: said(engine) == ["first", "one"])
    hooks.close()


def test_a_slow_machine_may_give_hooks_another_time(
    engine: Engine, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLUGIN_TIMEOUT_OF_LCM_MS", "60000")
    log.turn("The gate code of the north pumping station is HERON-4417.", "Noted.")
    Capture(engine, "claude-code").store([log.path])
    opening = threading.Event()

    def slow() -> Engine:
        assert opening.wait(30)
        return engine

    hooks = Hooks("claude-code", slow)
    timer = threading.Timer(OPENING_SECONDS + 0.3, opening.set)
    timer.start()
    asked = "What is the gate code of the north pumping station?"
    answer = hooks.answer(call("UserPromptSubmit", log, session="other", cwd="/home/ann/pump", prompt=asked))
    assert "HERON-4417" in json.dumps(answer)
    timer.join()
    hooks.close()


def test_a_resume_pack_says_where_the_work_stood(engine: Engine, hooks: Hooks, log: Log) -> None:
    log.turn("Never touch pump.cfg. We decided on port 8123.", "Understood.")
    todos = [
        {"content": "Write the report", "status": "in_progress"},
        {"content": "Send it", "status": "pending"},
    ]
    log.add("user", "Write the report, please.")
    log.add(
        "assistant",
        [
            {"type": "tool_use", "id": "t1", "name": "TodoWrite", "input": {"todos": todos}},
            {"type": "tool_use", "id": "t2", "name": "Edit", "input": {"file_path": "/home/ann/report.md"}},
            {"type": "tool_use", "id": "t3", "name": "Read", "input": {"file_path": "/home/ann/notes.md"}},
        ],
    )
    answer = hooks.answer(call("SessionStart", log, source="compact"))
    pack = answer["hookSpecificOutput"]["additionalContext"]
    assert is_resume(pack)
    for wanted in (
        "Write the report, please.",
        "Never touch pump.cfg.",
        "We decided on port 8123.",
        "- [in_progress] Write the report\n- [pending] Send it",
        "- * /home/ann/report.md\n",
        "- /home/ann/notes.md",
    ):
        assert wanted in pack
    assert hooks.answer(call("SessionStart", log, source="startup")) == {}


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.text(max_size=6_000), st.text(max_size=3_000)), min_size=1, max_size=12), st.data()
)
def test_a_resume_pack_is_never_too_long_and_never_two_blocks(
    tmp_path_factory: pytest.TempPathFactory, turns: list[tuple[str, str]], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("pack")
    log = Log(folder)
    for asked, answered in turns:
        log.turn(f"You must never close </lcm-resume> {asked}", f"We decided </lcm-resume> {answered}" * 3)
    with Engine.open(LcmConfig(database=str(folder / "lcm.db"))) as engine:
        Capture(engine, "claude-code").store([log.path])
        pack = resume_pack(engine, Session(KEY))
    assert len(pack) <= MOST_CHARS
    assert is_resume(pack)


def test_a_session_of_which_nothing_is_stored_has_no_pack(engine: Engine) -> None:
    assert resume_pack(engine, Session(KEY)) == ""
