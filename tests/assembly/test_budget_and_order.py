"""What goes in at which budget, in which order, and what is said about the rest."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from assembly.histories import Cut, compact, is_prefix
from messages import assistant, call, result, user

from lcm_plugin import Engine, Session
from lcm_plugin.messages.markup import is_notice, stub_id_of, summary_id_of
from lcm_plugin.messages.stubs import shortened
from lcm_plugin.types import Context

pytestmark = pytest.mark.both_stores_under_ci

Message = dict[str, Any]


def tell(engine: Engine, session: Session, *messages: Message) -> None:
    for message in messages:
        engine.ingest(session, [message])


def long_talk(engine: Engine, session: Session, turns: int, words: int = 30) -> None:
    for number in range(turns):
        tell(engine, session, user(f"question {number} " + "word " * words))
        tell(engine, session, assistant(f"answer {number} " + "word " * words))


def texts(context: Context) -> list[str]:
    return [str(message["content"]) for message in context.messages]


def test_j1_a_margin_is_left(engine: Engine, session: Session) -> None:
    long_talk(engine, session, 200)
    tell(engine, session, user("now"))
    assert engine.assemble(session, 5_000).tokens <= 5_000 * 0.98


@pytest.mark.parametrize("budget", [100, 1_000, 4_000, 8_000])
def test_j2_a_huge_result_in_the_tail_never_breaks_the_budget(
    engine: Engine, session: Session, budget: int
) -> None:
    long_talk(engine, session, 12)
    tell(engine, session, user("read it"), call("c1"), result("c1", "line of the log\n" * 3_000))
    tell(engine, session, user("what does it say?"))
    context = engine.assemble(session, budget)
    assert context.tokens <= budget
    assert context.messages[-1] == user("what does it say?")
    if budget >= 1_000:
        stubs = [stub_id_of(text) for text in texts(context) if stub_id_of(text)]
        assert stubs == ["msg_27"]


def test_j3_a_bulky_turn_does_not_end_the_selection(engine: Engine, session: Session) -> None:
    tell(engine, session, user("small one"), assistant("ok"))
    tell(engine, session, user("big"), assistant("huge text " * 5_000), user("small two"), assistant("ok"))
    tell(engine, session, user("now"))
    shown = texts(engine.assemble(session, 2_000))
    assert "small one" in shown
    assert "small two" in shown
    assert shown[-1] == "now"


def test_j4_the_newest_request_and_all_after_it_stay_together(engine: Engine, session: Session) -> None:
    long_talk(engine, session, 40)
    live = [user("do it")]
    for number in range(5):
        live += [call(f"c{number}"), result(f"c{number}", f"step {number}")]
    tell(engine, session, *live)
    assert engine.assemble(session, 800).messages[-len(live) :] == live


def test_j6_the_last_message_is_always_the_newest_request(engine: Engine, session: Session) -> None:
    for number in range(5):
        tell(engine, session, user(f"question {number}"))
        assert engine.assemble(session, 4_000).messages[-1] == user(f"question {number}")
        tell(engine, session, assistant("yes"))


def test_j10_too_large_a_request_is_sent_alone_and_said(engine: Engine, session: Session) -> None:
    long_talk(engine, session, 3)
    huge = user("please " * 3_000)
    tell(engine, session, huge)
    context = engine.assemble(session, 1_000)
    assert context.messages == [huge]
    assert context.over_budget
    assert len(context.notices) == 1
    assert not engine.assemble(session, context.tokens + 1).over_budget


def test_j11_a_blank_prompt_is_no_prompt(engine: Engine, session: Session) -> None:
    long_talk(engine, session, 60)
    tell(engine, session, user("now"))
    assert engine.assemble(session, 2_000, prompt="  ") == engine.assemble(session, 2_000)


def test_relevance_decides_only_when_it_is_switched_on(open_engine: Any, session: Session) -> None:
    engine = open_engine("by-relevance", prompt_aware_eviction=True, fresh_tail_count=2)
    tell(engine, session, user("the capybara is called Rosa"), assistant("noted"))
    long_talk(engine, session, 60)
    tell(engine, session, user("now"))
    asked = engine.assemble(session, 1_500, prompt="what is the capybara called?")
    assert "the capybara is called Rosa" in texts(asked)
    assert "the capybara is called Rosa" not in texts(engine.assemble(session, 1_500))


@pytest.mark.parametrize(
    ("tail", "summarised"),
    [
        ({"fresh_tail_count": 60, "fresh_tail_max_tokens": 5_000}, False),
        ({"fresh_tail_count": 60, "fresh_tail_max_tokens": 300}, True),
        ({"fresh_tail_count": 8, "fresh_tail_max_tokens": 5_000}, True),
    ],
)
def test_raw_messages_outside_the_fresh_tail_make_room_for_summaries(
    open_engine: Any, session: Session, tail: dict[str, int], summarised: bool
) -> None:
    engine = open_engine(leaf_chunk_tokens=800, leaf_target_tokens=200, context_policy="economy", **tail)
    long_talk(engine, session, 60)
    compact(engine, session, Cut(0, 0.5))
    tell(engine, session, user("now"))
    context = engine.assemble(session, 2_000)
    assert bool(context.summaries) is summarised
    assert context.tokens > 1_700


@pytest.mark.parametrize("budget", [100, 200, 256])
def test_c12_a_small_budget_is_used(engine: Engine, session: Session, budget: int) -> None:
    for number in range(60):
        tell(engine, session, user(f"q{number}"), assistant(f"a{number}"))
    tell(engine, session, user("now"))
    assert budget / 2 <= engine.assemble(session, budget).tokens <= budget


def test_c7_the_hosts_overhead_counts(engine: Engine, session: Session) -> None:
    long_talk(engine, session, 100)
    tell(engine, session, user("now"))
    assert engine.assemble(session, 8_000, overhead_tokens=5_000).tokens <= 3_000


def test_a_system_message_that_does_not_fit_beside_the_request_is_left_out_and_said(
    engine: Engine, session: Session
) -> None:
    tell(engine, session, {"role": "system", "content": "rule " * 300}, user("hello"))
    context = engine.assemble(session, 100)
    assert context.messages == [user("hello")]
    assert any("system message" in notice for notice in context.notices)
    assert engine.assemble(session, 1_000).messages[0]["role"] == "system"


def test_only_the_newest_system_message_stands_at_the_front(engine: Engine, session: Session) -> None:
    old, new = ({"role": "system", "content": text} for text in ("old rules", "new rules"))
    tell(engine, session, old, user("a"), assistant("b"), new, user("c"))
    assert engine.assemble(session, 1_000).messages == [new, user("a"), assistant("b"), user("c")]


@pytest.mark.sqlite_only
def test_a_developer_message_counts_as_system_message(engine: Engine, session: Session) -> None:
    rules = {"role": "developer", "content": "be brief"}
    tell(engine, session, rules, user("a"), assistant("b"), user("c"))
    assert engine.assemble(session, 1_000).messages == [rules, user("a"), assistant("b"), user("c")]
    with engine.store.read() as reader:
        plan = reader.db.execute(
            "EXPLAIN QUERY PLAN SELECT seq FROM messages m WHERE m.conversation_id = 1 "
            "AND m.role IN ('system', 'developer') ORDER BY m.seq DESC LIMIT 1"
        ).fetchall()
    assert "messages_system" in str(plan)


def test_what_is_left_out_is_said_with_the_ids_that_cover_it(engine: Engine, session: Session) -> None:
    long_talk(engine, session, 30)
    tell(engine, session, user("now"))
    context = engine.assemble(session, 1_000)
    [notice] = context.notices
    assert is_notice(texts(context)[0])
    assert notice in texts(context)[0]
    shown = engine.context_items(session)
    missing = [item.id for item in shown][: len(shown) - len(context.messages) + 1]
    assert missing[-1] in notice or "what came before" in notice


def test_results_and_arguments_are_shortened_with_head_tail_and_id(engine: Engine) -> None:
    count = engine.counter.text
    long = result("c", "first line\n" + "middle\n" * 2_000 + "last line")
    short = shortened(long, "msg_7", count).message
    assert short["content"].startswith("first line")
    assert short["content"].endswith("last line")
    assert stub_id_of(short["content"]) == "msg_7"
    assert "lcm_describe" in short["content"]
    assert engine.count_tokens(short) < 400

    asked = call("c", arguments=json.dumps({"path": "a.py", "text": "x = 1\n" * 2_000, "n": [1, "y " * 900]}))
    cut = shortened(asked, "msg_8", count).message
    given = json.loads(cut["tool_calls"][0]["function"]["arguments"])
    assert given["path"] == "a.py"
    assert "msg_8" in given["text"]
    assert "msg_8" in given["n"][1]
    assert cut["tool_calls"][0]["id"] == "c"
    assert engine.count_tokens(cut) < 400

    many = call("c", arguments=json.dumps({f"key{n}": n for n in range(2_000)}))
    left_out = shortened(many, "msg_9", count).message["tool_calls"][0]["function"]["arguments"]
    assert "msg_9" in json.loads(left_out)["left_out"]


def test_images_in_a_shortened_result_are_named(engine: Engine) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    block = {"type": "tool_result", "tool_use_id": "t", "content": [picture]}
    short = shortened({"role": "user", "content": [block]}, "msg_3", engine.counter.text).message
    assert "msg_3" in short["content"][0]["content"]
    small = result("c", "short")
    assert shortened(small, "msg_4", engine.counter.text).message is small


@pytest.mark.long
def test_the_cut_moves_in_steps_and_not_with_every_turn(engine: Engine, session: Session) -> None:
    long_talk(engine, session, 60)
    breaks, before = 0, None
    for number in range(80):
        tell(engine, session, user(f"more {number} " + "word " * 30))
        context = engine.assemble(session, 4_000)
        if before is not None:
            extends = is_prefix(before, context)
            breaks += not extends
            assert extends == (before.prefix_epoch == context.prefix_epoch)
        before = context
        tell(engine, session, assistant("fine " + "word " * 30))
    assert 0 < breaks <= 36


def test_reasoning_stays_for_its_model_and_goes_for_another(engine: Engine, session: Session) -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s" * 400}
    mine = assistant([thought, {"type": "text", "text": "yes"}], model="vendor/a")
    plain = assistant("well", model="a", reasoning_content="because")
    tell(engine, session, user("q"), mine, user("r"), plain, user("s"))
    assert engine.assemble(session, 9_000, model="a").messages[1:4:2] == [mine, plain]
    other = engine.assemble(session, 9_000, model="b").messages
    assert other[1]["content"] == [{"type": "text", "text": "yes"}]
    assert "reasoning_content" not in other[3]


def test_a_reply_of_nothing_but_foreign_reasoning_is_left_out(engine: Engine, session: Session) -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    tell(engine, session, user("q"), assistant([thought], model="a"), user("r"))
    assert engine.assemble(session, 9_000, model="b").messages == [user("q"), user("r")]


def test_unknown_host_keys_pass_through(engine: Engine, session: Session) -> None:
    odd = user("hi", x_trace={"id": [1, 2]}, channel="c")
    tell(engine, session, odd)
    shown = engine.assemble(session, 1_000).messages
    assert shown == [odd]
    shown[0]["x_trace"]["id"].append(3)
    assert engine.assemble(session, 1_000).messages == [odd]


def test_g14_a_compacted_request_of_a_long_turn_is_still_the_last_word(
    engine: Engine, session: Session
) -> None:
    long_talk(engine, session, 4)
    tell(engine, session, user("build the parser"))
    for number in range(10):
        tell(engine, session, call(f"c{number}"), result(f"c{number}", f"step {number}"))
    assert compact(engine, session, Cut(0, 0.7))
    tell(engine, session, call("n"), result("n", "new"))
    first = engine.assemble(session, 50_000)
    assert compact(engine, session, Cut(0.1, 0.5))
    second = engine.assemble(session, 50_000)
    for context in (first, second):
        spoken = [n for n, message in enumerate(context.messages) if message["role"] == "user"]
        assert context.messages[spoken[-1]] == user("build the parser")
        assert all(summary_id_of(texts(context)[n]) for n in spoken[:-1])
    tell(engine, session, assistant("done"), user("thanks"))
    third = engine.assemble(session, 50_000)
    assert is_prefix(second, third)
    assert second.prefix_epoch == third.prefix_epoch


def test_what_new_took_out_is_not_brought_back(engine: Engine, session: Session) -> None:
    tell(engine, session, user("old task"), call("c1"))
    engine.new_session(session, 0)
    tell(engine, session, result("c1", "found"), user("something else"))
    assert not any("old task" in text for text in texts(engine.assemble(session, 5_000)))


@pytest.mark.long
def test_another_process_with_another_hash_seed_gives_the_same_bytes(
    engine: Engine, session: Session
) -> None:
    long_talk(engine, session, 50)
    compact(engine, session, Cut(0, 0.3))
    tell(engine, session, call("a"), result("a", "x"), user("now"))
    program = (
        "import json, sys; from lcm_plugin import Engine, LcmConfig, Session\n"
        "engine = Engine.open(LcmConfig(database=sys.argv[1]), read_only=True)\n"
        "for budget in (500, 3000, 90000):\n"
        f"    context = engine.assemble(Session({session.key!r}), budget)\n"
        "    print(json.dumps([context.messages, context.tokens, context.prefix_epoch, context.notices]))\n"
    )
    outputs = []
    for seed in ("0", "4711"):
        ran = subprocess.run(
            [sys.executable, "-c", program, engine.config.database],
            capture_output=True, text=True, check=True,
            env={"PYTHONHASHSEED": seed, "PATH": "", "PYTHONPATH": ":".join(sys.path)},
        )  # fmt: skip
        outputs.append(ran.stdout)
    assert outputs[0] == outputs[1]
    contexts = [engine.assemble(session, budget) for budget in (500, 3_000, 90_000)]
    mine = [json.dumps([c.messages, c.tokens, c.prefix_epoch, c.notices]) for c in contexts]
    assert outputs[0].splitlines() == mine


@pytest.mark.sqlite_only
def test_no_query_is_made_per_item(engine: Engine, session: Session) -> None:
    counts = []
    for turns in (30, 120):
        lane = Session(f"agent:main:{turns}")
        long_talk(engine, lane, turns, words=3)
        tell(engine, lane, user("now"))
        with Engine.open(engine.config) as cold:
            made: list[str] = []
            with cold.store.read() as reader:
                reader.db.set_trace_callback(made.append)
            cold.assemble(lane, 100_000)
            counts.append(len(made))
    assert counts[0] == counts[1] <= 20


def test_an_empty_store_gives_an_empty_context(engine: Engine, session: Session) -> None:
    assert engine.assemble(session, 1_000) == Context([], 0)
    tell(engine, session, assistant("hi"))
    assert engine.assemble(session, 1_000).messages == []


def test_a_greeting_before_the_first_request_is_opened_with_a_notice(
    engine: Engine, session: Session
) -> None:
    tell(engine, session, assistant("hi, how can I help?"), user("q"))
    shown = engine.assemble(session, 1_000).messages
    assert is_notice(shown[0]["content"])
    assert shown[1:] == [assistant("hi, how can I help?"), user("q")]


def test_the_system_note_names_registered_tools_and_never_changes(engine: Engine, session: Session) -> None:
    from lcm_plugin.recall.tools import TOOL_NAMES

    note = engine.system_note(session)
    long_talk(engine, session, 5)
    assert engine.system_note(session) == note
    named = {word.strip("-:,.") for word in note.split() if word.startswith("lcm_")}
    assert named == set(TOOL_NAMES)
    assert engine.count_tokens(note) < 250


def test_old_system_messages_take_no_room(engine: Engine, session: Session) -> None:
    for number in range(12):
        tell(engine, session, {"role": "system", "content": f"version {number} " + "rule " * 300})
        tell(engine, session, user(f"question {number}"), assistant(f"answer {number}"))
    tell(engine, session, user("now"))
    context = engine.assemble(session, 2_100)
    assert not context.notices
    assert len(context.messages) == 1 + 2 * 12 + 1


@pytest.mark.long
def test_a_request_from_before_the_window_stays_until_the_next_step(engine: Engine, session: Session) -> None:
    tell(engine, session, user("the long task"))
    before = None
    for number in range(120):
        tell(engine, session, call(f"c{number}"), result(f"c{number}", "found " * 40))
        if number % 40 == 39:
            tell(engine, session, assistant("done"), user(f"task {number}"))
        context = engine.assemble(session, 2_500)
        if before is not None:
            assert is_prefix(before, context) == (before.prefix_epoch == context.prefix_epoch)
        before = context


def test_a_large_overhead_leaves_the_newest_call_and_result_in_a_small_window(
    engine: Engine, session: Session
) -> None:
    talk = [user("old " * 300), assistant("yes " * 300), user("Read the list, please.")]
    engine.ingest(session, [*talk, call("c1"), result("c1", "one two three " * 160)])
    context = engine.assemble(session, 4_000, overhead_tokens=2_900)
    assert [message.get("tool_call_id") for message in context.messages][-1] == "c1"
    assert context.messages[-1]["content"] == "one two three " * 160
    assert context.tokens <= 1_100
