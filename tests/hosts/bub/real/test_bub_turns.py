"""One turn at a time, in processes that come and go."""

from __future__ import annotations

import json
from collections.abc import Callable

from bub_world import BubWorld, said
from fakes.model_server import Calls, Reply

Make = Callable[..., BubWorld]

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJ"
    "RU5ErkJggg=="
)


def shown(home: BubWorld, number: int) -> list[str]:
    """The texts of a request, without the system prompt."""
    return said([m for m in home.server.requests[number].messages if m["role"] != "system"])


def test_a_session_over_three_processes_is_stored_once_and_shown_whole(world: Make) -> None:
    home = world()
    home.server.enqueue("first answer", "second answer", "third answer")
    for text in ("first question", "second question", "third question"):
        home.say(text)
    expected = ["first question", "first answer", "second question", "second answer", "third question"]
    assert shown(home, 2) == expected
    assert said(home.stored()) == [*expected, "third answer"]
    assert home.server.invalid == []
    assert home.problems() == []


def test_every_turn_is_durable_when_the_process_is_killed(world: Make) -> None:
    home = world()
    home.server.enqueue("one", "two")
    home.scenario("killed", turns=["first question", "second question"])
    assert said(home.stored()) == ["first question", "one", "second question", "two"]
    home.talk("third question")
    assert shown(home, 2) == ["first question", "one", "second question", "two", "third question"]
    assert home.problems() == []


def test_a_kill_in_the_middle_of_a_model_call_keeps_the_question(world: Make) -> None:
    home = world()
    home.server.enqueue("one", Reply("never seen", delay=5.0))
    home.scenario("killed", turns=["first question"], last="second question")
    assert said(home.stored()) == ["first question", "one", "second question"]
    assert "second question" not in json.dumps(home.tape()), "the host itself has lost it"
    home.talk("third question")
    assert said(home.stored(), "user") == ["first question", "second question", "third question"]
    assert home.server.invalid == []


def test_a_cancelled_turn_keeps_its_question_once_and_the_talk_goes_on(world: Make) -> None:
    home = world()
    answers = home.scenario(
        "cancelled", turns=["first question"], last="second question", then=["third question"]
    )
    assert answers[1] == "cancelled"
    asked = ["first question", "second question", "third question"]
    assert said(home.stored(), "user") == asked
    assert [text for text in said(home.server.requests[-1].messages, "user") if text in asked] == asked
    assert home.server.invalid == []
    assert home.problems() == []


def test_parallel_calls_are_stored_with_their_results(world: Make) -> None:
    home = world()
    home.server.enqueue(Calls(("bash", {"command": "echo one"}), ("bash", {"command": "echo two"})), "done")
    assert home.talk("count") == ["done"]
    rows = home.stored()
    assert [row["role"] for row in rows] == ["user", "assistant", "tool", "tool", "assistant"]
    calls = [call["id"] for call in rows[1]["tool_calls"]]
    assert calls == [row["tool_call_id"] for row in rows[2:4]]
    assert [row["content"] for row in rows[2:4]] == ["one", "two"]
    assert home.server.invalid == []


def test_a_tool_that_fails_and_one_that_does_not_exist_are_answered(world: Make) -> None:
    home = world()
    home.server.enqueue(Calls(("bash", {"command": "exit 3"}), ("no_such_tool", {})), "I see")
    assert home.talk("try") == ["I see"]
    rows = home.stored()
    assert "exited with code 3" in rows[2]["content"]
    assert "does not exist" in rows[3]["content"]
    assert home.server.invalid == []


def test_an_image_is_stored_and_stays_in_view_though_the_tape_drops_it(world: Make) -> None:
    home = world()
    home.scenario("picture", url=PIXEL)
    (asked, *_) = [e["payload"] for e in home.tape() if e["kind"] == "message"]
    assert [part["type"] for part in asked["content"]] == ["text"]
    (question, _, _, _) = home.stored()
    assert question["content"][1] == {"type": "image_url", "image_url": {"url": PIXEL}}
    assert PIXEL in json.dumps(home.server.requests[1].body)
    assert home.server.invalid == []


def test_honest_repeats_are_all_stored(world: Make) -> None:
    home = world()
    home.server.enqueue("yes", "yes", "yes")
    home.talk("go on", "go on", "go on")
    assert said(home.stored()) == ["go on", "yes"] * 3


def test_sessions_that_talk_at_the_same_time_stay_apart(world: Make) -> None:
    home = world()
    sessions = {f"cli:{name}": [f"{name} says {n}" for n in range(5)] for name in ("ann", "bob", "eve")}
    home.scenario("parallel", sessions=sessions)
    for name, turns in sessions.items():
        assert said(home.stored(f":{name}"), "user") == turns
    assert home.server.invalid == []


def test_two_workspaces_have_lanes_of_their_own(world: Make) -> None:
    home = world()
    (home.home / "other").mkdir()
    home.talk("in the first")
    home.bub("--workspace", str(home.home / "other"), "run", "in the second")
    keys = [conversation.session_key for conversation in home.conversations()]
    assert len(keys) == 2
    assert keys[0].startswith("agent:work-")
    assert keys[1].startswith("agent:other-")
    assert shown(home, 1) == ["in the second"]


def test_a_tape_from_before_the_plugin_is_taken_in_once(world: Make) -> None:
    before = world(lcm={"enabled": False})
    before.server.enqueue("one", Calls(("bash", {"command": "echo x"})), "two")
    before.talk("first question", "second question")
    assert not before.database.exists()
    home = world()
    home.talk("third question")
    home.talk("fourth question")
    rows = home.stored()
    assert said(rows, "user") == ["first question", "second question", "third question", "fourth question"]
    assert [row["role"] for row in rows[:6]] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert len(rows) == 10
    assert home.server.invalid == []


def test_a_subagent_has_a_lane_of_its_own(world: Make) -> None:
    home = world()
    home.server.enqueue(
        Calls(("subagent", {"prompt": "look into the cellar"})), "the cellar is dry", "all is well"
    )
    assert home.talk("ask somebody") == ["all is well"]
    assert said(home.server.requests[1].messages[1:]) == ["look into the cellar"]
    lanes = sorted(c.session_key.split(":", 2)[2].split(":")[0] for c in home.conversations())
    assert lanes == ["cli", "subagent"]
    assert [row["role"] for row in home.stored()] == ["user", "assistant", "tool", "assistant"]
    (lane,) = (c.session_key for c in home.conversations() if ":subagent:" in c.session_key)
    assert said(home.stored(lane)) == ["look into the cellar", "the cellar is dry"]


def test_a_subagent_in_the_same_session_leaves_the_call_with_its_result(world: Make) -> None:
    home = world()
    call = Calls(("subagent", {"prompt": "look into the cellar", "session": "inherit"}))
    home.server.enqueue("hi", call, "the cellar is dry", "all is well", "fine")
    assert home.talk("hello", "ask somebody", "good") == ["hi", "all is well", "fine"]
    assert home.server.invalid == []
    assert sorted(said(home.stored(), "user")) == ["ask somebody", "good", "hello", "look into the cellar"]
    assert home.problems() == []
