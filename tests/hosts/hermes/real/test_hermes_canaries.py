"""The canaries of `lcm eval` through a real Hermes Agent: its own list, its tools, and a model that answers by script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from effort import canaries
from fakes.answers import is_summary_request
from fakes.model_server import Calls, ModelRequest, Outcome
from fakes.validity import text_of
from world import World

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.evaluation.canaries.asking import counts, look, missed
from lcm_plugin.evaluation.canaries.planting import PLAN_TOOL, Exchange, Script, script

MOST_TURNS = 1_500


class Model:
    """Calls the tools of the turn that is talked about, then gives its answer."""

    def __init__(self, exchanges: Sequence[Exchange]) -> None:
        self.results: list[str] = []
        self._calls: dict[str, list[Outcome]] = {}
        self._answers: dict[str, str] = {}
        for exchange in exchanges:
            name = self._name(exchange.user)
            self._calls[name] = [self._call(one.name, one.arguments, one.result) for one in exchange.calls]
            self._answers[name] = exchange.answer

    def __call__(self, request: ModelRequest) -> Outcome | str | None:
        name = self._name(request.prompt)
        if is_summary_request(request):
            return None
        if name not in self._answers:
            return "I will look."
        asked = max(n for n, one in enumerate(request.messages) if one["role"] == "user")
        done = sum(one["role"] == "tool" for one in request.messages[asked:])
        return [*self._calls[name], self._answers[name]][done]

    def _call(self, name: str, arguments: dict[str, object], result: str) -> Outcome:
        if name == PLAN_TOOL:
            [item] = arguments["plan"]  # type: ignore[misc]
            todo = {"id": "1", "content": item["step"], "status": item["status"]}
            return Calls(("todo", {"todos": [todo]}))
        self.results.append(result)
        return Calls(("look_up", {"number": len(self.results) - 1}))

    @staticmethod
    def _name(text: str) -> str:
        """The user's words without what is quoted behind them."""
        return text.partition("<recalled>")[0].strip()


class Asked:
    """The requests that the questions led to, and the tools on what Hermes' plugin stored."""

    passes = 0

    def __init__(self, home: World, engine: Engine) -> None:
        self.requests = [one for one in home.server.requests if not is_summary_request(one)]
        self._engine = engine
        [conversation] = engine.library.conversations()
        self._session = Session(conversation.session_key)

    def say(self, exchange: object) -> None:
        raise AssertionError("the talk is over")

    def ask(self, question: str) -> str:
        [asked] = [one for one in self.requests if one.prompt.startswith(question)]
        return "\n".join(text_of(message.get("content")) for message in asked.messages)

    def call(self, name: str, arguments: dict[str, object]) -> dict[str, object]:
        return self._engine.call_tool(self._session, name, arguments)


def exchanges_of(plan: Script) -> list[Exchange]:
    return [*plan.planting, *islice(plan.others, MOST_TURNS)]


def test_what_was_planted_reaches_the_model_word_for_word_after_compactions(
    world: Callable[..., World], figure: Callable[[str], None]
) -> None:
    planted, after = canaries()
    plan = script(1, planted)
    exchanges = exchanges_of(plan)
    home = world()
    model = Model(exchanges)
    home.server.add_rule(model)
    done = home.scenario(
        "canaries",
        turns=[one.user for one in exchanges],
        taken_back=[number for number, one in enumerate(exchanges) if one.taken_back],
        planted=len(plan.planting),
        after=after,
        results=model.results,
        questions=[one.question for one in plan.canaries],
        timeout=3_000,
    )
    assert done["compactions"] >= after
    assert home.server.invalid == []
    with Engine.open(LcmConfig(database=str(home.database))) as engine:
        host = Asked(home, engine)
        sightings = [look(host, canary, after) for canary in plan.canaries]
    figure(f"canaries: {counts(sightings)}")
    assert missed(sightings) == []
    gone = [one.wrong for one in plan.canaries if one.kind == "taken back"]
    assert [words for words in gone if not any(words in one.prompt for one in host.requests)] == []
