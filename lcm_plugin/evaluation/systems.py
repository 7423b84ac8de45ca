"""The systems that an evaluation compares: this plugin, and what agents do without it.

*truncate* sends the newest messages up to the window, *head-tail* a quarter of the window from the beginning of the talk
and the rest from its end, *full* the whole talk, even when it is larger than the window.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from lcm_plugin.config import LcmConfig
from lcm_plugin.engine import Engine
from lcm_plugin.evaluation.bill import Bill, Entry
from lcm_plugin.evaluation.play import charge_summaries, play
from lcm_plugin.evaluation.records import Question, Talk
from lcm_plugin.evaluation.retrieval import places_of
from lcm_plugin.messages.blocks import calls_answered
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.plugin import LcmPlugin
from lcm_plugin.recall.tools import tool_schemas
from lcm_plugin.types import Message, Session, Turn

SESSION = Session("agent:eval:main")
SYSTEMS = ("lcm", "truncate", "head-tail", "full")
_HEAD = 0.25


class Asked(Protocol):
    """A question in its context. ``quoted`` are the tokens of quotes in it."""

    messages: list[Message]
    tokens: int

    @property
    def tools(self) -> list[dict[str, Any]]:
        """Schemas of the tools that the agent has."""

    def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """A tool's answer."""

    def goes_on(self, delta: Sequence[Message]) -> list[Message]:
        """The next request of the same turn, after calls with their results."""


class System(Protocol):
    """One way to keep a talk within a window."""

    def play(self, talk: Talk) -> Bill:
        """Takes the talk in and returns the bill of its requests."""

    def ask(self, question: Question) -> Any:
        """A context manager that yields the question's `Asked`."""

    def close(self) -> None:
        """Frees what the system holds."""


def made(name: str, window: int, folder: Path, counter: TokenCounter, settings: Mapping[str, Any]) -> System:
    """A system by its name, with an empty memory. ``settings`` are those of the plugin."""
    if name == "lcm":
        return Lcm(window, folder / "talk.db", settings)
    return Baseline(name, window, counter)


class Lcm:
    """The plugin behind its hooks, on a database of its own. ``places`` are those of the stored messages in the talk."""

    def __init__(self, window: int, database: Path, settings: Mapping[str, Any]) -> None:
        self._window = window
        self._database = database
        self._settings = settings
        self.places: dict[str, int] = {}

    def open(self, database: Path | None = None) -> Engine:
        """An engine on the talk's database, or on another one."""
        # Hours of talk pass in seconds: the guards against a runaway bill must not see that.
        guards = {"summaryMaxCallsPerWindow": 1_000_000, "summaryMaxTokensPerWindow": 1_000_000_000}
        config = LcmConfig.from_plugin({**guards, **self._settings}, database=str(database or self._database))
        return Engine.open(config)

    def play(self, talk: Talk) -> Bill:
        """Plays the talk turn by turn."""
        bill = Bill()
        with self.open() as engine:
            charge_summaries(engine, bill)
            play(engine, SESSION, talk.messages, self._window, bill)
            index_all(engine)
            self.places = places_of(engine, SESSION, talk.messages)
        return bill

    @contextmanager
    def ask(self, question: Question) -> Iterator[LcmAsked]:
        """The question as the newest message of a copy of the talk."""
        copy = self._database.with_name("asked.db")
        for ending in ("", "-wal", "-shm"):
            copy.with_name(copy.name + ending).unlink(missing_ok=True)
        shutil.copy(self._database, copy)
        with self.open(copy) as engine:
            yield LcmAsked(engine, self._window, question.text)

    def close(self) -> None:
        """Nothing is held between questions."""


class LcmAsked:
    """A question asked of the plugin."""

    def __init__(self, engine: Engine, window: int, text: str) -> None:
        self.engine = engine
        self._window = window
        self._plugin = LcmPlugin(engine=engine)
        self.tools = tool_schemas(engine.config)
        self.tokens = 0
        self.recalled: tuple[str, ...] = ()
        self.messages = self.goes_on([{"role": "user", "content": text}])

    def goes_on(self, delta: Sequence[Message]) -> list[Message]:
        """What the hook assembles for the next request."""
        context = self._plugin.before_turn(Turn(SESSION, list(delta), mode="append", window=self._window))
        if context is None:
            return list(delta)
        self.tokens, self.recalled = context.tokens, context.recalled
        return context.messages

    def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """A recall tool's answer."""
        return self.engine.call_tool(SESSION, name, dict(arguments))


class Baseline:
    """Keeps a part of the talk, whole tool exchanges only, behind its first system message."""

    def __init__(self, name: str, window: int, counter: TokenCounter) -> None:
        self._name = name
        self._window = window
        self._counter = counter
        self._messages: list[Message] = []
        self._sizes: list[int] = []

    def play(self, talk: Talk) -> Bill:
        """Puts each request that the talk made on a bill."""
        self.take(talk)
        entries = [
            Entry(place, size, self._messages[place]["role"] != "system")
            for place, size in enumerate(self._sizes)
        ]
        bill = Bill()
        for place, message in enumerate(self._messages):
            if message["role"] == "assistant":
                bill.request([entries[one] for one in self._kept(place, self._window)], self._sizes[place])
        return bill

    def take(self, talk: Talk) -> None:
        """Takes the talk in, without a bill."""
        self._messages = list(talk.messages)
        self._sizes = [self._counter.message(message) for message in self._messages]

    @contextmanager
    def ask(self, question: Question) -> Iterator[BaselineAsked]:
        """The question behind what is kept beside it."""
        request: Message = {"role": "user", "content": question.text}
        asked = self._counter.message(request)
        kept = self._kept(len(self._messages), self._window - asked)
        tokens = sum(self._sizes[place] for place in kept) + asked
        yield BaselineAsked([*(self._messages[place] for place in kept), request], tokens)

    def close(self) -> None:
        """Nothing is held."""

    def _kept(self, end: int, room: int) -> list[int]:
        """The places that a request before ``end`` holds."""
        if self._name == "full":
            return list(range(end))
        first = int(bool(self._messages) and self._messages[0]["role"] == "system")
        room -= sum(self._sizes[:first])
        head = first
        if self._name == "head-tail":
            share = int(room * _HEAD)
            while head < end and self._sizes[head] <= share:
                share -= self._sizes[head]
                room -= self._sizes[head]
                head += 1
            # A call without its results is no request that a provider takes.
            while head > first and self._splits(head, end):
                head -= 1
                room += self._sizes[head]
        tail = end
        while tail > head and self._sizes[tail - 1] <= room:
            tail -= 1
            room -= self._sizes[tail]
        while tail < end and self._splits(tail, end):
            tail += 1
        return [*range(head), *range(tail, end)]

    def _splits(self, place: int, end: int) -> bool:
        """Whether a cut before a place parts a call from a result."""
        return place < end and bool(calls_answered(self._messages[place]))


class BaselineAsked:
    """A question asked of an agent without memory."""

    tools: Sequence[dict[str, Any]] = ()

    def __init__(self, messages: list[Message], tokens: int) -> None:
        self.messages = messages
        self.tokens = tokens

    def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """There is no tool."""
        return {"error": f"there is no tool {name}"}

    def goes_on(self, delta: Sequence[Message]) -> list[Message]:
        """The same request, longer."""
        self.messages = [*self.messages, *delta]
        return self.messages


def index_all(engine: Engine) -> None:
    """Indexes what is searched later now, once, and not in each copy."""
    engine.call_tool(SESSION, "lcm_grep", {"pattern": "anything", "limit": 1})


def text_in(messages: Sequence[Message]) -> str:
    """All text of a request but its last message, which is the question; what is no text as JSON."""
    return "\n".join(
        content
        if isinstance(content := message.get("content"), str)
        else json.dumps(message, ensure_ascii=False)
        for message in messages[:-1]
    )
