"""Capture only: the model is shown what Bub's own tape gives, and what its anchors cut off is quoted when asked for."""

from __future__ import annotations

from collections.abc import Callable

from bub_world import BubWorld, said
from fakes.model_server import Calls
from fakes.speech import fact

Make = Callable[..., BubWorld]
ASKED = "What was the code of VAULT-003, please?"


def test_the_hosts_anchor_cuts_and_what_was_before_it_is_stored_and_quoted(world: Make) -> None:
    home = world(lcm={"captureOnly": True, "freshTailCount": 2})
    told = [f"Please note this down. {fact(number)}" for number in range(1, 7)]
    home.server.enqueue(*(f"Noted {number}." for number in range(1, 7)))
    home.server.enqueue(
        Calls(("tape_handoff", {"name": "phase-2", "summary": "six codes noted"})), "Handed off.", "It is so."
    )
    home.talk(*told, "hand off now", ASKED)
    shown = said([one for one in home.server.requests[-1].messages if one["role"] != "system"])
    assert shown[-1] == ASKED
    assert not set(told) & set(shown)
    assert shown[-2].startswith("<recalled>")
    assert fact(3) in shown[-2]
    assert [text for text in said(home.stored(), "user") if text in told] == told
    assert not any("<recalled>" in text for text in said(home.stored()))
    assert "by the host (`captureOnly`)" in home.talk(",lcm status")[0]
    assert home.server.invalid == []
    assert home.problems() == []
