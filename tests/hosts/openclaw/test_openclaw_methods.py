"""What the plugin in OpenClaw is answered: turns committed once, contexts of its own messages and new ones."""

from __future__ import annotations

import json
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


def test_a_copy_that_openclaw_makes_for_its_own_work_is_not_stored_and_bounded(
    plugin: LcmPlugin, openclaw: OpenclawMethods
) -> None:
    copy = {
        "key": "agent:main:internal-session-effects:run-1-ab12",
        "id": "internal-session-effects-run-1-ab12",
    }
    history = [message for number in range(40) for message in turn(number, 30)]
    given = {"session": copy, "messages": history, "budget": 4_000, "prompt": "Keep what matters."}
    shown = openclaw.all()["openclaw.assemble"](given)
    assert shown["plan"] == list(range(shown["plan"][0], 160))
    assert history[shown["plan"][0]]["role"] == "user"
    assert 0 < shown["tokens"] <= 4_000
    committed = openclaw.all()["openclaw.commit"]({"session": copy, "key": "t", "messages": turn(41)})
    assert committed == {"status": "committed"}
    assert openclaw.all()["openclaw.compact"]({"session": copy})["ok"] is True
    assert list(plugin.engine.library.conversations()) == []


def test_what_a_search_showed_through_tool_call_is_no_history(
    plugin: LcmPlugin, openclaw: OpenclawMethods
) -> None:
    commit(openclaw, 1)
    asked, called, found, said = turn(2)
    called["content"] = [{"type": "toolCall", "id": "call_2", "name": "tool_call", "arguments": {"id": "x"}}]
    about = {"id": "openclaw:lcm:lcm_grep", "name": "lcm_grep", "source": "openclaw"}
    text = json.dumps({"tool": about, "result": "the heron sleeps by pump nine"})
    found |= {
        "toolName": "tool_call",
        "details": {"tool": about},
        "content": [{"type": "text", "text": text}],
    }
    given = {"session": SESSION, "key": "t", "messages": [asked, called, found, said]}
    assert openclaw.all()["openclaw.commit"](given) == {"status": "committed"}
    assert plugin.engine.call_tool(Session(KEY), "lcm_grep", {"pattern": "heron"})["hits"] == []
    own = plugin.engine.call_tool(Session(KEY), "lcm_grep", {"pattern": "heron", "tool_name": "lcm_grep"})
    assert len(own["hits"]) == 1
    # The host's own message goes out as it was, and one made of it under the name of the call.
    assert assemble(openclaw, [*turn(1), asked, called, found, said]) == list(range(8))
    [made] = plan([to_core(found)], [])
    assert isinstance(made, dict)
    assert made["toolName"] == "tool_call"


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
    # Between two calls of tools OpenClaw hands over what it was given, which takes nothing back.
    shown = [history[one] if isinstance(one, int) else one for one in planned]
    again = assemble(openclaw, shown)
    assert [shown[one] if isinstance(one, int) else one for one in again] == shown
    rows = plugin.engine.record.newest(Session(KEY), 300)
    assert (len(rows), [row for row in rows if row.head.withdrawn_at is not None]) == (240, [])


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


def run(host: OpenclawMethods, run_id: str, history: list[dict[str, Any]]) -> list[str]:
    """The texts of the context for a prompt that follows a history in one run of the session."""
    given = {"session": {"key": KEY, "id": run_id}, "messages": history, "budget": 32_000}
    planned = host.all()["openclaw.assemble"](given)["plan"]
    shown = [history[one] if isinstance(one, int) else one for one in planned]
    return [block["text"] for one in shown for block in one["content"] if block["type"] == "text"]


def test_what_openclaw_rewinds_leaves_the_context_and_another_branch_comes_back(
    plugin: LcmPlugin, openclaw: OpenclawMethods
) -> None:
    for number in (1, 2):
        commit(openclaw, number)
    first = [text for one in turn(1) for block in one["content"] if (text := block.get("text"))]
    assert run(openclaw, "run-2", turn(1)) == first
    given = {"session": {"key": KEY, "id": "run-2"}, "key": "turn-3", "messages": turn(3)}
    openclaw.all()["openclaw.commit"](given)
    view = run(openclaw, "run-2", [*turn(1), *turn(3)])
    assert [text.split(":")[0] for text in view if "Answer" in text] == ["Answer 1", "Answer 3"]
    view = run(openclaw, "run-3", [*turn(1), *turn(2)])
    assert [text.split(":")[0] for text in view if "Answer" in text] == ["Answer 1", "Answer 2"]
    assert len(plugin.engine.record.newest(Session(KEY), 100)) == 12


def test_a_reset_begins_anew_and_what_a_host_trims_stays(
    plugin: LcmPlugin, openclaw: OpenclawMethods
) -> None:
    for number in (1, 2):
        commit(openclaw, number)
    assert "Answer 1" in str(run(openclaw, "run-1", turn(2)))
    assert run(openclaw, "run-1", []) == []
    given = {"session": {"key": KEY, "id": "run-1"}, "key": "turn-3", "messages": turn(3)}
    openclaw.all()["openclaw.commit"](given)
    assert "Answer 1" not in str(run(openclaw, "run-1", turn(3)))
    # Another run of the session without anything that is stored is another talk too.
    assert "Answer 3" not in str(run(openclaw, "run-2", turn(4)))
    assert plugin.engine.call_tool(Session(KEY), "lcm_grep", {"pattern": "Answer 1"})["hits"]


def test_the_last_answer_stands_in_the_context_whatever_the_host_put_behind_it(
    openclaw: OpenclawMethods,
) -> None:
    commit(openclaw, 1)
    view = run(openclaw, "run-1", [*turn(1), user("/lcm", 1), answer("lcm is enabled", 2)])
    assert view[-1].startswith("Answer 1")


def test_nothing_to_compact_is_said_in_words_that_let_openclaw_go_on(openclaw: OpenclawMethods) -> None:
    commit(openclaw, 1)
    done = openclaw.all()["openclaw.compact"]({"session": SESSION, "force": True})
    assert (done["ok"], done["compacted"]) == (True, False)
    assert "already under target" in done["reason"]
