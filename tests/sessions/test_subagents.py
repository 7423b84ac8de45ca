"""Sub-agents: what they start with, what they may read, and that the parent never notices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from messages import assistant, call, result, user

from lcm_plugin import Engine, LcmConfig, LcmPlugin, Session, Turn
from lcm_plugin.types import Message

pytestmark = pytest.mark.both_stores_under_ci

PARENT = Session("telegram:42", "run-1")
CHILD = Session("telegram:42#research", "child-1")
STRANGER = Session("telegram:99", "run-9")


def story(turns: int) -> list[Message]:
    return [
        message
        for number in range(turns)
        for message in (
            user(f"Please look at file number {number} and tell me what it says about the harbour."),
            call(f"call-{number}"),
            result(f"call-{number}", f"File {number}: " + "the harbour wall needs repair. " * 5),
            assistant(f"File {number} says that the wall needs repair."),
        )
    ]


def test_a_child_starts_with_the_newest_whole_groups_that_fit(open_engine: Callable[..., Engine]) -> None:
    engine = open_engine(bootstrap_max_tokens=300)
    history = story(10)
    engine.ingest(PARENT, history)
    taken = engine.bootstrap_session(CHILD, PARENT)
    copied = engine.messages(CHILD)
    assert copied == history[-taken:]
    assert copied[0]["role"] in ("user", "assistant")
    assert not (
        copied[0]["role"] == "assistant" and copied[0]["content"] is None and copied[1]["role"] != "tool"
    )
    assert sum(item.tokens for item in engine.context_items(CHILD)) <= 300
    more = engine.count_tokens(history[-taken - 1]) + engine.count_tokens(history[-taken - 2])
    assert sum(item.tokens for item in engine.context_items(CHILD)) + more > 300


def test_a_call_that_still_waits_is_not_taken_over(engine: Engine) -> None:
    engine.ingest(PARENT, [*story(1), user("start a helper"), call("spawn")])
    engine.bootstrap_session(CHILD, PARENT)
    assert engine.messages(CHILD) == [*story(1), user("start a helper")]


def test_times_come_along_and_files_are_the_childs_own(open_engine: Callable[..., Engine]) -> None:
    engine = open_engine(large_file_token_threshold=1_000)
    big = "line of a long report about the harbour\n" * 900
    engine.ingest(PARENT, [user("read it"), call("c1"), result("c1", big)])
    before = [item.message.created_at for item in engine.library.items(1) if item.message]
    engine.clock.forward(3_600_000)  # type: ignore[attr-defined]
    assert engine.bootstrap_session(CHILD, PARENT) == 3
    assert engine.messages(CHILD)[2]["content"] == big
    after = [item.message.created_at for item in engine.library.items(2) if item.message]
    assert after == before
    with engine.store.read() as reader:
        [own] = reader.files(2)
    engine.end_session(CHILD, "end")
    engine.ingest(CHILD, [user("go on")])
    assert engine.call_tool(CHILD, "lcm_describe", {"id": own.file_id})["lines"] == 900


def test_a_child_is_bootstrapped_once(engine: Engine) -> None:
    engine.ingest(PARENT, story(2))
    assert engine.bootstrap_session(CHILD, PARENT) == 8
    assert engine.bootstrap_session(CHILD, PARENT) == 0
    engine.ingest(CHILD, [user("my own task")])
    assert engine.messages(CHILD) == [*story(2), user("my own task")]
    assert engine.messages(PARENT) == story(2)


def test_what_the_parent_wiped_does_not_reach_the_child(engine: Engine) -> None:
    engine.ingest(PARENT, story(2))
    engine.new_session(PARENT, 0)
    engine.ingest(PARENT, [user("a fresh start"), assistant("yes")])
    engine.bootstrap_session(CHILD, PARENT)
    assert engine.messages(CHILD) == [user("a fresh start"), assistant("yes")]


def test_the_grant_is_over_the_parent_only_and_ends_with_the_child(engine: Engine) -> None:
    engine.ingest(PARENT, [user("the parent knows the word heliotrope")])
    engine.ingest(STRANGER, [user("the stranger knows the word heliotrope")])
    engine.ingest(CHILD, [user("a child that had begun already")])

    def found() -> list[str]:
        return [
            hit["session_key"]
            for hit in engine.call_tool(CHILD, "lcm_grep", {"pattern": "heliotrope"})["hits"]
        ]

    assert found() == []
    engine.bootstrap_session(CHILD, PARENT)
    assert found() == [PARENT.key]
    assert engine.call_tool(CHILD, "lcm_describe", {"id": "msg_1"})["content"].endswith("heliotrope")
    foreign = engine.call_tool(CHILD, "lcm_describe", {"id": "msg_2"})
    unknown = engine.call_tool(CHILD, "lcm_describe", {"id": "msg_999"})
    assert foreign["error"].replace("msg_2", "msg_999") == unknown["error"]
    engine.end_session(CHILD, "completed")
    assert found() == []


def test_the_parent_cannot_read_the_child_and_keeps_its_run(engine: Engine) -> None:
    """G12."""
    engine.ingest(PARENT, story(1))
    engine.bootstrap_session(CHILD, PARENT)
    engine.ingest(CHILD, [user("only the child says marigold")])
    assert engine.call_tool(PARENT, "lcm_grep", {"pattern": "marigold"})["hits"] == []
    with engine.store.read() as reader:
        conversation = reader.find_conversation(PARENT)
    assert conversation is not None
    assert conversation.session_id == PARENT.id
    engine.ingest(PARENT, [call("spawn"), result("spawn", "the child's result")])
    assert [m for m in engine.messages(PARENT) if m.get("content") == "the child's result"] == [
        result("spawn", "the child's result")
    ]


def test_ignored_sessions_give_and_get_nothing(open_engine: Callable[..., Engine]) -> None:
    open_engine().ingest(PARENT, story(1))
    for pattern in (PARENT.key, CHILD.key):
        engine = open_engine(ignore_session_patterns=[pattern])
        assert engine.bootstrap_session(CHILD, PARENT) == 0
        assert engine.call_tool(CHILD, "lcm_grep", {"pattern": "harbour"})["hits"] == []


def test_a_key_is_not_its_own_parent_and_an_unknown_parent_gives_nothing(engine: Engine) -> None:
    engine.ingest(PARENT, story(1))
    assert engine.bootstrap_session(PARENT, PARENT) == 0
    assert engine.bootstrap_session(CHILD, Session("nobody")) == 0
    assert engine.messages(PARENT) == story(1)


def test_a_host_names_the_parent_at_the_first_turn(tmp_path: Path) -> None:
    plugin = LcmPlugin(LcmConfig(database=str(tmp_path / "lcm.db")))
    plugin.after_turn(Turn(PARENT, story(1)))
    named = {"parent_session_key": PARENT.key}
    task = user("Find out who repairs the wall.")
    context = plugin.before_turn(Turn(CHILD, [task], mode="append", window=32_000, metadata=named))
    assert context is not None
    assert context.messages == [*story(1), task]
    plugin.after_turn(Turn(CHILD, [assistant("The city does.")], mode="append", metadata=named))
    assert plugin.engine.messages(CHILD) == [*story(1), task, assistant("The city does.")]
    forked = Session("telegram:42#fork", "child-2")
    plugin.before_turn(Turn(forked, [*story(1), task], mode="sync", metadata=named))
    assert plugin.engine.messages(forked) == [*story(1), task]
    plugin.close()
