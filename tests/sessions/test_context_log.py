"""What each turn's newest call was given is on record: which ids, how much, why; for a number of turns."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from clock import Clock
from hypothesis import given
from hypothesis import strategies as st
from messages import assistant, call, result, user
from old_schema import take_back
from small_talk import turns

from lcm_plugin import Engine, LcmPlugin, Session
from lcm_plugin.commands.calls import next_call, past_call, turn_list
from lcm_plugin.commands.gauges import gauges
from lcm_plugin.sessions.context_log import items_of
from lcm_plugin.store.insight.contexts import CLEARED, SentContext
from lcm_plugin.types import Context, Turn

pytestmark = pytest.mark.both_stores_under_ci

TALK = Session("agent:main:talk", "run-1")
SMALL = {
    "fresh_tail_count": 4,
    "leaf_chunk_tokens": 300,
    "leaf_target_tokens": 60,
    "leaf_min_fanout": 2,
    "condensed_min_fanout": 2,
}
Open = Callable[..., Engine]


def ask(engine: Engine, text: str, *, budget: int = 8_000, answer: str = "Noted.", **given: Any) -> Context:
    """One turn: its request, the context of its call, its answer."""
    engine.ingest(TALK, [user(text)])
    context = engine.assemble(TALK, budget, **given)
    engine.ingest(TALK, [assistant(answer)])
    return context


def records(engine: Engine, session: Session = TALK) -> list[SentContext]:
    """The oldest turn first."""
    number = engine.library.conversation(session.key).conversation_id
    with engine.store.read() as reader:
        return reader.sent_contexts(number, limit=1_000)[::-1]


def look(engine: Engine, turn: int, **asked: Any) -> dict[str, Any]:
    with engine.store.read() as reader:
        return past_call(engine, reader, engine.library.conversation(TALK.key), turn, **asked)


def test_a_turn_keeps_what_its_call_was_given(engine: Engine) -> None:
    engine.ingest(TALK, [{"role": "system", "content": "Be exact."}, user("One?"), assistant("One.")])
    engine.pin(TALK, "Prices are in euros.")
    context = ask(engine, "Two?", overhead_tokens=500, model="small-1")
    (kept,) = records(engine)
    assert kept.refs == [one.ref for one in context.shown]
    assert kept.refs[-1] == context.request == f"msg_{kept.request_id}"
    assert (kept.turn, kept.calls, kept.model, kept.policy) == (1, 1, "small-1", "balanced")
    assert (kept.tokens, kept.budget, kept.overhead) == (context.tokens, 8_000, 500)
    assert sum(kept.layers.values()) == kept.tokens
    assert {"instructions", "pins", "messages"} <= set(kept.layers)


@pytest.mark.sqlite_only
def test_it_is_on_record_how_long_contexts_took_to_make(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    took = iter([0.0, 0.25, 1.0, 1.004])
    monkeypatch.setattr("lcm_plugin.assembly.contexts.perf_counter", lambda: next(took))
    ask(engine, "One?")
    ask(engine, "Two?")
    assert [one.made_ms for one in records(engine)] == [250, 4]
    with engine.store.read() as reader:
        now = gauges(engine, reader)
    assert (now.making_ms, now.making(0.5), now.making(0.95)) == ((4, 250), 250, 250)


def test_of_the_calls_of_a_turn_the_newest_is_kept_and_all_are_counted(engine: Engine) -> None:
    engine.ingest(TALK, [user("Look twice.")])
    for step in ("a", "b"):
        engine.assemble(TALK, 8_000)
        engine.assemble(TALK, 8_000)
        engine.ingest(TALK, [call(step, "look"), result(step, f"seen {step}")])
    last = engine.assemble(TALK, 8_000)
    engine.ingest(TALK, [assistant("Seen both.")])
    (kept,) = records(engine)
    assert kept.refs == [one.ref for one in last.shown]
    assert kept.calls == 3, "the same context twice is one call"


def test_calls_without_an_answer_leave_no_record_until_something_is_stored(engine: Engine) -> None:
    engine.ingest(TALK, [user("One?")])
    engine.assemble(TALK, 8_000)
    assert records(engine) == []
    engine.look_ahead(TALK, 8_000, 0, None, True)
    engine.ingest(TALK, [user("Two?")])
    assert [one.request_id for one in records(engine)] == [1]


def test_runs_side_by_side_each_keep_their_turn(engine: Engine) -> None:
    plugin = LcmPlugin(engine=engine)
    for text in ("the first run", "the second run"):
        plugin.before_turn(turn=Turn(TALK, [user(text)], mode="append", window=8_000))
    engine.ingest(TALK, [assistant("Both done.")])
    assert [one.request_id for one in records(engine)] == [1, 2]


def test_old_turns_are_forgotten(open_engine: Open) -> None:
    engine = open_engine(context_log_turns=3)
    for turn in range(12):
        ask(engine, f"Question {turn}?")
        assert len(records(engine)) < 3 + 3
    assert [one.turn for one in records(engine)][-3:] == [10, 11, 12]
    other = open_engine("none", context_log_turns=0)
    ask(other, "Question?")
    assert records(other) == []


def test_a_conversation_takes_its_record_along_when_it_is_deleted(open_engine: Open) -> None:
    engine = open_engine()
    ask(engine, "One?")
    number = engine.library.conversation(TALK.key).conversation_id
    with engine.store.write() as writer:
        writer.delete_conversation(number)
    with engine.store.read() as reader:
        assert reader.row_counts()["sent_contexts"] == 0


def test_no_text_is_kept(engine: Engine) -> None:
    ask(engine, "The door code is zanzibar.", answer="Zanzibar it is.")
    ask(engine, "What was the code zanzibar for?")
    (_, kept) = records(engine)
    assert "zanzibar" not in repr(kept).lower()


@pytest.mark.sqlite_only
def test_an_older_database_begins_its_record_now(open_engine: Open, tmp_path: Path) -> None:
    engine = open_engine()
    ask(engine, "One?")
    path = Path(engine.store.location)
    engine.close()
    take_back(path, "sent_contexts")
    newer = open_engine()
    assert records(newer) == []
    ask(newer, "Two?")
    assert [one.turn for one in records(newer)] == [1]


def test_two_turns_are_compared_over_a_compaction(open_engine: Open, clock: Clock) -> None:
    engine = open_engine(**SMALL)
    engine.ingest(TALK, turns(20))
    ask(engine, "Before?")
    clock.forward(1_000)
    assert engine.compact(TALK, force=True, budget=4_000).compacted
    clock.forward(1_000)
    after = ask(engine, "After?")
    found = look(engine, 2)["difference"]
    assert (found["from"], found["to"]) == (1, 2)
    came = {one["first"]: (one["last"], one["why"]) for one in found["came"]}
    top = after.summaries[0]
    assert came[top] == (top, "a compaction made it since then")
    request = records(engine)[1].request_id
    assert came[f"msg_{request - 1}"] == (f"msg_{request}", "it came since then")
    (first, *_) = found["left"]
    assert (first["first"], first["why"]) == ("msg_1", f"it was summarised; {top} stands for it")
    assert first["way"][-1] == top
    assert found["same"]["tokens"] == 0, "the first message went"


def test_a_turn_that_only_grows_begins_with_all_of_the_one_before(engine: Engine) -> None:
    first = ask(engine, "One?")
    ask(engine, "Two?")
    found = look(engine, 2)["difference"]
    (sent,) = first.messages
    size = len(json.dumps(sent, ensure_ascii=False).encode())
    assert found["same"] == {"tokens": first.tokens, "of": first.tokens, "bytes": size, "until": "msg_1"}
    assert found["left"] == []
    assert [(one["first"], one["last"]) for one in found["came"]] == [("msg_2", "msg_3")]
    with engine.store.read() as reader:
        listed = turn_list(reader, engine.library.conversation(TALK.key), 10)
    assert [(one["turn"], one["same"], one["text"]) for one in listed] == [
        (2, first.tokens, "Two?"),
        (1, None, "One?"),
    ]


def test_what_stays_is_measured_over_summaries_pins_and_shortened_results(open_engine: Open) -> None:
    engine = open_engine(**SMALL)
    engine.ingest(TALK, turns(20))
    assert engine.compact(TALK, force=True, budget=4_000).compacted
    engine.pin(TALK, "Prices are in euros.")
    engine.ingest(
        TALK, [user("Look."), call("a", "look"), result("a", "seen it all. " * 900), assistant("Seen.")]
    )
    first = ask(engine, "One?", budget=2_500)
    assert any(one.cuts for one in first.shown)
    ask(engine, "Two?", budget=2_500)
    same = look(engine, 2)["difference"]["same"]
    assert same["until"] == first.request
    sizes = [len(json.dumps(one, ensure_ascii=False).encode()) for one in first.messages]
    assert same["bytes"] == pytest.approx(sum(sizes), rel=0.1)


def test_another_model_has_nothing_cached(engine: Engine) -> None:
    ask(engine, "One?", model="small-1")
    ask(engine, "Two?", model="large-1")
    assert look(engine, 2)["difference"]["same"]["tokens"] == 0


def test_why_something_was_not_in_view_is_answered_for_an_earlier_turn(
    open_engine: Open, clock: Clock
) -> None:
    engine = open_engine(**SMALL)
    engine.ingest(TALK, turns(20))
    ask(engine, "Before?")
    clock.forward(1_000)
    assert engine.compact(TALK, force=True, budget=4_000).compacted
    clock.forward(1_000)
    ask(engine, "After?")

    def why(turn: int, ref: str) -> tuple[bool, str]:
        found = look(engine, turn, why=ref)["why"]
        return found["in_view"], found["why"]

    assert why(1, "msg_1")[0]
    assert why(2, "msg_1") == (False, f"it was summarised; {records(engine)[1].refs[0]} stands for it")
    assert why(1, records(engine)[1].refs[0]) == (False, "it was made after this call")
    assert why(1, f"msg_{records(engine)[1].request_id}") == (False, "it came after this call")
    assert why(1, "msg_9999") == (False, "there is no msg_9999")


def test_the_next_call_is_as_the_engine_assembles_it_and_leaves_no_record(engine: Engine) -> None:
    ask(engine, "One?")
    found = next_call(engine, engine.library.conversation(TALK.key))
    assert found["tokens"] == engine.assemble(TALK, 8_000).tokens
    assert [one.turn for one in records(engine)] == [1]


@dataclass(frozen=True)
class Shown:
    """An item of a context."""

    ref: str
    kind: str
    tokens: int
    cuts: int
    cleared: bool


KINDS = st.sampled_from(["instruction", "request", "call", "result", "reply"])


@st.composite
def contexts(draw: st.DrawFn) -> tuple[Shown, ...]:
    number, found = 0, []
    for _ in range(draw(st.integers(0, 30))):
        tokens = draw(st.integers(0, 90))
        if draw(st.integers(0, 5)) == 0:
            kind = draw(st.sampled_from(["summary", "standing"]))
            found.append(Shown(f"{kind[:3]}_{len(found)}", kind, tokens, 0, False))
            continue
        number += draw(st.sampled_from([1, 1, 1, 2]))
        cuts = draw(st.sampled_from([0, 0, 0, 1, 2]))
        found.append(Shown(f"msg_{number}", draw(KINDS), tokens, cuts, bool(cuts) and draw(st.booleans())))
    return tuple(found)


@pytest.mark.sqlite_only
@given(contexts(), st.integers(0, 30))
def test_items_stand_for_all_that_was_shown(shown: tuple[Shown, ...], split: int) -> None:
    items = items_of(shown)
    forms = [form for one in items for form in one.forms]
    assert forms == [(one.ref, CLEARED if one.cleared else one.cuts) for one in shown]
    assert sum(one.tokens for one in items) == sum(one.tokens for one in shown)
    assert items == items_of(shown[split:], items_of(shown[:split]))
