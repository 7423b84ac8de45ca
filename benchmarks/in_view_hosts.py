"""What stands in the request when a question comes in a real host, with recall on and off, beside the hooks called directly.

    .venvs/langchain/bin/python benchmarks/in_view_hosts.py langchain PATH/locomo_dev.json [--windows 8000,32000]
        [--recall off,on] [--chats N] [--questions N] [--host-only]

Run it with the host installed: ``langchain`` (`create_agent` with the middleware and a checkpointer) or ``hermes``
(Hermes Agent's own loop). Both talk to a server on the loopback interface that says what the chat's second speaker says
and counts with a published encoding.
Every fourth turn calls a tool. A host knows neither who speaks nor when: names and dates are left out.

Then each question comes as people ask in a chat ("Can you remind me: …"); the model calls two tools, one after the
other, before it answers. The turn is taken back before the next question: LangChain's by going on from the checkpoint
before it, Hermes' by its list before it. ``--windows`` is what a host leaves to the list beside its own prompt and tools.

*evidence*, *answer*: as in ``in_view.py``, in the turn's first request; *in the loop*: evidence in its third request.
*same*: per cent of the turns whose third request begins with the first one, byte for byte. *context*: mean tokens of the
first request without its system prompt. *quoted*, *tokens*, *most*: questions with quotes in per cent, the quotes' mean
and largest tokens. The rows of ``hooks`` hold the same for `before_turn`, called with the same messages; ``hooks, named``
with the data set's names and dates too, as ``in_view.py`` has them.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests/hosts/hermes/real"))
sys.path.insert(0, str(Path(__file__).parent))

from fakes.answers import is_summary_request
from fakes.model_server import Calls, ModelRequest, ModelServer, Outcome, Reply
from fakes.speech import turn
from fakes.validity import text_of
from in_view import Tally, as_asked

from lcm_plugin.evaluation.loaders import locomo
from lcm_plugin.evaluation.records import Question, Talk
from lcm_plugin.evaluation.systems import Lcm
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.types import Message

TOOL = "look_up"
# Hours of talk pass in seconds: the guards against a runaway bill must not see that.
GUARDS = {"summaryMaxCallsPerWindow": 1_000_000, "summaryMaxTokensPerWindow": 1_000_000_000}
LOOKS = 2
_LOOKS_EVERY = 4
_LEAST_HERMES = 64_000
_QUOTES = re.compile(r"<recalled>.*?</recalled>", re.S)
_counter = TokenCounter()


@dataclass(frozen=True, slots=True)
class Step:
    """A turn: what the user says, how many tools the model calls, and what it answers. ``question`` where it is one."""

    user: str
    looks: int
    answer: str
    question: Question | None = None


@dataclass(slots=True)
class Figures:
    """One row of the table."""

    host: str
    window: int
    recall: str
    first: Tally = field(default_factory=Tally)
    third: Tally = field(default_factory=Tally)
    same: int = 0
    context: int = 0
    quotes: list[int] = field(default_factory=list)

    def add(self, step: Step, requests: Sequence[Sequence[Message]]) -> None:
        """The requests of a question's turn, system prompts left out."""
        assert step.question is not None
        first, third = requests[0], requests[-1]
        self.first.add(step.question, _view(first, step.user))
        self.third.add(step.question, _view(third, step.user))
        self.same += list(third[: len(first)]) == list(first)
        self.context += sum(_counter.message(one) for one in first)
        near = "\n".join(text_of(one.get("content")) for one in first[-2:])
        self.quotes += [_counter.text(block) for block in _QUOTES.findall(near)[-1:]]

    def row(self) -> str:
        """As a line of the table."""
        count = max(1, self.first.questions)
        evidence, answer = self.first.row
        quoted = len(self.quotes)
        return (
            f"{self.host:<14}{self.window:>7,}{self.recall:>8}{evidence:>10.1f}{answer:>8.1f}{self.third.row[0]:>13.1f}"
            f"{100 * self.same / count:>7.1f}{self.context / count:>9,.0f}{100 * quoted / count:>8.1f}"
            f"{sum(self.quotes) / max(1, quoted):>8.0f}{max(self.quotes, default=0):>6}{count:>11}"
        )


HEAD = (
    f"{'host':<14}{'window':>7}{'recall':>8}{'evidence':>10}{'answer':>8}{'in the loop':>13}{'same':>7}{'context':>9}"
    f"{'quoted':>8}{'tokens':>8}{'most':>6}{'questions':>11}"
)


def _plain(text: str) -> str:
    """Without the difference between blanks, which hosts do not keep."""
    return " ".join(text.split())


def _view(request: Sequence[Message], asked: str) -> str:
    """All text of a request, the question left out."""
    return "\n".join(text_of(one.get("content")) for one in request).replace(asked, "")


def steps_of(talk: Talk) -> list[Step]:
    """The chat as turns, and its questions behind them. Who speaks twice says it in one message."""
    runs = [
        (role, "\n\n".join(str(one["content"]).strip() for one in said))
        for role, said in groupby(talk.messages, key=lambda one: one["role"])
    ]
    if runs[0][0] == "assistant":
        runs.insert(0, ("user", "Hello!"))
    if runs[-1][0] == "user":
        runs.append(("assistant", "I see."))
    texts = [text for _, text in runs]
    turns = [
        Step(user, int(number % _LOOKS_EVERY == 1), answer)
        for number, (user, answer) in enumerate(zip(texts[::2], texts[1::2], strict=True))
    ]
    return turns + [Step(one.text, LOOKS, "I will think about it.", one) for one in talk.questions]


def looked_up(number: int) -> str:
    """What the tool returns: nothing that is asked about."""
    return turn(number, 60)


class Talking:
    """The server's side of a talk: it says what the steps say, and keeps the requests of each question's turn."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._outcomes = [(step, reply) for step in steps for reply in self._of(step)]
        self._at = 0
        self.requests: dict[str, list[Sequence[Message]]] = {}
        self.fixed = 0
        self.wrong: list[str] = []

    @staticmethod
    def _of(step: Step) -> list[Reply]:
        calls = [Calls((TOOL, {"number": number})) for number in range(step.looks)]
        return [*calls, Reply(step.answer)]

    def __call__(self, request: ModelRequest) -> Outcome | str | None:
        if is_summary_request(request) or not request.tools or self._at == len(self._outcomes):
            return None
        step, outcome = self._outcomes[self._at]
        if _plain(step.user) not in _plain(request.prompt):
            self.wrong.append(f"{step.user!r} is expected, {request.prompt!r} came")
            return "I did not expect this."
        self._at += 1
        listed = [dict(one) for one in request.messages]
        said = [one for one in listed if one["role"] != "system"]
        systems = [one for one in listed if one["role"] == "system"]
        self.fixed = _counter.text(str(request.body["tools"])) + sum(map(_counter.message, systems))
        prompt, answer = self.fixed + sum(map(_counter.message, said)), _counter.text(step.answer)
        usage = {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}
        if step.question is not None:
            self.requests.setdefault(step.question.key, []).append(said)
        return replace(outcome, usage=usage)

    def check(self) -> None:
        """Every step was taken, in order."""
        assert self.wrong == [], self.wrong[0]
        assert self._at == len(self._outcomes)


Play = Callable[[ModelServer, Sequence[Step], int, dict[str, Any], Path], None]


def langchain(
    server: ModelServer, steps: Sequence[Step], window: int, settings: dict[str, Any], folder: Path
) -> None:
    """A graph of `create_agent` with a checkpointer; a question goes on from the checkpoint after the chat."""
    from langchain.agents import create_agent
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.memory import InMemorySaver

    from lcm_plugin import LcmConfig
    from lcm_plugin.hosts.langchain import LcmMiddleware

    @tool(TOOL)
    def look_up(number: int) -> str:
        """Looks something up."""
        return looked_up(number)

    model = ChatOpenAI(model="fake-model", base_url=server.url, api_key="none", use_responses_api=False)  # type: ignore[arg-type]
    config = LcmConfig.from_plugin(settings, database=str(folder / "lcm.db"))
    middleware = LcmMiddleware(config, window=window, summary_model="none")
    agent = create_agent(model, [look_up], middleware=[middleware], checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "talk"}}
    for step in steps:
        after = thread if step.question is None else agent.get_state(thread).config
        agent.invoke({"messages": [{"role": "user", "content": step.user}]}, after)
        if step.question is not None:
            thread = after
        middleware.engine.wait_idle(60)
    middleware.close()


def hermes(
    server: ModelServer, steps: Sequence[Step], window: int, settings: dict[str, Any], folder: Path
) -> None:
    """Hermes Agent with a cap on the list; a question's turn is taken out of the list that the host holds."""
    from world import World

    home = World(
        folder / "home",
        server,
        max(window, _LEAST_HERMES),
        lcm={**settings, "maxAssemblyTokenBudget": window},
        host={"memory": {"nudge_interval": 0}, "skills": {"creation_nudge_interval": 0}},
    )
    home.scenario(
        "canaries",
        timeout=3_600,
        turns=[step.user for step in steps],
        taken_back=[number for number, step in enumerate(steps) if step.question],
        planted=len(steps) + 1,
        after=1,
        results=[looked_up(number) for number in range(LOOKS)],
        questions=[],
    )


HOSTS: dict[str, Play] = {"langchain": langchain, "hermes": hermes}


def talk_to(
    server: ModelServer, host: str, steps: Sequence[Step], window: int, settings: dict[str, Any], folder: Path
) -> Talking:
    """Takes the steps with a host."""
    talking = Talking(steps)
    server.add_rule(talking)
    HOSTS[host](server, steps, window, settings, folder)
    talking.check()
    return talking


def through(
    host: str, steps: Sequence[Step], window: int, settings: dict[str, Any], figures: Figures
) -> None:
    """A chat with its questions through a host, whose own prompt and tools get room of their own."""
    with ModelServer() as server, tempfile.TemporaryDirectory(prefix="lcm-view-") as folder:
        (Path(folder) / "probe").mkdir()
        probe = talk_to(server, host, steps[:1], _LEAST_HERMES, settings, Path(folder) / "probe")
        talking = talk_to(server, host, steps, window + probe.fixed, settings, Path(folder))
        assert server.invalid == [], server.invalid[:3]
    for step in steps:
        if step.question is not None:
            figures.add(step, talking.requests[step.question.key])


def messages_of(step: Step, number: int) -> Iterator[list[Message]]:
    """What a turn adds to the list: what is new before each of its requests, and its answer at last."""
    yield [{"role": "user", "content": step.user}]
    for look in range(step.looks):
        call = f"call_{number}_{look}"
        function = {"name": TOOL, "arguments": f'{{"number": {look}}}'}
        yield [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": call, "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": call, "name": TOOL, "content": looked_up(look)},
        ]
    yield [{"role": "assistant", "content": step.answer}]


def directly(
    talk: Talk, steps: Sequence[Step], window: int, settings: dict[str, Any], figures: Figures
) -> None:
    """The hooks without a host: the talk's messages, then the questions' turns, each on a copy."""
    with tempfile.TemporaryDirectory(prefix="lcm-view-") as folder:
        system = Lcm(window, Path(folder) / "talk.db", settings)
        system.play(talk)
        for number, step in enumerate(steps):
            if step.question is not None:
                with system.ask(step.question) as asked:
                    loop = islice(messages_of(step, number), 1, 1 + step.looks)
                    requests = [asked.messages, *(asked.goes_on(delta) for delta in loop)]
                figures.add(step, requests)


def rows(
    host: str, talks: Sequence[Talk], windows: Sequence[int], recalls: Sequence[str], hooks: bool
) -> Iterator[Figures]:
    """The rows as they are measured, those of the hooks called directly if ``hooks``."""
    steps = [steps_of(talk) for talk in talks]
    unnamed = [
        replace(
            talk,
            messages=[
                message
                for number, step in enumerate(turns)
                if step.question is None
                for delta in messages_of(step, number)
                for message in delta
            ],
        )
        for talk, turns in zip(talks, steps, strict=True)
    ]
    for window in windows:
        for recall in recalls:
            settings = {**GUARDS, "activeRecall": recall}
            for name, given in (("hooks, named", talks), ("hooks", unnamed)) if hooks else ():
                figures = Figures(name, window, recall)
                for talk, turns in zip(given, steps, strict=True):
                    directly(talk, turns, window, settings, figures)
                yield figures
            figures = Figures(host, window, recall)
            for turns in steps:
                through(host, turns, window, settings, figures)
            yield figures


def main() -> None:
    """Prints the table, a row as soon as it is measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("host", choices=HOSTS)
    parser.add_argument("file", type=Path)
    parser.add_argument("--windows", default="8000,32000")
    parser.add_argument("--recall", default="off,on", help="the values of activeRecall to measure")
    parser.add_argument("--chats", type=int, help="only so many chats")
    parser.add_argument("--questions", type=int, default=14, help="about so many questions of each chat")
    parser.add_argument("--host-only", action="store_true", help="leave out the hooks called directly")
    options = parser.parse_args()
    logging.getLogger("lcm_plugin").setLevel(logging.ERROR)
    os.environ["LANGSMITH_TRACING"] = "false"
    talks = [
        as_asked(talk, options.questions, as_chat=True)
        for talk in islice(locomo.load(options.file), options.chats)
    ]
    print(HEAD)
    windows = [int(window) for window in options.windows.split(",")]
    for figures in rows(options.host, talks, windows, options.recall.split(","), not options.host_only):
        print(figures.row(), flush=True)


if __name__ == "__main__":
    main()
