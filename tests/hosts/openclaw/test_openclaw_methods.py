"""What the plugin in OpenClaw is answered: turns committed once, contexts of its own messages and new ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lcm_plugin import LcmConfig, Session
from lcm_plugin.hosts.openclaw.messages import plan, to_core
from lcm_plugin.hosts.openclaw.methods import OpenclawMethods
from lcm_plugin.plugin import LcmPlugin

KEY = "agent:main:main"
SESSION = {"key": KEY, "id": "run-1"}


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[LcmPlugin]:
    made = LcmPlugin(LcmConfig(database=str(tmp_path / "talk.db"), leaf_chunk_tokens=1_000))
    yield made
    made.close()


@pytest.fixture
def openclaw(plugin: LcmPlugin) -> OpenclawMethods:
    return OpenclawMethods(plugin)


def user(text: str, at: int) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": at}


def answer(text: str, at: int, *calls: tuple[str, str]) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    blocks += [
        {"type": "toolCall", "id": name, "name": "exec", "arguments": {"cmd": cmd}} for name, cmd in calls
    ]
    about = {
        "api": "openai-completions",
        "provider": "fake",
        "model": "m",
        "usage": {"input": 5},
        "stopReason": "stop",
    }
    return {"role": "assistant", "content": blocks, "timestamp": at, **about}


def result(call: str, text: str, at: int) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"role": "toolResult", "toolCallId": call, "toolName": "exec", "content": content, "timestamp": at}


def turn(number: int, size: int = 1) -> list[dict[str, Any]]:
    at = 1_760_000_000_000 + number * 60_000
    call = f"call_{number}"
    return [
        user(f"Question {number}: " + "what does pump nine do? " * size, at),
        answer("Let me look.", at + 1, (call, f"log {number}")),
        result(call, f"It stands still {number}. " * size, at + 2),
        answer(f"Answer {number}: " + "nothing at all. " * size, at + 3),
    ]


def commit(host: OpenclawMethods, number: int, size: int = 1) -> str:
    given = {"session": SESSION, "key": f"turn-{number}", "messages": turn(number, size)}
    return str(host.all()["openclaw.commit"](given)["status"])


def assemble(host: OpenclawMethods, history: list[dict[str, Any]], **more: Any) -> Any:
    return host.all()["openclaw.assemble"](
        {"session": SESSION, "messages": history, "budget": 32_000, **more}
    )["plan"]


def test_a_turn_is_committed_once_whatever_the_host_repeats(
    plugin: LcmPlugin, openclaw: OpenclawMethods
) -> None:
    assert [commit(openclaw, 1), commit(openclaw, 1), commit(openclaw, 2)] == [
        "committed",
        "duplicate",
        "committed",
    ]
    assert assemble(openclaw, [*turn(1), *turn(2)]) == list(range(8))
    trimmed = [{**message, "timestamp": 1} for message in turn(1)]
    trimmed[2]["content"] = [{"type": "text", "text": "It stands still 1."}]
    assemble(openclaw, [*trimmed, *turn(2)])
    roles = [message["role"] for message in plugin.engine.messages(Session(KEY))]
    assert roles == ["user", "assistant", "tool", "assistant"] * 2


def test_history_from_before_the_plugin_is_stored_with_the_first_context(
    plugin: LcmPlugin, openclaw: OpenclawMethods
) -> None:
    assert assemble(openclaw, turn(1)) == [0, 1, 2, 3]
    assert commit(openclaw, 2) == "committed"
    assert assemble(openclaw, [*turn(1), *turn(2)]) == list(range(8))
    assert len(plugin.engine.messages(Session(KEY))) == 8


@pytest.mark.long
def test_what_does_not_fit_is_summarised_and_the_rest_are_the_hosts_own(
    plugin: LcmPlugin, openclaw: OpenclawMethods
) -> None:
    history = [message for number in range(60) for message in turn(number, 30)]
    for number in range(60):
        commit(openclaw, number, 30)
    plugin.engine.wait_idle(60)
    planned = assemble(openclaw, history)
    plugin.engine.wait_idle(60)
    planned = assemble(openclaw, history)
    own = [one for one in planned if isinstance(one, int)]
    assert own == sorted(own)
    assert own[-1] == 239
    assert 10 < len(own) < 240
    assert "<summary" in planned[0]["content"][0]["text"]


def test_a_message_that_the_host_does_not_list_any_more_is_made_as_it_was() -> None:
    core = [to_core(message) for message in turn(1)]
    made = plan(core, [])
    for one, original in zip(made, turn(1), strict=True):
        assert isinstance(one, dict)
        assert {key: one[key] for key in original} == original
    stub = plan([{**core[2], "content": "cut"}], core)
    assert stub[0]["content"] == [{"type": "text", "text": "cut"}]  # type: ignore[index]


@pytest.mark.long
def test_an_old_fact_that_is_asked_for_is_in_view(plugin: LcmPlugin, openclaw: OpenclawMethods) -> None:
    history: list[dict[str, Any]] = []
    for number in range(60):
        talk = turn(number, 30)
        talk[0]["content"][0]["text"] += (
            f"The code of gate {number} is HERON-{4_000 + 37 * number}, and it sticks."
        )
        given = {"session": SESSION, "key": f"turn-{number}", "messages": talk}
        openclaw.all()["openclaw.commit"](given)
        history += talk
    plugin.engine.wait_idle(60)
    assemble(openclaw, history)
    plugin.engine.wait_idle(60)
    planned = assemble(openclaw, history, prompt="What is the code of gate 11?")
    made = str([one for one in planned if not isinstance(one, int)])
    assert "HERON-4407" in made
    quiet = {
        "session": "agent:main:subagent:9",
        "messages": turn(1),
        "prompt": "What is the code of gate 11?",
    }
    assert openclaw.all()["openclaw.assemble"](quiet)["plan"] == [0, 1, 2, 3]


@pytest.mark.long
def test_compact_says_what_it_did(plugin: LcmPlugin, openclaw: OpenclawMethods) -> None:
    for number in range(60):
        commit(openclaw, number, 30)
    plugin.engine.wait_idle(60)
    done = openclaw.all()["openclaw.compact"]({"session": KEY, "force": True})
    assert done["ok"] is True
    assert done["result"]["tokensAfter"] <= done["result"]["tokensBefore"]
