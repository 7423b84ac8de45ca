"""Whatever happened to a tape, a model is shown what it says, and the store has all that was ever said, once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import pytest
from bub_world import BubWorld, said
from fakes.answers import is_summary_request
from histories import numbers, random_steps

Make = Callable[..., BubWorld]
KINDS = ["turn", "tools", "back", "branch", "restart"]
SMALL = {"freshTailCount": 2, "leafChunkTokens": 200, "leafTargetTokens": 60, "leafMinFanout": 2}
LAST = "and now, to end with"


def asked_in(texts: list[str]) -> list[str]:
    """The questions, without the rest of their lines."""
    return re.findall(rf"[a-z]+ asked as step \d+|{LAST}", "\n".join(texts))


@pytest.mark.parametrize("number", numbers(6, here=2))
@pytest.mark.parametrize("compacts", [False, True])
def test_any_history_of_a_tape_is_shown_as_it_is(world: Make, number: int, compacts: bool) -> None:
    steps = random_steps(KINDS, number)
    home = world(lcm=SMALL if compacts else {"autocompactDisabled": True})
    result = home.scenario("history", steps=steps, last=LAST)
    final = asked_in(result["list"])
    request = [one for one in home.server.requests if not is_summary_request(one)][-1]
    shown = asked_in([text for text in said(request.messages, "user") if "<summary" not in text])
    assert Counter(asked_in(said(home.stored(), "user"))) == Counter(asked_in(result["said"]))
    assert shown[-1] == LAST
    assert compacts or shown == final
    assert set(asked_in([str(m.get("content")) for m in request.messages])) <= set(final)
    assert home.server.invalid == []
    assert home.problems() == []
