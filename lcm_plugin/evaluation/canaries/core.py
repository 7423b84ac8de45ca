"""The canaries through the plugin's hooks, without a host."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lcm_plugin.engine import Engine
from lcm_plugin.evaluation.canaries.asking import AFTER, Sighting, measure
from lcm_plugin.evaluation.canaries.planting import SYSTEM, Exchange, script
from lcm_plugin.evaluation.records import Question
from lcm_plugin.evaluation.systems import SESSION, Lcm, LcmAsked, index_all, text_in
from lcm_plugin.events import Event
from lcm_plugin.plugin import LcmPlugin
from lcm_plugin.types import Message, Turn

_IDLE_SECONDS = 60.0


class Hooks:
    """A host that calls the hooks as the contract says. Close it."""

    def __init__(self, folder: Path, window: int, settings: dict[str, str]) -> None:
        self._lcm = Lcm(window, folder / "talk.db", settings)
        self._window = window
        self._stack = ExitStack()
        self._open: tuple[Engine, LcmPlugin] | None = None
        self._turns = 0
        self._asked: tuple[str, LcmAsked] | None = None
        self.passes = 0
        self._tell([{"role": "system", "content": SYSTEM}], after=True)

    def say(self, exchange: Exchange) -> None:
        """One turn: a context before each model call, the answer after it."""
        self._turns += 1
        rows = exchange.messages(f"call_{self._turns}")
        waiting: list[Message] = []
        for row in rows:
            if row["role"] == "assistant":
                self._tell(waiting, after=False)
                waiting = []
            waiting.append(row)
        self._tell(waiting, after=True)
        if exchange.taken_back:
            engine = self._engine()[0]
            newest = engine.record.newest(SESSION, len(rows), standing=True)
            engine.record.withdraw(SESSION, [row.head.message_id for row in newest])

    def ask(self, question: str) -> str:
        """The request's text, in a copy of the talk."""
        return text_in(self._ask(question).messages)

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """A tool's answer in the turn of the question that was asked last."""
        assert self._asked is not None
        return self._asked[1].call(name, arguments)

    def close(self) -> None:
        """Closes the databases."""
        self._stack.close()

    def _ask(self, question: str) -> LcmAsked:
        if self._open is not None:
            index_all(self._open[0])
        self._stack.close()
        self._open = None
        asked = self._stack.enter_context(self._lcm.ask(Question("canary", question)))
        self._asked = (question, asked)
        return asked

    def _tell(self, messages: list[Message], *, after: bool) -> None:
        engine, plugin = self._engine()
        turn = Turn(SESSION, messages, mode="append", window=self._window)
        if after:
            plugin.after_turn(turn)
        else:
            plugin.before_turn(turn)
        engine.wait_idle(_IDLE_SECONDS)

    def _engine(self) -> tuple[Engine, LcmPlugin]:
        if self._open is None:
            self._stack.close()
            self._asked = None
            engine = self._stack.enter_context(self._lcm.open())
            engine.subscribe(self._count)
            self._open = engine, LcmPlugin(engine=engine)
        return self._open

    def _count(self, event: Event) -> None:
        self.passes += event.name == "compaction.pass"


def run(seed: int, window: int, settings: dict[str, str], after: tuple[int, ...] = AFTER) -> list[Sighting]:
    """The canaries of a seed in one window."""
    with TemporaryDirectory(prefix="lcm-canaries-") as folder:
        host = Hooks(Path(folder), window, settings)
        try:
            return measure(host, script(seed), after)
        finally:
            host.close()
