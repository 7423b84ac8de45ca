"""Long talks: what reaches the model stays valid and bounded, and nothing is lost, doubled or paid twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from fakes.answers import is_summary_request, sentence_about
from fakes.model_server import Calls, ModelRequest, ModelServer, Outcome
from fakes.speech import fact, turn
from fakes.validity import text_of
from world import World, texts

Make = Callable[..., World]
Note = Callable[[str], None]

WINDOW = 64_000
# Three quarters of what the system prompt and some 16,000 tokens of tools leave of the window, and these.
TRIGGER = 52_000
TURN = 1_700


def chat_requests(server: ModelServer) -> list[ModelRequest]:
    return [request for request in server.requests if not is_summary_request(request)]


def _said(text: object) -> str:
    """What a user said in a message, without what is quoted behind it."""
    return str(text).partition("<recalled>")[0].strip()


def paid_summaries(server: ModelServer) -> int:
    return sum(1 for request in server.requests if is_summary_request(request))


def check_requests(server: ModelServer, limit: int) -> None:
    assert server.invalid == []
    over = [(r.number, r.tokens) for r in chat_requests(server) if r.tokens > limit]
    assert over == [], f"prompts over {limit}"


def waited(title: str, outcome: dict[str, Any]) -> str:
    """How long the host waited for our hooks."""
    per_turn = outcome["hooks"].pop("per_turn_ms")
    parts = ", ".join(f"{name} {1000 * spent:.0f} ms" for name, spent in outcome["hooks"].items())
    return f"{title}: our hooks added {per_turn:.0f} ms per turn, summaries included ({parts} in all)"


@pytest.mark.parametrize("in_place", [True, False])
def test_sixty_turns_at_defaults(world: Make, figure: Note, in_place: bool) -> None:
    home = world()
    said = [turn(number, TURN - 200) for number in range(1, 61)]
    outcome = home.scenario("loop", turns=said, in_place=in_place, enabled_toolsets=None, timeout=600)
    figure(waited(f"60 turns, in_place={in_place}", outcome))
    compactions = [call for call in outcome["compress"] if not call["noop"]]
    turns = [call["turn"] for call in compactions]
    assert len(turns) >= 2
    assert min(later - sooner for sooner, later in pairwise(turns)) >= 8
    assert [call for call in outcome["compress"] if call["noop"]] == []
    assert outcome["warning"] is None
    assert texts(home.stored()) == [line for text in said for line in (text, f"Noted: {text[:80]}".strip())]
    check_requests(home.server, TRIGGER + TURN)
    assert paid_summaries(home.server) == len(home.summaries())
    assert (len(outcome["session_ids"]) == 1) is in_place
    # Sixty turns in half a minute use up the summary calls of ten.
    assert home.problems(besides="summary_fallback") == []


def test_a_tail_over_the_threshold_does_not_ask_in_vain(world: Make) -> None:
    home = world(lcm={"contextThreshold": 0.1, "freshTailCount": 64})
    said = [turn(number, 600) for number in range(1, 13)]
    outcome = home.scenario("loop", turns=said)
    per_turn = [sum(1 for c in outcome["compress"] if c["turn"] == n and c["noop"]) for n in range(1, 13)]
    assert max(per_turn) <= 1
    assert sum(per_turn) <= 2
    check_requests(home.server, WINDOW)


def test_a_cap_on_the_context_never_parts_a_call_from_its_result(world: Make) -> None:
    cap = 16_000
    home = world(lcm={"maxAssemblyTokenBudget": cap, "freshTailCount": 8, "leafChunkTokens": 2000})
    said = [
        f'CALL lcm_grep {{"pattern": "Note {number - 1:03d}", "limit": {200 if number > 50 else 2}}}'
        if number % 3 == 0
        else turn(number, 600)
        for number in range(1, 61)
    ]
    outcome = home.scenario("loop", turns=said)
    assert len([call for call in outcome["compress"] if not call["noop"]]) >= 4
    check_requests(home.server, cap)
    stored = home.stored()
    assert texts(stored, "user") == said
    # Of a result that is longer than the host takes the model would get the beginning, which is no JSON.
    answers = [json.loads(text) for text in texts(stored, "tool")]
    assert len(answers[-1]["hits"]) > 10
    assert "next_cursor" in answers[-1]


def test_one_turn_of_forty_tool_rounds_keeps_its_question(world: Make) -> None:
    home = world(lcm={"contextThreshold": 0.15, "freshTailCount": 16, "leafChunkTokens": 4000})
    question = f"TASK: look at all of it. {turn(1, 300)}"
    rounds = 40

    spent = 0

    def work(request: ModelRequest) -> Outcome | str | None:
        nonlocal spent
        if is_summary_request(request):
            return None
        spent += 1
        return Calls(("lcm_grep", {"pattern": turn(spent, 250)})) if spent <= rounds else "finished"

    home.server.add_rule(work)
    outcome = home.scenario("loop", turns=[question], max_iterations=90)
    assert outcome["answers"] == ["finished"]
    assert len([c for c in outcome["compress"] if not c["noop"]]) >= 2
    for request in chat_requests(home.server):
        assert any(question in str(m.get("content")) for m in request.messages), request.number
    rows = home.stored()
    assert texts(rows, "user") == [question]
    assert len(rows) == 2 + 2 * rounds
    check_requests(home.server, WINDOW)


ASKED = "Can you remind me what the code of VAULT-003 is? I need it for the locksmith."


def from_view_or_search(request: ModelRequest) -> Outcome | str | None:
    """Answers the question from what the request holds; searches when it holds nothing of it."""
    if is_summary_request(request) or not _said(request.prompt).endswith(ASKED):
        return None
    last = request.messages[-1]
    held = sentence_about("VAULT-003", "\n".join(text_of(one.get("content")) for one in request.messages))
    return held or ("I do not know." if last["role"] == "tool" else Calls(("lcm_grep", {"pattern": ASKED})))


@pytest.mark.parametrize(("recall", "asked_at"), [("on", 300), ("off", 90)])
def test_a_fact_from_turn_3_reaches_the_model_by_itself_or_by_the_agents_search(
    world: Make, figure: Note, recall: str, asked_at: int
) -> None:
    settings = {"contextThreshold": 0.11, "freshTailCount": 8, "leafChunkTokens": 3000}
    home = world(lcm={**settings, "activeRecall": recall})
    home.server.add_rule(from_view_or_search)
    (home.home / "garden.txt").write_text(turn(0, 200))
    said = []
    for number in range(1, asked_at + 11):
        if number == asked_at:
            said.append(ASKED)
        elif number % 10 == 0:
            # The host adds open tasks as the newest user message when the list is made smaller in a turn.
            state = "pending" if number < asked_at - 10 else "completed"
            said.append(
                f'CALL todo {{"todos": [{{"id": "1", "content": "water them", "status": "{state}"}}]}}'
            )
        elif number % 7 == 0:
            said.append(f'CALL lcm_grep {{"pattern": "Note {number - 3:03d}"}}')
        elif number % 9 == 0:
            said.append(f'CALL read_file {{"path": "{home.home / "garden.txt"}"}}')
        else:
            said.append(f"{turn(number, 250)} {fact(number)}")
    outcome = home.scenario("loop", turns=said, enabled_toolsets=None, timeout=900)
    figure(waited(f"{len(said)} turns", outcome))
    assert len([call for call in outcome["compress"] if not call["noop"]]) >= 8
    assert outcome["answers"][asked_at - 1] == fact(3)
    asked = [r for r in chat_requests(home.server) if _said(r.prompt).endswith(ASKED)]
    assert len(asked[0].tools) >= 30
    holding = [_said(m["content"]) for m in asked[0].messages if fact(3) in str(m.get("content"))]
    if recall == "on":
        # Quoted with the user's message, so that no tool was called.
        assert len(asked) == 1, [str(m.get("content"))[-900:] for m in asked[0].messages[-2:]]
        assert [said.endswith(ASKED) for said in holding] == [True]
    else:
        assert holding == []
        assert asked[-1].messages[-1]["role"] == "tool"
    rows = home.stored()
    assert texts(rows, "user") == said
    calls = [call["id"] for row in rows for call in row.get("tool_calls") or ()]
    answers = [row["tool_call_id"] for row in rows if row["role"] == "tool"]
    assert calls == answers
    assert len(rows) == 2 * len(said) + 2 * len(calls)
    check_requests(home.server, WINDOW)
    assert home.problems(besides="summary_fallback") == []


def test_the_model_is_told_when_its_turn_alone_nearly_fills_the_window(world: Make) -> None:
    # As a file the text would leave room.
    home = world(lcm={"largeFileTokenThreshold": 100_000})
    before = [turn(number, 1_500) for number in range(1, 21)]
    pasted = f'{turn(21, 45_000)}\nCALL lcm_grep {{"pattern": "Note 001"}}'
    said = [*before, pasted, turn(22, 300)]
    home.scenario("loop", turns=said, enabled_toolsets=None, timeout=600)
    told = "This context is nearly full of what cannot be compacted"
    asked = [request.messages for request in chat_requests(home.server)]
    first, second = (
        one for one in asked if turn(21, 45_000) in str(one) and one[-1].get("content") != said[-1]
    )
    [at] = [n for n, message in enumerate(first) if told in str(message)]
    assert "most of all this turn and the system prompt and tools" in str(first[at])
    assert first[at]["role"] == "user"
    assert second[: len(first)] == first
    assert texts(home.stored(), "user") == said
    check_requests(home.server, WINDOW)
