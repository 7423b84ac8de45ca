"""Whatever a host did to its list, a model is shown what the list says, and the store has all that was ever said, once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import pytest
from histories import numbers, random_steps
from world import World

Make = Callable[..., World]
KINDS = ["turn", "tools", "back", "retry", "branch", "compact", "restart"]
SMALL = {
    "freshTailCount": 2,
    "leafChunkTokens": 200,
    "leafTargetTokens": 60,
    "leafMinFanout": 2,
    "autocompactDisabled": True,
}
LAST = "and now, to end with"


def asked_in(texts: list[str]) -> list[str]:
    """The questions, without what the host puts around them and without the rest of their lines."""
    return re.findall(rf"the beginning of the talk|[a-z]+ asked as step \d+|{LAST}", "\n".join(texts))


@pytest.mark.parametrize("number", numbers(6, here=2))
def test_any_history_of_a_list_is_shown_as_it_is(world: Make, number: int) -> None:
    steps = random_steps(KINDS, number)
    home = world(lcm=SMALL)
    result = home.scenario("history", steps=steps, last=LAST)
    final = [m["content"] for m in result["list"] if m["role"] == "user"]
    request = home.server.requests[-1]
    shown = [str(m["content"]) for m in request.messages if m["role"] == "user"]
    stored = [str(message["content"]) for message in home.stored() if message["role"] == "user"]
    assert home.server.invalid == []
    assert home.problems() == []
    # A question that is asked again at its place comes back; it is not said twice.
    assert Counter(asked_in(stored)) == Counter(set(asked_in(result["said"])))
    assert result["compacted"] or asked_in(shown) == asked_in(final)
    assert set(asked_in([str(m.get("content")) for m in request.messages])) <= set(asked_in(final))
    assert asked_in(shown)[-1] == LAST
