"""What the host takes back is in no later request and no summary; the store keeps it and search marks it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from fakes.answers import is_summary_request
from fakes.model_server import Failure, ModelRequest, Outcome
from fakes.speech import turn
from test_hermes_interactive import terminal
from test_hermes_messaging import messaging
from world import World, texts

from lcm_plugin import Engine, LcmConfig, Session

Make = Callable[..., World]

SMALL = {"freshTailCount": 4, "leafChunkTokens": 2000}
SECRET = "Book the hotel Bristol for three nights."
LATER = [turn(number, 250) for number in range(21, 29)]


def hits(home: World, pattern: str) -> list[Mapping[str, Any]]:
    """What ``lcm_grep`` finds in the only lane."""
    with Engine.open(LcmConfig(database=str(home.database))) as engine:
        (lane,) = engine.library.conversations()
        found: list[Mapping[str, Any]] = engine.call_tool(
            Session(lane.session_key), "lcm_grep", {"pattern": pattern}
        )["hits"]
    return found


def flip(home: World) -> None:
    """A coin falls otherwise each time."""
    falls = itertools.count(1)
    home.server.add_rule(
        lambda request: f"Coin number {next(falls)}." if request.prompt.endswith("Flip a coin.") else None
    )


def since(home: World, prompt: str) -> list[ModelRequest]:
    """The requests from the first one that ends with a prompt."""
    requests = list(home.server.requests)
    first = next(number for number, request in enumerate(requests) if request.prompt.endswith(prompt))
    return requests[first:]


def check_gone(home: World, said: list[str]) -> None:
    for request in since(home, LATER[0]):
        assert "Bristol" not in str(request.messages)
        assert "Coin number 1." not in str(request.messages)
    assert any("Coin number 2." in str(request.messages) for request in since(home, LATER[0]))
    assert not any("Bristol" in summary.content for summary in home.summaries())
    assert texts(home.stored(), "user") == said
    assert [hit["taken_back"] for hit in hits(home, "Bristol")] == [True, True]
    assert [hit.get("taken_back", False) for hit in hits(home, '"Coin number 1"')] == [True]
    assert home.server.invalid == []
    assert home.problems() == []


def test_undo_and_retry_in_the_chat_program_leave_nothing_eight_turns_later(world: Make) -> None:
    home = world(lcm=SMALL)
    flip(home)
    first = [turn(number, 250) for number in range(1, 4)]
    with terminal(home) as chat:
        for number, text in enumerate(first, start=1):
            chat.say(text, f"Noted: Note {number:03d}")
        chat.say("Flip a coin.", "Coin number 1")
        chat.say("/retry", "Coin number 2")
        chat.say(SECRET, "Noted: Book")
        chat.say("/undo", "Enter to confirm")
        chat.say("", "Undid 1 turn")
        chat.clear_line()
        for number, text in enumerate(LATER, start=21):
            chat.say(text, f"Noted: Note {number:03d}")
        chat.say("/compress", "✅")
        chat.say("what now", "Noted: what now")
        chat.leave()
    assert home.summaries()
    check_gone(home, [*first, "Flip a coin.", SECRET, *LATER, "what now"])


def test_undo_and_retry_in_a_messaging_chat_leave_nothing_eight_turns_later(world: Make) -> None:
    home = world(lcm=SMALL)
    flip(home)
    with messaging(home) as irc:
        irc.say("anna", "hello one", "Noted: hello one")
        irc.say("anna", "Flip a coin.", "Coin number 1")
        irc.say("anna", "/retry", "Coin number 2")
        irc.say("anna", SECRET, "Noted: Book")
        irc.say("anna", "/undo", "/approve")
        irc.say("anna", "/approve", "Book the hotel Bristol")
        for number, text in enumerate(LATER, start=21):
            irc.say("anna", text, f"Noted: Note {number:03d}")
        irc.say("anna", "/compress", "Compressed: [0-9]+ → [0-9]+ messages")
        irc.say("anna", "what now", "Noted: what now")
    assert home.summaries()
    check_gone(home, ["hello one", "Flip a coin.", SECRET, *LATER, "what now"])


@pytest.mark.parametrize("names_it", [True, False])
def test_a_window_smaller_than_the_host_believes_is_learned_from_the_refusal(
    world: Make, names_it: bool
) -> None:
    window, answer_room = 66_000, 1_000
    home = world(window=128_000, lcm={"contextThreshold": 0.9})

    def too_long(request: ModelRequest) -> Outcome | None:
        if request.tokens <= window or is_summary_request(request):
            return None
        return Failure(400, "The input exceeds the context window of this model.", "context_length_exceeded")

    if names_it:
        home.server.window = window
    else:
        home.server.add_rule(too_long)
    said = [turn(number, 6_000) for number in range(1, 17)]
    outcome = home.scenario("loop", turns=said, timeout=500)
    chats = [request for request in home.server.requests if request.tools]
    refused = [request.number for request in chats if request.tokens > window]
    assert len(outcome["answers"]) == len(said)
    assert all(f"Note {n:03d}" in str(text) for n, text in enumerate(outcome["answers"], start=1))
    assert 1 <= len(refused) <= 3
    assert max(request.tokens for request in chats[-4:]) <= window - answer_room
    assert texts(home.stored(), "user") == said
