"""`Memory`: a program that calls a model itself never loses a message and never overfills the window."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from fakes.processes import piped, run
from fakes.validity import problems_of
from invariants import assert_sound
from loop import FACT, LOOK, QUESTION, WINDOW, calling, model, request, say, vague

from lcm_plugin import AsyncMemory, CompletionRequest, LcmConfig, Memory
from lcm_plugin.errors import InputError, StoreUnavailable
from lcm_plugin.types import Usage

TURNS = 60
LOOP = Path(__file__).with_name("loop.py")


@pytest.mark.long
def test_60_turns_stay_within_the_window_lose_nothing_and_find_the_first_fact(tmp_path: Path) -> None:
    seen: list[list[dict[str, Any]]] = []
    with Memory(tmp_path / "talk.db", window=WINDOW, system="You are brief.", completer=vague) as memory:
        for turn in range(1, TURNS + 1):
            answer = say(memory, request(turn, TURNS), turn, seen.append)
            memory.engine.wait_idle(60)
        overhead = memory.engine.count_tokens([LOOK, *memory.tools])
        for messages in seen:
            assert problems_of(messages) == []
            assert memory.engine.count_tokens(messages) + overhead <= WINDOW
        assert any("<summary" in str(messages) for messages in seen)
        # Summarised away, and quoted for the question before any tool was called.
        [quoted] = [message["content"] for message in seen[-2] if FACT in str(message)]
        assert quoted.startswith("<recalled>")
        assert not any(FACT in str(messages) for messages in seen[-10:-2])
        assert FACT in answer["content"]
        stored = memory.messages()
    users = [message["content"] for message in stored if message["role"] == "user"]
    assert users == [request(turn, TURNS) for turn in range(1, TURNS + 1)]
    assert len(stored) == 4 * TURNS
    assert_sound(tmp_path / "talk.db")


@pytest.mark.long
def test_coroutines_have_the_same(tmp_path: Path) -> None:
    async def talk() -> tuple[list[dict[str, Any]], dict[str, Any]]:
        async with AsyncMemory(tmp_path / "talk.db", window=WINDOW, completer=vague) as memory:
            for turn in range(1, TURNS + 1):
                await memory.add(request(turn, TURNS))
                while True:
                    messages = await memory.context()
                    assert problems_of(messages) == []
                    answer = model(messages, turn)
                    await memory.add(answer)
                    if not await memory.run_tools(answer, lambda name, given: "7 bar"):
                        break
                await memory.end_turn(Usage(prompt_tokens=900))
            return await memory.messages(), answer

    stored, answer = asyncio.run(talk())
    assert len(stored) == 4 * TURNS
    assert FACT in answer["content"]


def test_two_coroutines_at_once_do_not_mix_up_their_sessions(tmp_path: Path) -> None:
    async def talk(session: str) -> list[dict[str, Any]]:
        async with AsyncMemory(tmp_path / "talk.db", session=session) as memory:
            for number in range(10):
                await memory.add(f"{session} {number}", {"role": "assistant", "content": "yes"})
            return await memory.messages()

    async def both() -> list[list[dict[str, Any]]]:
        return await asyncio.gather(talk("agent:a:main"), talk("agent:b:main"))

    for session, stored in zip(("agent:a:main", "agent:b:main"), asyncio.run(both()), strict=True):
        assert [m["content"] for m in stored if m["role"] == "user"] == [f"{session} {n}" for n in range(10)]


def test_killed_in_the_middle_and_started_again_it_goes_on_with_everything(tmp_path: Path) -> None:
    database = tmp_path / "talk.db"
    command = (LOOP, database, str(TURNS))
    with piped(*command) as (_, printed):
        next(line for line in printed if line.startswith("30 "))
    # What the first run held stays held for a while; a turn past the hard limit would wait for it.
    environment = {**os.environ, "LCM_HARD_WAIT_MS": "0"}
    done = run(*command, env=environment)
    assert done.returncode == 0, done.stderr
    assert FACT in done.stdout.splitlines()[-1]
    with Memory(database) as memory:
        stored = memory.messages()
    users = [message["content"] for message in stored if message["role"] == "user"]
    assert users == [request(turn, TURNS) for turn in range(1, TURNS + 1)]
    assert_sound(database)


def test_another_tools_call_without_a_function_for_it_is_answered_with_an_error(tmp_path: Path) -> None:
    with Memory(tmp_path / "talk.db") as memory:
        asking = calling("look", {"gauge": 1}, 1)
        memory.add("look at it", asking)
        assert memory.run_tools(asking) == 1
        assert "there is no tool 'look'" in memory.messages()[-1]["content"]
        assert problems_of(memory.context()) == []


def test_arguments_that_are_no_json_object_are_answered_with_an_error(tmp_path: Path) -> None:
    with Memory(tmp_path / "talk.db") as memory:
        for arguments in ("{not json", "[1]"):
            assert memory.call_tool("lcm_grep", arguments)["error_code"] == "INVALID_ARGUMENTS"


def test_a_models_garbled_call_of_ones_own_tool_is_answered_and_the_loop_goes_on(tmp_path: Path) -> None:
    with Memory(tmp_path / "talk.db") as memory:
        garbled = calling("look", {"gauge": 1}, 1)
        garbled["tool_calls"][0]["function"]["arguments"] = '{"gauge": '
        memory.add("look at it", garbled)
        assert memory.run_tools(garbled, lambda name, given: "never called") == 1
        assert "the arguments are not JSON" in memory.messages()[-1]["content"]
        assert problems_of(memory.context()) == []


def test_what_was_done_before_a_tool_failed_is_kept(tmp_path: Path) -> None:
    def look(name: str, given: dict[str, Any]) -> str:
        if given["gauge"] == 2:
            raise RuntimeError("the gauge fell off")
        return "7 bar"

    with Memory(tmp_path / "talk.db") as memory:
        asking = calling("look", {"gauge": 1}, 1)
        asking["tool_calls"] += calling("look", {"gauge": 2}, 2)["tool_calls"]
        memory.add("look at both", asking)
        with pytest.raises(RuntimeError, match="fell off"):
            memory.run_tools(asking, look)
        assert memory.messages()[-1]["content"] == "7 bar"
        assert problems_of(memory.context()) == []


def test_a_message_that_cannot_be_stored_is_refused_and_nothing_of_it_is_kept(tmp_path: Path) -> None:
    with Memory(tmp_path / "talk.db") as memory:
        with pytest.raises(InputError, match="message 1: a message needs a role"):
            memory.add("hello", {"content": "no role"})
        assert memory.messages() == []
        assert memory.add("hello") == 1


def test_honest_repeats_are_stored_each_time(tmp_path: Path) -> None:
    with Memory(tmp_path / "talk.db") as memory:
        for _ in range(3):
            memory.add("go on")
            memory.add({"role": "assistant", "content": "ok"})
        assert [message["content"] for message in memory.messages()] == ["go on", "ok"] * 3


def test_a_context_that_a_provider_refused_comes_smaller(tmp_path: Path) -> None:
    with Memory(tmp_path / "talk.db", window=20_000, config=LcmConfig(fresh_tail_count=4)) as memory:
        for turn in range(1, 60):
            memory.add(request(turn, 60), {"role": "assistant", "content": f"noted as {turn} " + "so " * 60})
        before = memory.engine.count_tokens(memory.context())
        memory.engine.wait_idle(60)
        after = memory.engine.count_tokens(memory.context(overflow="context_length_exceeded"))
        assert after < before


@pytest.mark.long
def test_ones_own_model_writes_the_summaries(tmp_path: Path) -> None:
    asked: list[str] = []

    def write(order: CompletionRequest) -> str:
        asked.append(order.purpose)
        return "They read gauges of pumps and valves, and noted what each of them said."

    with Memory(tmp_path / "talk.db", window=WINDOW, completer=write) as memory:
        for turn in range(1, 30):
            say(memory, request(turn, TURNS), turn, lambda messages: None)
            memory.engine.wait_idle(60)
        assert "They read gauges" in str(memory.context())
    assert "summary" in asked


def test_settings_and_database_are_taken_as_given(tmp_path: Path) -> None:
    config = LcmConfig(fresh_tail_count=3)
    with Memory(tmp_path / "talk.db", config=config) as memory:
        assert memory.engine.config.fresh_tail_count == 3
        assert memory.engine.store.location == str(tmp_path / "talk.db")
    with pytest.raises(InputError, match="window must be at least 1"):
        Memory(tmp_path / "talk.db", window=0)
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable):
        Memory(tmp_path / "file" / "talk.db")


def test_the_question_of_the_last_turn_is_answered_only_by_a_search() -> None:
    asked = model([{"role": "user", "content": QUESTION}], 60)
    assert asked["tool_calls"][0]["function"]["name"] == "lcm_grep"


def test_an_async_memory_must_be_opened_first() -> None:
    with pytest.raises(InputError, match="open it first"):
        asyncio.run(AsyncMemory("unused.db").add("hello"))


def test_messages_can_be_taken_back_and_the_talk_replaced(tmp_path: Path) -> None:
    with Memory(tmp_path / "talk.db", window=16_000) as memory:
        memory.add("Book Bristol.", {"role": "assistant", "content": "Booked."})
        assert [message["content"] for message in memory.take_back(2)] == ["Book Bristol.", "Booked."]
        assert memory.take_back() == []
        memory.add("Grand, 2 nights.")
        assert [m["content"] for m in memory.context() if m["role"] != "system"] == ["Grand, 2 nights."]
        assert memory.replace("Grand, 2 nights.", {"role": "assistant", "content": "Fine."}, "Thanks.") == 2
        assert memory.replace("Grand, 2 nights.", {"role": "assistant", "content": "Which town?"}) == 1
        memory.add("Bristol after all.")
        shown = [m["content"] for m in memory.context() if m["role"] != "system"]
        assert shown == ["Grand, 2 nights.", "Which town?", "Bristol after all."]
        assert len(memory.messages()) == 7
