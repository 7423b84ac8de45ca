"""The canaries of `lcm eval` through a real Hermes Agent: facts of its first turns reach the model word for word."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from fakes.answers import is_summary_request
from fakes.speech import turn
from fakes.validity import text_of
from world import World

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.evaluation.canaries.asking import look
from lcm_plugin.evaluation.canaries.planting import Canary
from lcm_plugin.evaluation.facts import changed, facts

FACTS, TURNS, TOKENS = 12, 84, 1_500


class Asked:
    """The requests that the questions led to, and the tools on what Hermes' plugin stored."""

    passes = 0

    def __init__(self, home: World, engine: Engine) -> None:
        self._requests = [one for one in home.server.requests if not is_summary_request(one)]
        self._engine = engine
        [conversation] = engine.library.conversations()
        self._session = Session(conversation.session_key)

    def say(self, exchange: object) -> None:
        raise AssertionError("the talk is over")

    def ask(self, question: str) -> str:
        [asked] = [one for one in self._requests if one.prompt.startswith(question)]
        return "\n".join(text_of(message.get("content")) for message in asked.messages)

    def call(self, name: str, arguments: dict[str, object]) -> dict[str, object]:
        return self._engine.call_tool(self._session, name, arguments)


def test_facts_and_corrections_of_the_first_turns_are_in_the_request_that_asks_for_them(
    world: Callable[..., World],
) -> None:
    random = Random(1)
    planted = facts(random, FACTS)
    new = changed(random, planted[0], 0)
    canaries = [Canary("fact", one.question, one.statement) for one in planted[1:]]
    canaries.append(Canary("changed", new.question, new.statement, planted[0].statement))
    said = [turn(number, TOKENS) for number in range(TURNS)]
    for number, one in enumerate([*planted, new]):
        said[number] = f"{said[number]} {one.statement}"
    home = world()
    done = home.scenario("loop", turns=[*said, *(one.question for one in canaries)], timeout=900)
    compactions = [call for call in done["compress"] if not call["noop"] and call["turn"] > len(planted) + 1]
    assert len(compactions) >= 3
    assert home.server.invalid == []
    with Engine.open(LcmConfig(database=str(home.database))) as engine:
        host = Asked(home, engine)
        sightings = [look(host, canary, len(compactions)) for canary in canaries]
    assert [one.canary.question for one in sightings if not one.passed] == []
    assert [one.canary.question for one in sightings if not one.in_view] == []
