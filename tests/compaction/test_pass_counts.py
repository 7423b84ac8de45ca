"""What the passes of a sweep read: counts are the same on every machine, and a text that came before costs nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from messages import assistant, call, result, user

from lcm_plugin import Engine, Session
from lcm_plugin.compaction.clearing import Clearing
from lcm_plugin.compaction.policy import Call, limits_for
from lcm_plugin.compaction.undo import LastCompaction
from lcm_plugin.config import LcmConfig
from lcm_plugin.events import EventBus
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.store.tables.messages import MessageTable
from lcm_plugin.summarize.base import SourceBlock
from lcm_plugin.summarize.extractive import ExtractiveSummarizer
from lcm_plugin.summarize.facts import Vocabulary
from lcm_plugin.summarize.gate import Gate
from lcm_plugin.types import Reason

SMALL: dict[str, Any] = {
    "fresh_tail_count": 4,
    "leaf_chunk_tokens": 400,
    "leaf_target_tokens": 60,
    "leaf_min_fanout": 2,
}
PLAN = json.dumps({"todos": [{"content": "paint the ferry", "status": "pending"}] * 3})


def with_tools(count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for number in range(count):
        found += [
            user(f"Look for ship {number} in harbour {number * 7} please."),
            call(f"c{number}", "look"),
            result(
                f"c{number}", f"Ship {number} left harbour {number * 7} at noon with {number * 31} crates."
            ),
            assistant(f"Ship {number} left at noon."),
        ]
    return found


def plan_in_view(engine: Engine, session: Session) -> str:
    contents = [str(one["content"]) for one in engine.assemble(session, 8_000).messages]
    return "".join(text for text in contents if text.startswith("<plan "))


def test_the_leaves_of_a_sweep_read_each_tool_call_once_to_know_that_none_keeps_a_plan(
    open_engine: Callable[..., Engine], session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    newest = MessageTable.newest_tool_calls

    def counted(self: Any, *given: Any, **named: Any) -> Any:
        calls = newest(self, *given, **named)
        read.append(len(calls))
        return calls

    monkeypatch.setattr(MessageTable, "newest_tool_calls", counted)
    engine = open_engine(**SMALL)
    engine.ingest(session, with_tools(120))
    made = engine.compact(session, force=True, budget=8_000)
    assert made.passes > 20
    assert len(read) > 20
    assert sum(read) <= 120


@pytest.mark.both_stores_under_ci
def test_a_plan_is_noted_although_it_was_hidden_when_a_leaf_before_it_was_made(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine(**SMALL)
    engine.ingest(
        session, [*with_tools(20), user("plan"), call("p", "TodoWrite", PLAN), result("p", "Updated.")]
    )
    with engine.store.write() as writer:
        conversation = writer.find_conversation(session)
        assert conversation is not None
        here = conversation.conversation_id
        (made,) = [head for head in writer.heads(here, limit=10) if head.calls == ("p",)]
        writer.hide(here, [made.message_id], 1)
    engine.ingest(session, [call("x", "look"), result("x", "seen")])
    assert engine.compact(session, force=True, budget=8_000).compacted
    assert plan_in_view(engine, session) == ""
    with engine.store.write() as writer:
        writer.show(here, [made.message_id], 2)
    engine.ingest(session, with_tools(20))
    assert engine.compact(session, force=True, budget=8_000).compacted
    assert "paint the ferry" in plan_in_view(engine, session)


def test_a_plan_made_after_a_sweep_is_noted_by_the_next_one(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine(**SMALL)
    engine.ingest(session, with_tools(20))
    assert engine.compact(session, force=True, budget=8_000).compacted
    engine.ingest(
        session, [user("plan"), call("p", "TodoWrite", PLAN), result("p", "Updated."), *with_tools(20)]
    )
    assert engine.compact(session, force=True, budget=8_000).compacted
    assert "paint the ferry" in plan_in_view(engine, session)


def test_a_line_that_came_before_is_looked_up_and_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read: Counter[str] = Counter()
    facts = Vocabulary.facts

    def counted(self: Vocabulary, sentence: Any) -> Any:
        read[" ".join(sentence)] += 1
        return facts(self, sentence)

    monkeypatch.setattr(Vocabulary, "facts", counted)
    extractive = ExtractiveSummarizer(TokenCounter(), LcmConfig(database="none.db").timezone)
    lines = [f"Harbour {number} holds {number * 7} crates of Ferry{number}." for number in range(300)]
    leaves = []
    for start in range(0, 300, 100):
        # The first hundred lines come again in each chunk.
        text = "\n".join(lines[:100] + lines[start : start + 100])
        leaves.append(extractive.summarize((SourceBlock("msg_1", "tool", text, 0, 0),), 400))
    assert sum(read.values()) == len(read) == 300
    blocks = tuple(SourceBlock(f"sum_{n}", "summary", one[0], 0, 0) for n, one in enumerate(leaves) if one)
    read.clear()
    assert extractive.summarize(blocks, 300)
    # What a summary of summaries reads anew is the lists of what they left out.
    assert sum(read.values()) <= 2 * len(blocks)


def test_the_gate_compares_a_summary_with_its_source_once_and_the_look_at_new_ones_does_not_again(
    open_engine: Callable[..., Engine], session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[str] = []
    check = Gate.check

    def counted(self: Gate, raw: str, *given: Any, **named: Any) -> Any:
        judged.append(raw)
        return check(self, raw, *given, **named)

    monkeypatch.setattr(Gate, "check", counted)
    said = "Ships left their harbours at noon with crates, each as it had been asked for before."
    engine = open_engine(**SMALL, completer=lambda request: said)
    engine.ingest(session, with_tools(30))
    made = engine.compact(session, force=True, budget=8_000)
    assert engine.wait_idle(60)
    assert 3 < made.passes == len(judged)


def test_a_result_is_read_once_to_know_whether_it_can_be_cleared(
    open_engine: Callable[..., Engine], session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Counter[int] = Counter()
    costs = Clearing._read_costs

    def counted(self: Clearing, reader: Any, here: int, heads: Any) -> Any:
        asked.update(head.message_id for head in heads)
        return costs(self, reader, here, heads)

    monkeypatch.setattr(Clearing, "_read_costs", counted)
    engine = open_engine()
    config, counter = LcmConfig(database="none.db"), TokenCounter()
    last = LastCompaction(engine.store, counter, config.timezone, lambda: 0)
    clearing = Clearing(engine.store, config, counter, EventBus(), last, lambda: 0)
    limits = limits_for(config, Call(8_000))
    long = "Ship left harbour at noon with crates and came back. " * 60
    for number in range(3):
        for other in range(10):
            name = f"c{number}{other}"
            engine.ingest(session, [call(name, "write_file"), result(name, long)], mode="append")
        with engine.store.read() as reader:
            conversation = reader.find_conversation(session)
        assert conversation is not None
        for _ in range(2):
            clearing.clear(conversation.conversation_id, limits, Reason.LEAF_CHUNK_READY)
    assert len(asked) > 20
    assert set(asked.values()) == {1}
