"""A long talk: what reaches the model stays valid and within the window, and nothing is lost or doubled."""

from __future__ import annotations

from collections.abc import Callable

from bub_talk import fact, turn
from bub_world import BubWorld, said
from fakes.answers import is_summary_request
from fakes.model_server import ModelRequest

Make = Callable[..., BubWorld]

SMALL = {
    "contextThreshold": 0.5,
    "freshTailCount": 8,
    "leafChunkTokens": 1_500,
    "summaryMaxCallsPerWindow": 1_000,
}


def chats(home: BubWorld) -> list[ModelRequest]:
    return [request for request in home.server.requests if not is_summary_request(request)]


def a_hundred_turns() -> list[str]:
    lines = []
    for number in range(1, 101):
        if number == 90:
            lines.append("RECALL VAULT-003")
        elif number % 10 == 0:
            lines.append('CALL bash {"command": "echo counted 12 jars"}')
        elif number % 7 == 0:
            lines.append(f'CALL lcm_grep {{"pattern": "Note {number - 3:03d}"}}')
        else:
            lines.append(f"{turn(number, 250)} {fact(number)}")
    return lines


def test_a_fact_from_turn_3_is_found_at_turn_90_by_the_agents_own_search(
    world: Make, figure: Callable[[str], None]
) -> None:
    home = world(lcm=SMALL)
    lines = a_hundred_turns()
    outcome = home.scenario("talk", turns=lines)
    spent = outcome["spent"]
    parts = ", ".join(f"{name} {1000 * seconds:.0f} ms" for name, seconds in spent.items())
    figure(
        f"Bub, 100 turns: our hooks added {1000 * sum(spent.values()) / 100:.0f} ms per turn ({parts} in all)"
    )
    assert outcome["answers"][89] == fact(3)
    asked = [request for request in chats(home) if request.prompt.endswith("RECALL VAULT-003")]
    assert not any(fact(3) in str(message.get("content")) for message in asked[0].messages)
    assert asked[-1].messages[-1]["role"] == "tool"

    assert home.server.invalid == []
    rows = home.stored()
    assert said(rows, "user") == lines
    calls = [call["id"] for row in rows for call in row.get("tool_calls") or ()]
    assert [row["tool_call_id"] for row in rows if row["role"] == "tool"] == calls
    assert len(rows) == 2 * len(lines) + 2 * len(calls)
    assert home.problems() == []
    summaries = [request for request in home.server.requests if is_summary_request(request)]
    assert len(summaries) >= 10
    figure(
        f"Bub, 100 turns: {len(rows)} messages, {len(summaries)} summaries by the host's model, "
        f"largest request {max(request.tokens for request in chats(home)):,} tokens"
    )
