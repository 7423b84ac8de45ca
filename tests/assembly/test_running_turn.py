"""What was just produced is always in the context: the newest request, its calls, and every result."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from assembly.histories import is_prefix
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from messages import assistant, call, result, user

from lcm_plugin import Engine, LcmPlugin, Session, Turn
from lcm_plugin.messages.markup import nearly_full_line, stub_id_of
from lcm_plugin.messages.validate import validate
from lcm_plugin.types import Context

pytestmark = pytest.mark.both_stores_under_ci

Message = dict[str, Any]
lanes = itertools.count()


def lane() -> Session:
    return Session(f"agent:main:turn{next(lanes)}")


def dense(number: int, characters: int) -> str:
    """A text of digits, of which no encoding makes long tokens."""
    seed = (number + 1) * 7_919
    return "".join(f"{seed * n % 9_973:04d} " for n in range(1, characters // 5 + 1))[:characters]


def calling(ids: list[str]) -> Message:
    made = [{"id": one, "type": "function", "function": {"name": "look", "arguments": "{}"}} for one in ids]
    return {"role": "assistant", "content": None, "tool_calls": made}


def parallel(count: int, characters: int, name: str = "c") -> list[Message]:
    ids = [f"{name}{n}" for n in range(count)]
    return [calling(ids), *(result(one, dense(n, characters)) for n, one in enumerate(ids))]


def room(engine: Engine, budget: int) -> int:
    return engine.calibration.room(budget)


def results_of(context: Context) -> dict[str, str]:
    return {m["tool_call_id"]: m["content"] for m in context.messages if m["role"] == "tool"}


def is_cut(context: Context) -> bool:
    return "[LCM cut msg_" in json.dumps(context.messages)


@pytest.mark.parametrize(
    ("budget", "count", "characters"),
    [(13_000, 40, 700), (13_000, 40, 2_500), (5_000, 12, 700), (13_000, 80, 700), (32_000, 80, 700)],
)
def test_every_result_of_parallel_calls_is_shown(
    engine: Engine, session: Session, budget: int, count: int, characters: int
) -> None:
    engine.ingest(session, [user("look everywhere"), *parallel(count, characters)])
    context = engine.assemble(session, budget)
    shown = results_of(context)
    assert list(shown) == [f"c{n}" for n in range(count)]
    assert not context.over_budget
    whole = engine.count_tokens(engine.messages(session))
    if whole <= room(engine, budget):
        assert context.messages == engine.messages(session)
    else:
        assert context.tokens >= 0.9 * room(engine, budget)
        assert [stub_id_of(text) for text in shown.values()] == [f"msg_{n + 3}" for n in range(count)]
        # One of them carries the warning that the room is nearly full.
        cut = [
            text.replace(f"\n{nearly_full_line(f'msg_{n + 3}', ['this turn'])}", "")
            for n, text in enumerate(shown.values())
        ]
        lengths = [engine.count_tokens(text) for text in cut]
        assert max(lengths) <= 1.2 * min(lengths)


def test_short_results_stay_whole_and_long_ones_are_cut_to_one_length(
    engine: Engine, session: Session
) -> None:
    sizes = [40, 8_000, 60, 900, 12_000, 30_000]
    ids = [f"c{n}" for n in range(len(sizes))]
    answers = [result(one, dense(n, size)) for n, (one, size) in enumerate(zip(ids, sizes, strict=True))]
    engine.ingest(session, [user("look"), calling(ids), *answers])
    context = engine.assemble(session, 6_000)
    shown = results_of(context)
    kept = [one for one, size in zip(ids, sizes, strict=True) if shown[one] == dense(ids.index(one), size)]
    assert kept == ["c0", "c2", "c3"]
    lengths = [engine.count_tokens(shown[one]) for one in ("c1", "c4", "c5")]
    assert max(lengths) <= 1.1 * min(lengths)
    assert context.tokens >= 0.9 * room(engine, 6_000)


def test_results_in_one_message_of_blocks_are_cut_alike(engine: Engine, session: Session) -> None:
    used = [{"type": "tool_use", "id": f"t{n}", "name": "look", "input": {}} for n in range(30)]
    given = [{"type": "tool_result", "tool_use_id": f"t{n}", "content": dense(n, 3_000)} for n in range(30)]
    engine.ingest(session, [user("go"), assistant(used), {"role": "user", "content": given}])
    context = engine.assemble(session, 8_000)
    blocks = context.messages[-1]["content"]
    assert len(blocks) == 30
    assert all(stub_id_of(block["content"]) == "msg_3" for block in blocks)
    assert 0.9 * room(engine, 8_000) <= context.tokens <= 8_000


def test_even_the_least_form_may_be_too_much_and_that_is_said(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("old"), assistant("older"), user("look"), *parallel(60, 2_000)])
    context = engine.assemble(session, 1_500)
    assert context.over_budget
    assert len(context.notices) == 1
    assert len(results_of(context)) == 60
    assert context.messages[0] == user("look")
    assert not engine.assemble(session, context.tokens + 1).over_budget


@pytest.mark.long
@pytest.mark.parametrize(
    "said",
    [
        {"type": "text", "text": "SECOND"},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/SECOND"}},
    ],
)
def test_what_a_user_says_beside_results_is_the_newest_request(
    engine: Engine, session: Session, said: dict[str, Any]
) -> None:
    used = [{"type": "tool_use", "id": "t", "name": "look", "input": {}}]
    given = [{"type": "tool_result", "tool_use_id": "t", "content": "found"}, said]
    talk = [user("FIRST"), assistant(used), user(given)]
    for n in range(900):
        talk.append(assistant([{"type": "tool_use", "id": f"u{n}", "name": "look", "input": {}}]))
        talk.append(user([{"type": "tool_result", "tool_use_id": f"u{n}", "content": f"row {n}"}]))
    engine.ingest(session, talk)
    context = engine.assemble(session, 4_000)
    text = json.dumps(context.messages)
    assert "SECOND" in text
    assert "FIRST" not in text
    assert context.tokens >= 0.9 * room(engine, 4_000)


def test_a_late_result_brings_no_earlier_words_behind_the_newest_request(
    engine: Engine, session: Session
) -> None:
    given = [{"type": "tool_result", "tool_use_id": "c1", "content": "r"}, {"type": "text", "text": "FIRST"}]
    used = [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}]
    engine.ingest(session, [assistant(used), user(given), user("SECOND"), result("c1", "late")])
    context = engine.assemble(session, 1)
    text = json.dumps(context.messages)
    assert context.over_budget
    assert "FIRST" not in text
    assert text.index("SECOND") < text.index("late")


def test_a_running_turn_only_grows_until_it_outgrows_the_room(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("old " * 400), assistant("done " * 400), user("look everywhere")])
    before, rewritten, budget = None, 0, 8_000
    for n in range(60):
        engine.ingest(session, parallel(2, 700, f"step{n}-"))
        context = engine.assemble(session, budget)
        shown = results_of(context)
        assert {f"step{n}-0", f"step{n}-1"} <= set(shown)
        if before is not None and not is_prefix(before, context):
            assert before.prefix_epoch != context.prefix_epoch
            rewritten += 1
            added = engine.count_tokens(engine.messages(session)[-3:])
            # Not a token before it must be: what was shown and what is new would not have fitted.
            assert before.tokens + added > room(engine, budget)
        if is_cut(context) or context.notices:
            assert context.tokens >= 0.9 * room(engine, budget)
        before = context
    assert 0 < rewritten < 60


texts = st.builds(dense, st.integers(0, 50), st.sampled_from([5, 40, 300, 300, 2_000, 9_000]))
requests = st.builds(dense, st.integers(0, 50), st.sampled_from([5, 300, 2_000]))


@st.composite
def turns(draw: Any) -> list[Message]:
    talk: list[Message] = []
    for number in range(draw(st.integers(1, 8))):
        talk.append(user(f"turn {number} " + draw(requests)))
        for step in range(draw(st.integers(0, 3))):
            ids = [f"{number}-{step}-{n}" for n in range(draw(st.integers(1, 4)))]
            talk += [calling(ids), *(result(one, draw(texts)) for one in draw(st.permutations(ids)))]
        talk.append(assistant(draw(texts)))
    return talk[:-1]


EXAMPLES = {"sqlite": examples(60, 12), "postgres": examples(8, 3)}


@pytest.mark.long
def test_the_newest_group_is_whole_and_the_room_is_used(engine: Engine, store_kind: str) -> None:
    @settings(max_examples=EXAMPLES[store_kind], deadline=None, suppress_health_check=list(HealthCheck))
    @given(turns(), st.integers(5_000, 30_000))
    def holds(talk: list[Message], budget: int) -> None:
        session = lane()
        newest: list[str] = []
        for message in talk:
            engine.ingest(session, [message])
        for message in talk:
            newest = [one["id"] for one in message.get("tool_calls") or ()] or newest
            newest = [] if message["role"] == "user" else newest
        context = engine.assemble(session, budget)
        assert validate(context.messages) == []
        assert not context.over_budget
        assert set(newest) <= set(results_of(context))
        if is_cut(context) or context.notices:
            assert context.tokens >= 0.9 * room(engine, budget)

    holds()


def test_a_dropped_part_of_a_turn_is_older_than_what_is_shown_of_it(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("go"), *itertools.chain(*(parallel(1, 900, f"s{n}-") for n in range(200)))])
    shown = list(results_of(engine.assemble(session, 9_000)))
    assert shown == [f"s{n}-0" for n in range(200 - len(shown), 200)]
    assert call("x")["role"] == "assistant"


def test_a_request_compacted_within_its_turn_stays_in_view_in_the_turns_after_it(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    """The first message of a later turn took it out, and the next call brought it back: twice a turn nothing was cached."""
    engine = open_engine(fresh_tail_count=8, active_recall="off")
    plugin, opening = LcmPlugin(engine=engine), user("Look at all of these, please.")
    long = [part for n in range(20) for part in (call(f"call_{n}"), result(f"call_{n}", f"found {n} " * 40))]
    plugin.after_turn(Turn(session, [opening, *long, assistant("All seen.")], window=64_000))
    plugin.after_turn(Turn(session, [user("Thanks!"), assistant("Gladly.")], mode="append", window=64_000))
    assert engine.compact(session, force=True).compacted
    seen: list[Message] = []
    for number in range(3):
        group = [call(f"later_{number}"), result(f"later_{number}", "here")]
        for messages in ([user(f"And {number}?")], group):
            context = plugin.before_turn(Turn(session, messages, mode="append", window=64_000))
            assert context is not None
            assert context.messages[1] == opening
            assert context.messages[: len(seen)] == seen
            seen = context.messages
        plugin.after_turn(Turn(session, [assistant("Yes.")], mode="append", window=64_000))
