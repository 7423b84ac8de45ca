"""The context engine on a real core, called as the host calls it; the host itself is not needed."""

from __future__ import annotations

import copy
import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.answers import summary_of
from fakes.validity import problems_of, text_of

from lcm_plugin import CompletionRequest, CompletionResult, LcmConfig
from lcm_plugin.compaction.policy import Call, limits_for
from lcm_plugin.hosts.hermes.commands import Commands
from lcm_plugin.hosts.hermes.completer import AuxiliaryCompleter
from lcm_plugin.hosts.hermes.engine import HermesEngine
from lcm_plugin.hosts.hermes.hooks import Hooks
from lcm_plugin.hosts.hermes.runtime import Runtime

WINDOW = 64_000
Message = dict[str, Any]


class Summaries(AuxiliaryCompleter):
    """Answers as the host's auxiliary client would."""

    def __call__(self, request: CompletionRequest) -> CompletionResult:
        return CompletionResult(summary_of(text_of(request.messages[-1]["content"])), "fake-model")


@pytest.fixture
def make_runtime(tmp_path: Path) -> Iterator[Callable[..., Runtime]]:
    made: list[Runtime] = []

    def make(patience: float = 30, **settings: Any) -> Runtime:
        values = {"database": str(tmp_path / "lcm.db"), "fresh_tail_count": 4, "leaf_chunk_tokens": 2_000}
        made.append(Runtime(lambda: LcmConfig(**{**values, **settings}), Summaries(), patience=patience))
        return made[-1]

    yield make
    for runtime in made:
        runtime.close()


@pytest.fixture
def runtime(make_runtime: Callable[..., Runtime]) -> Runtime:
    return make_runtime()


def agent(runtime: Runtime, session_id: str = "s1", platform: str = "cli") -> HermesEngine:
    """An engine as the host makes one for an agent."""
    engine = copy.deepcopy(HermesEngine(runtime))
    engine.update_model("fake-model", WINDOW, base_url="http://127.0.0.1/v1", api_key="k", provider="custom")
    engine.bind_session_state(session_db=None, session_id=session_id)
    engine.on_session_start(session_id, platform=platform, model="fake-model", context_length=WINDOW)
    return engine


def talk(turns: int, words: int = 200) -> list[Message]:
    said = []
    for number in range(turns):
        said.append(
            {"role": "user", "content": f"question {number} " + "about gardens and rivers " * (words // 4)}
        )
        said.append({"role": "assistant", "content": f"answer {number}"})
    return said


def stored(runtime: Runtime, key: str) -> list[Message]:
    engine = runtime.engine()
    assert engine is not None
    found = [c for c in engine.library.conversations() if c.session_key == key]
    return [engine.library.whole(row) for c in found for row in engine.library.messages(c.conversation_id)]


def test_a_copy_is_unbound_and_shares_the_core(runtime: Runtime) -> None:
    first = agent(runtime)
    second = copy.deepcopy(first)
    assert second.session_id == ""
    assert second.session is None
    assert second.runtime is first.runtime


def test_making_and_copying_an_engine_opens_nothing(runtime: Runtime, tmp_path: Path) -> None:
    agent(runtime)
    assert list(tmp_path.iterdir()) == []


def test_tools_are_bare_functions_without_unions(runtime: Runtime) -> None:
    schemas = HermesEngine(runtime).get_tool_schemas()
    assert {schema["name"] for schema in schemas} == {
        "lcm_grep",
        "lcm_describe",
        "lcm_expand",
        "lcm_expand_query",
    }
    assert not any(isinstance(kind, list) for kind in _types(schemas))


def _types(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [item for k, v in value.items() for item in ([v] if k == "type" else _types(v))]
    return [item for v in value for item in _types(v)] if isinstance(value, list) else []


def test_a_tool_answers_json_and_sees_what_was_just_said(runtime: Runtime) -> None:
    engine = agent(runtime)
    messages = [{"role": "user", "content": "The password of the shed is heron."}]
    found = json.loads(engine.handle_tool_call("lcm_describe", {"id": "msg_1"}, messages=messages))
    assert "heron" in json.dumps(found)
    assert "error" in json.loads(engine.handle_tool_call("lcm_nothing", {}, messages=messages))


def test_an_unbound_engine_searches_nothing(runtime: Runtime) -> None:
    agent(runtime).before_request([{"role": "user", "content": "secret"}], {})
    answer = json.loads(
        copy.deepcopy(HermesEngine(runtime)).handle_tool_call("lcm_grep", {"pattern": "secret"})
    )
    assert "no session" in answer["error"]


@pytest.mark.parametrize("tokens", [None, 0, -1, 10])
def test_nothing_is_asked_for_below_the_threshold(runtime: Runtime, tokens: int | None) -> None:
    engine = agent(runtime)
    engine.last_prompt_tokens = -1
    assert engine.should_compress(tokens) is False


def test_the_providers_count_outweighs_an_estimate_that_is_too_low(runtime: Runtime) -> None:
    engine = agent(runtime)
    messages = talk(40)
    engine.before_request(messages, {})
    assert not engine.should_compress(engine.threshold_tokens - 1)
    engine.update_from_response({"prompt_tokens": engine.threshold_tokens - 1, "completion_tokens": 500})
    assert engine.should_compress(engine.threshold_tokens - 1)
    engine.compress(messages, current_tokens=engine.threshold_tokens - 1)
    assert not engine.should_compress(engine.threshold_tokens - 1)


def test_compress_gives_a_smaller_valid_list_and_leaves_its_input_alone(runtime: Runtime) -> None:
    engine = agent(runtime)
    messages = [*talk(60), {"role": "user", "content": "and now?", "_db_persisted": True}]
    before = copy.deepcopy(messages)
    assert engine.should_compress(60_000)
    smaller = engine.compress(
        messages, current_tokens=60_000, focus_topic="gardens", memory_context="m", later=1
    )
    assert messages == before
    assert len(smaller) < len(messages)
    assert problems_of(smaller) == []
    assert smaller[-1]["content"].endswith("and now?")
    assert "_db_persisted" not in smaller[-1]
    assert engine.compression_count == 1
    assert engine._last_compression_made_progress
    assert [m["content"] for m in stored(runtime, "agent:main:cli:s1")] == [m["content"] for m in before]


def test_the_smaller_list_and_the_old_one_store_nothing_again(runtime: Runtime) -> None:
    engine = agent(runtime)
    messages = [*talk(60), {"role": "user", "content": "and now?"}]
    smaller = engine.compress(messages, current_tokens=60_000, force=True)
    engine.on_session_end("s1", messages)
    engine.on_session_start("s1", boundary_reason="compression", old_session_id="s1", platform="cli")
    engine.after_turn([*smaller, {"role": "assistant", "content": "this"}])
    engine.on_session_end("s1", [*smaller, {"role": "assistant", "content": "this"}])
    assert len(stored(runtime, "agent:main:cli:s1")) == len(messages) + 1


def test_a_list_that_cannot_shrink_comes_back_itself_and_is_not_asked_about_again(
    make_runtime: Callable[..., Runtime],
) -> None:
    engine = agent(make_runtime(fresh_tail_count=64))
    messages = [{"role": "user", "content": "one " * 20_000}]
    engine.before_request(messages, {})
    if engine.should_compress(50_000):
        assert engine.compress(messages, current_tokens=50_000) is messages
    assert engine.should_compress(50_100) is False


def test_the_host_reads_the_counts_of_the_newest_call(runtime: Runtime) -> None:
    engine = agent(runtime)
    engine.awaiting_real_usage_after_compression, engine.last_prompt_tokens = True, -1
    assert engine.should_defer_preflight_to_real_usage(50_000) is False
    assert engine.get_active_compression_failure_cooldown() is None
    engine.update_from_response({})
    assert (engine.awaiting_real_usage_after_compression, engine.last_prompt_tokens) == (False, -1)
    engine.update_from_response({"prompt_tokens": 70, "completion_tokens": 9, "cache_read_tokens": 5})
    counts = (engine.last_prompt_tokens, engine.last_completion_tokens, engine.last_total_tokens)
    assert (*counts, engine.last_real_prompt_tokens) == (70, 9, 79, 70)
    engine.on_session_reset()
    assert engine.last_total_tokens == engine.compression_count == 0


def test_a_compaction_under_a_lock_gives_the_very_list_back_and_tells_the_host_why(
    make_runtime: Callable[..., Runtime], tmp_path: Path
) -> None:
    engine = agent(make_runtime(patience=0.2))
    messages = [*talk(60), {"role": "user", "content": "and now?"}]
    engine.before_request(messages[:2], {})
    lock = sqlite3.connect(tmp_path / "lcm.db", isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    assert engine.compress(messages, current_tokens=60_000) is messages
    assert engine._last_compress_aborted
    assert "locked" in str(engine._last_summary_error)
    assert not engine._last_compression_made_progress
    assert engine.compression_count == 0
    lock.execute("ROLLBACK")
    lock.close()
    assert engine.runtime.outbox.drain(30)
    assert len(engine.compress(messages, current_tokens=60_000, force=True)) < len(messages)
    assert not engine._last_compress_aborted
    assert engine._last_summary_error is None


def test_a_reply_that_ends_the_list_is_kept(runtime: Runtime) -> None:
    smaller = agent(runtime).compress(talk(60), current_tokens=60_000, force=True)
    assert smaller[-1] == {"role": "assistant", "content": "answer 59"}


def test_a_new_session_is_kept_apart_even_when_the_old_list_is_handed_over_for_it(runtime: Runtime) -> None:
    engine = agent(runtime)
    old = talk(2, 8)
    engine.after_turn(old)
    engine.on_session_reset()
    assert engine.session_id == ""
    engine.bind_session_state(None, "s2")
    engine.on_session_end("s2", old)
    assert stored(runtime, "agent:main:cli:s2") == []
    engine.after_turn([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}])
    assert len(stored(runtime, "agent:main:cli:s2")) == 2
    assert stored(runtime, "agent:main:cli:s1") == old


def test_a_session_that_a_compaction_renamed_stays_in_its_lane(runtime: Runtime) -> None:
    engine = agent(runtime)
    engine.after_turn(talk(1, 8))
    engine.on_session_start("s2", boundary_reason="compression", old_session_id="s1", platform="cli")
    engine.after_turn(talk(2, 8))
    assert len(stored(runtime, "agent:main:cli:s1")) == 4
    assert agent(runtime, "s2").session == engine.session


class Compacted:
    """The host's sessions: a compaction ended s1 and made s2."""

    def get_session(self, session_id: str) -> dict[str, str]:
        return {"s1": {"end_reason": "compression"}, "s2": {"parent_session_id": "s1"}}[session_id]


def test_a_session_that_a_compaction_made_is_no_branch_when_the_process_died_before_its_first_turn(
    runtime: Runtime,
) -> None:
    smaller = agent(runtime).compress(
        [*talk(60), {"role": "user", "content": "and now?"}], current_tokens=60_000, force=True
    )
    before = len(stored(runtime, "agent:main:cli:s1"))
    engine = copy.deepcopy(HermesEngine(runtime))
    engine.update_model("fake-model", WINDOW, base_url="http://127.0.0.1/v1", api_key="k", provider="custom")
    engine.bind_session_state(session_db=Compacted(), session_id="s2")
    engine.after_turn([*smaller, {"role": "assistant", "content": "there"}])
    assert stored(runtime, "agent:main:cli:s1")[before:] == [{"role": "assistant", "content": "there"}]


def test_a_branch_begins_with_the_summaries_it_branched_off_with(runtime: Runtime) -> None:
    smaller = agent(runtime).compress(
        [*talk(60), {"role": "user", "content": "and now?"}], current_tokens=60_000, force=True
    )
    branch = agent(runtime, "branch")
    branch.after_turn([*smaller, {"role": "assistant", "content": "there"}])
    first = stored(runtime, "agent:main:cli:branch")[0]["content"]
    assert first.startswith("From the conversation that this one branched off:\n<summary ")
    branch.after_turn(
        [*smaller, {"role": "assistant", "content": "there"}, {"role": "user", "content": "on"}]
    )
    texts = [m["content"] for m in stored(runtime, "agent:main:cli:branch")]
    assert len(texts) == len(set(texts))
    assert texts[-1] == "on"


def test_two_sessions_at_once_keep_their_own_rows(runtime: Runtime) -> None:
    one, two = agent(runtime, "one"), agent(runtime, "two", "telegram")
    for number in range(3):
        one.after_turn([{"role": "user", "content": f"one {n}"} for n in range(number + 1)])
        two.after_turn([{"role": "user", "content": f"two {n}"} for n in range(number + 1)])
    assert [m["content"] for m in stored(runtime, "agent:main:cli:one")] == ["one 0", "one 1", "one 2"]
    assert [m["content"] for m in stored(runtime, "agent:main:telegram:two")] == ["two 0", "two 1", "two 2"]


def test_a_fork_that_borrows_a_session_id_leaves_no_trace(runtime: Runtime) -> None:
    hooks = Hooks(runtime)
    owner = agent(runtime, "s1")
    owner.get_active_compression_failure_cooldown()
    hooks.post_llm_call(session_id="s1", conversation_history=[{"role": "user", "content": "mine"}])
    fork = agent(runtime, "fork")
    fork.get_active_compression_failure_cooldown()
    hooks.pre_api_request(session_id="s1", conversation_history=[{"role": "user", "content": "review it"}])
    assert [m["content"] for m in stored(runtime, "agent:main:cli:s1")] == ["mine"]


def test_status_names_the_session_and_never_shows_the_hosts_sentinel(runtime: Runtime) -> None:
    engine = agent(runtime)
    engine.last_prompt_tokens = -1
    status = engine.get_status()
    assert status["session_key"] == "agent:main:cli:s1"
    assert status["last_prompt_tokens"] == 0
    assert status["usage_percent"] == 0


def test_a_threshold_override_and_a_lowered_threshold_hold(make_runtime: Callable[..., Runtime]) -> None:
    rule = {"match": {"model": "fake-model"}, "contextThreshold": 0.5}
    engine = agent(make_runtime(context_threshold_overrides=[rule]))
    assert engine.threshold_tokens == WINDOW // 2
    engine.threshold_tokens = WINDOW // 4
    assert engine.shrinker.budget() == WINDOW // 2


def test_the_threshold_counts_the_tools_of_a_whole_request_in(runtime: Runtime) -> None:
    engine = agent(runtime)
    engine.before_request(talk(2), {"request_messages": [], "request": {"_truncated": True, "preview": "{"}})
    assert engine.threshold_tokens == int(0.75 * WINDOW)
    tools = [
        {"type": "function", "function": {"name": f"tool_{n}", "description": "does " * 400}}
        for n in range(30)
    ]
    engine.sends({"messages": [{"role": "system", "content": "be brief"}], "tools": tools})
    fixed = engine.shrinker.overhead
    assert fixed > 30 * 400
    assert engine.threshold_tokens == fixed + int(0.75 * (WINDOW - fixed))
    engine.threshold_tokens = fixed + int(0.75 * (WINDOW - fixed)) // 2
    assert engine.shrinker.budget() == pytest.approx(fixed + (WINDOW - fixed) // 2, abs=2)


def test_only_what_came_since_the_providers_count_is_estimated(runtime: Runtime) -> None:
    engine = agent(runtime)
    messages = talk(60)
    engine.before_request(messages, {})
    core = runtime.engine()
    assert core is not None
    # The host's estimate is a fifth too high, as it is for plain words.
    engine.should_compress(engine.threshold_tokens - 100)
    engine.update_from_response({"prompt_tokens": engine.threshold_tokens * 4 // 5, "completion_tokens": 10})
    assert not engine.should_compress(engine.threshold_tokens + 1_000)
    assert engine.should_compress(engine.threshold_tokens * 13 // 10)


def test_what_is_owed_is_summarised_before_the_list_is_full(make_runtime: Callable[..., Runtime]) -> None:
    runtime = make_runtime(fresh_tail_count=64, leaf_chunk_tokens=None)
    engine, messages = agent(runtime), talk(40, words=2_000)
    session = engine.session
    core = runtime.engine()
    assert core is not None
    assert session is not None
    made: list[int] = []
    for end in range(2, len(messages), 2):
        listing = messages[:end]
        engine.before_request(listing[:-1], {})
        engine.after_turn(listing)
        assert core.wait_idle(30)
        made.append(sum(item.kind == "summary" for item in core.context_items(session)))
        if core.count_tokens(messages[: end + 2]) > engine.threshold_tokens:
            break
    assert core.count_tokens(listing) < engine.threshold_tokens
    assert made == [0] * (len(made) - 1) + [1]
    bounds = limits_for(core.config, Call(WINDOW))
    raw = sum(item.tokens for item in core.context_items(session) if item.kind == "message")
    turn = core.count_tokens(messages[:2])
    assert bounds.verbatim - turn <= raw <= bounds.verbatim + turn


def test_what_a_provider_compacts_on_its_side_is_kept_as_it_is_and_compacted_by_nobody_else(
    runtime: Runtime,
) -> None:
    engine, messages = agent(runtime), talk(120, words=500)
    messages[41]["codex_reasoning_items"] = [
        {"type": "compaction", "encrypted_content": "gAAAA", "_issuer": "x"}
    ]
    engine.update_model("gpt-x", WINDOW, api_mode="codex_responses")
    core, session = runtime.engine(), engine.session
    assert core is not None
    assert session is not None
    for end in (60, 240):
        engine.before_request(messages[: end - 1], {})
        engine.after_turn(messages[:end])
        assert core.wait_idle(30)
    assert not engine.should_compress(engine.threshold_tokens * 2)
    assert engine.compress(messages, current_tokens=engine.threshold_tokens * 2) is messages
    assert [item.kind for item in core.context_items(session)] == ["message"] * len(messages)
    assert stored(runtime, "agent:main:cli:s1") == messages
    # Another model: its provider does not, so we do again.
    engine.update_model("fake-model", WINDOW, api_mode="chat_completions")
    assert engine.should_compress(engine.threshold_tokens * 2)
    smaller = engine.compress(messages, current_tokens=engine.threshold_tokens * 2)
    assert core.count_tokens(smaller) < core.count_tokens(messages)


def test_a_database_that_cannot_be_used_is_told_once_and_changes_nothing(
    make_runtime: Callable[..., Runtime], caplog: pytest.LogCaptureFixture
) -> None:
    runtime = make_runtime(database="/proc/nowhere/lcm.db")
    engine = agent(runtime)
    messages = talk(3)
    engine.before_request(messages, {})
    engine.after_turn(messages)
    assert engine.compress(messages, current_tokens=60_000) is messages
    assert "error" in json.loads(engine.handle_tool_call("lcm_grep", {"pattern": "x"}, messages=messages))
    told = [r for r in caplog.records if "LCM is not working" in r.getMessage()]
    assert len(told) == 1
    assert "/proc/nowhere/lcm.db" in told[0].getMessage()


def test_after_three_failed_turns_the_next_answer_says_so_once(make_runtime: Callable[..., Runtime]) -> None:
    runtime = make_runtime(database="/proc/nowhere/lcm.db")
    engine, hooks = agent(runtime), Hooks(runtime)
    answers = []
    for turns in range(1, 6):
        answers.append(hooks.transform_llm_output(session_id="s1", response_text="Fine."))
        engine.after_turn(talk(turns))
    assert [bool(answer) for answer in answers] == [False, False, False, True, False]
    assert str(answers[3]).startswith("Fine.\n\nLCM does not work here: turn failed 3 times in a row")
    assert "turn failed 5 times in a row" in Commands(runtime).slash("status")


def test_a_database_that_breaks_is_told_once_and_what_was_said_meanwhile_is_stored_in_the_end(
    runtime: Runtime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = agent(runtime)
    messages = talk(2)
    engine.after_turn(messages)
    other = sqlite3.connect(tmp_path / "lcm.db", isolation_level=None)
    other.execute(
        "CREATE TRIGGER broken BEFORE INSERT ON messages BEGIN SELECT RAISE(ABORT, 'broken disk'); END"
    )
    for turns in (3, 4, 5):
        messages = talk(turns)
        engine.before_request(messages, {})
        engine.after_turn(messages)
    told = [
        r for r in caplog.records if r.levelname in ("WARNING", "ERROR") and r.name == "lcm_plugin.hermes"
    ]
    assert len(told) == 1
    assert "LCM is not working" in told[0].getMessage()
    assert "broken disk" in engine.get_status()["problem"]
    other.execute("DROP TRIGGER broken")
    other.close()
    engine.after_turn(messages)
    assert engine.get_status()["problem"] == ""
    assert stored(runtime, "agent:main:cli:s1") == messages


def test_the_core_learns_how_the_provider_counts_from_what_was_really_sent(runtime: Runtime) -> None:
    engine = agent(runtime)
    request = {"request_messages": [{"role": "system", "content": "be brief " * 100}], "tool_count": 0}
    core = runtime.engine()
    assert core is not None
    for turns in range(5, 40, 3):
        messages = [*talk(turns), {"role": "user", "content": "and now?"}]
        engine.before_request(messages, request)
        sent = core.count_tokens(messages) + engine.shrinker.overhead
        engine.update_from_response({"prompt_tokens": 2 * sent + 500, "completion_tokens": 1})
    assert engine.shrinker.budget() == WINDOW
    assert core.calibration.factor("fake-model") == pytest.approx(2, rel=0.05)
    assert core.calibration.factor("another model") == 1


class Records:
    """The host's own records of a session: what of its list is not taken back."""

    def __init__(self, messages: list[Message]) -> None:
        self.messages = messages

    def get_messages_as_conversation(self, session_id: str) -> list[Message]:
        return self.messages


def undone_and_then(runtime: Runtime, records: list[Message] | None) -> tuple[HermesEngine, list[Message]]:
    """A talk whose last turn is not in the list that is made smaller, and that list."""
    engine = agent(runtime)
    messages = [*talk(60), {"role": "user", "content": "The password is swordfish."}]
    engine.after_turn([*messages, {"role": "assistant", "content": "Noted: swordfish."}])
    kept = messages[:-1]
    engine.bind_session_state(Records(kept if records is None else records), "s1")
    return engine, engine.compress(kept, current_tokens=60_000, force=True)


def taken_back(runtime: Runtime) -> int:
    core = runtime.engine()
    assert core is not None
    (conversation,) = core.library.conversations()
    rows = core.library.messages(conversation.conversation_id)
    return sum(row.head.withdrawn_at is not None for row in rows)


def test_what_was_undone_before_a_compaction_is_in_no_smaller_list_and_no_summary(
    make_runtime: Callable[..., Runtime],
) -> None:
    runtime = make_runtime(fresh_tail_count=1)
    engine, smaller = undone_and_then(runtime, None)
    assert len(smaller) < 120
    assert "swordfish" not in json.dumps(smaller)
    assert taken_back(runtime) == 2
    for number in range(8):
        smaller += [
            {"role": "user", "content": f"later question {number} " + "about gardens and rivers " * 300},
            {"role": "assistant", "content": f"later answer {number}"},
        ]
        engine.after_turn(smaller)
    smaller = engine.compress(smaller, current_tokens=60_000, force=True)
    assert "swordfish" not in json.dumps(smaller)
    core = runtime.engine()
    assert core is not None
    found = core.call_tool(engine.session, "lcm_grep", {"pattern": "swordfish"})  # type: ignore[arg-type]
    assert [hit["taken_back"] for hit in found["hits"]] == [True, True]


def test_a_compaction_of_the_older_part_of_the_list_takes_nothing_back(runtime: Runtime) -> None:
    """``/compress here`` keeps the newest turns itself and puts them behind the smaller list."""
    _, smaller = undone_and_then(runtime, [{"role": "assistant", "content": "Noted: swordfish."}])
    assert len(smaller) < 120
    assert "swordfish" not in json.dumps(smaller)
    assert smaller[-1] == {"role": "assistant", "content": "answer 59"}
    assert taken_back(runtime) == 0


def test_an_answer_made_again_takes_the_first_one_back(runtime: Runtime) -> None:
    engine = agent(runtime)
    before, asked = talk(3), {"role": "user", "content": "In which town?"}
    engine.after_turn([*before, asked, {"role": "assistant", "content": "Bristol."}])
    engine.before_request([*before, asked], {})
    engine.after_turn([*before, asked, {"role": "assistant", "content": "Bath."}])
    assert taken_back(runtime) == 1
    core = runtime.engine()
    assert core is not None
    assert "Bristol" not in json.dumps(core.assemble(engine.session, WINDOW).messages)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("prompt is too long: 40000 tokens > 20000 maximum", 20_000),
        ("Request payload too large", None),
    ],
)
def test_a_refused_request_is_made_smaller_by_what_its_error_says(
    runtime: Runtime, text: str, limit: int | None
) -> None:
    hooks, engine = Hooks(runtime), agent(runtime)
    messages = [*talk(60, 600), {"role": "user", "content": "and now?"}]
    engine.before_request(messages, {})
    core = runtime.engine()
    assert core is not None
    before = core.count_tokens(messages)
    reason = "context_overflow" if limit else "payload_too_large"
    hooks.api_request_error(session_id="s1", reason=reason, error={"type": "BadRequest", "message": text})
    smaller = engine.compress(messages, current_tokens=before)
    assert core.count_tokens(smaller) < (limit or 0.81 * before)
    assert smaller[-1]["content"].endswith("and now?")
    assert core.windows.limit("fake-model", WINDOW) == limit
    assert (core.windows.ceiling("fake-model") or WINDOW) < before


def test_errors_about_something_else_teach_nothing(runtime: Runtime) -> None:
    hooks, engine = Hooks(runtime), agent(runtime)
    messages = [*talk(60), {"role": "user", "content": "and now?"}]
    engine.before_request(messages, {})
    hooks.api_request_error(session_id="s1", reason="rate_limit", error={"message": "Too many requests"})
    engine.compress(messages, current_tokens=60_000)
    hooks.api_request_error(session_id="s1", reason="context_overflow", error={"message": "too long"})
    engine.before_request(messages, {})
    engine.compress(messages, current_tokens=60_000)
    core = runtime.engine()
    assert core is not None
    assert core.windows.ceiling("fake-model") is None
