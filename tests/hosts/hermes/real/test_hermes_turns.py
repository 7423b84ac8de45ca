"""One turn at a time, in processes that come and go."""

from __future__ import annotations

from collections.abc import Callable

from fakes.model_server import Calls
from fakes.speech import fact, turn
from world import World, texts

Make = Callable[..., World]


def session_id(output: str) -> str:
    return next(line for line in output.splitlines() if line.startswith("session_id:")).split()[1]


def test_a_session_resumed_over_three_processes_is_stored_once(world: Make) -> None:
    home = world()
    said = ["first question", "second question", "third question"]
    done = home.hermes("chat", "-Q", "-q", said[0])
    name = session_id(done.stdout + done.stderr)
    for text in said[1:]:
        home.hermes("chat", "-Q", "--resume", name, "-q", text)
    assert texts(home.stored()) == [line for text in said for line in (text, f"Noted: {text}")]


def test_a_session_that_was_compacted_and_resumed_is_shown_and_searched_whole(world: Make) -> None:
    home = world(lcm={"contextThreshold": 0.1, "freshTailCount": 4, "leafChunkTokens": 2000})
    said = [f"{turn(number, 700)} {fact(number)}" for number in range(1, 16)]
    outcome = home.scenario("loop", turns=said, in_place=False)
    assert any(not call["noop"] for call in outcome["compress"])
    assert len(outcome["session_ids"]) > 1
    home.hermes(
        "chat", "-Q", "--resume", outcome["session_ids"][-1], "-q", 'CALL lcm_grep {"pattern": "VAULT-001"}'
    )
    assert texts(home.stored(), "user")[:-1] == said
    (found,) = texts(home.stored(), "tool")
    assert fact(1).split()[-1] in found
    asked = [request for request in home.server.requests if request.tools][-1]
    assert "<summary " in str(asked.messages)
    assert said[-1] in str(asked.messages)


def test_every_turn_is_durable_when_the_process_is_killed(world: Make) -> None:
    home = world()
    said = ["first question", "second question", "third question"]
    home.scenario("killed", turns=said)
    assert texts(home.stored()) == [line for text in said for line in (text, f"Noted: {text}")]
    assert home.problems() == []


def test_a_kill_in_the_middle_of_a_model_call_keeps_the_question(world: Make) -> None:
    home = world()
    home.scenario("killed_in_call", turns=["first question"], last="second question")
    assert texts(home.stored(), "user") == ["first question", "second question"]


def test_a_tool_round_is_stored_with_its_call_and_its_result(world: Make) -> None:
    home = world()
    home.hermes("chat", "-Q", "-q", 'CALL terminal {"command":"echo hi-from-tool"}')
    rows = home.stored()
    assert [row["role"] for row in rows] == ["user", "assistant", "tool", "assistant"]
    call = rows[1]["tool_calls"][0]
    assert call["function"]["name"] == "terminal"
    assert rows[2]["tool_call_id"] == call["id"]
    assert "hi-from-tool" in rows[2]["content"]
    assert home.server.invalid == []


def test_multimodal_content_is_stored_as_it_came(world: Make) -> None:
    home = world()
    picture = [
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
    ]
    home.scenario("loop", turns=[picture, "and now?"])
    rows = home.stored()
    assert rows[0]["content"] == picture
    assert texts(rows[2:]) == ["and now?", "Noted: and now?"]


def test_an_interrupted_turn_is_stored_and_the_next_one_is_told_apart(world: Make) -> None:
    home = world()
    home.scenario("interrupted", first="a question nobody answers", second="another question")
    assert texts(home.stored(), "user") == ["a question nobody answers", "another question"]


def test_two_honest_repeats_are_two_rows(world: Make) -> None:
    home = world()
    home.scenario("loop", turns=["go on", "go on", "go on"])
    assert texts(home.stored(), "user") == ["go on"] * 3


def test_parallel_calls_stay_with_their_results(world: Make) -> None:
    home = world()
    home.server.enqueue(Calls(("lcm_grep", {"pattern": "a"}), ("lcm_grep", {"pattern": "b"})), "done")
    home.scenario("loop", turns=["look twice"])
    rows = home.stored()
    assert [row["role"] for row in rows] == ["user", "assistant", "tool", "tool", "assistant"]
    assert [c["id"] for c in rows[1]["tool_calls"]] == [rows[2]["tool_call_id"], rows[3]["tool_call_id"]]
    assert home.server.invalid == []
