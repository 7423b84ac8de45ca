"""The host of the replay: it knows the plugin only through pluggy hooks, like any other host.

Its clock follows the transcript, so that two runs make the same database.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Protocol

import pluggy

from lcm_plugin.cli.replay.proof import as_bytes
from lcm_plugin.cli.replay.report import ContextFigures
from lcm_plugin.cli.replay.turns import TurnSlice
from lcm_plugin.cli.transcripts import Entry
from lcm_plugin.errors import StoreError
from lcm_plugin.events import Event
from lcm_plugin.hookspecs import PROJECT, HostHooks, PluginHooks, hookimpl
from lcm_plugin.messages.validate import validate
from lcm_plugin.plugin import LcmPlugin
from lcm_plugin.types import Context, Message, Session, Turn

START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
STEP = 30_000


class TranscriptClock:
    """Milliseconds since the epoch at a position of the transcript: ``START`` plus 30 s a message."""

    def __init__(self) -> None:
        self._now = START

    def __call__(self) -> int:
        return self._now

    def set_position(self, position: int) -> None:
        """Moves to the time of the message at this position."""
        self._now = START + position * STEP


class Waits(Protocol):
    """The engine as the host uses it besides the hooks: it can wait for background work."""

    def wait_idle(self, timeout: float | None = None) -> bool: ...


class ReplayHost:
    """Hands turns to the plugin and checks the contexts that it returns."""

    def __init__(
        self,
        plugin: LcmPlugin,
        engine: Waits,
        session: Session,
        *,
        budget: int,
        clock: TranscriptClock,
        count: Callable[[Message], int],
    ) -> None:
        self._hooks = pluggy.PluginManager(PROJECT)
        self._hooks.add_hookspecs(HostHooks)
        self._hooks.add_hookspecs(PluginHooks)
        self._hooks.register(plugin, name="lcm")
        self._hooks.register(self, name="host")
        plugin.attach(self._hooks)
        self._engine, self._session, self._budget, self._clock = engine, session, budget, clock
        self._count = _counting_once(count)
        self._failures: list[str] = []
        self.figures = ContextFigures()

    @hookimpl
    def lcm_event(self, event: Event) -> None:
        """Takes note of hooks that failed: they never raise, and a replay must not hide it."""
        if event.name == "hook.failed":
            self._failures.append(f"{event.fields['hook']}: {event.fields['error']}")

    def play(self, turn: TurnSlice) -> None:
        """One turn: a context before each model answer, the rest after the turn, then idle."""
        position = turn.start
        for piece, answer_follows in turn.calls():
            position += len(piece)
            self._clock.set_position(position)
            if answer_follows:
                self._before(piece)
            else:
                self._hooks.hook.after_turn(turn=self._turn(piece))
                self._check()

    def command(self, text: str) -> str:
        """The answer of a chat command."""
        result = self._hooks.hook.lcm_run_command(session=self._session, text=text)
        return str(result.text) if result else ""

    def _before(self, piece: Sequence[Entry]) -> None:
        context = self._hooks.hook.before_turn(turn=self._turn(piece))
        self._check()
        # None: nothing stored can be sent (say, only an empty message); a host goes on with its own list.
        if context is not None:
            self.inspect(context)

    def inspect(self, context: Context, *, for_model_call: bool = True) -> None:
        """Counts and checks a context that goes to a model, or would after the last turn."""
        tokens = sum(map(self._count, context.messages))
        faults = validate(context.messages, for_model_call=for_model_call)
        self.figures.add(context, tokens, self._budget, faults)

    def _check(self) -> None:
        """Waits for background work, with which a replay must not race, and raises the failure that a hook hid."""
        self._engine.wait_idle()
        if self._failures:
            raise StoreError(self._failures[0])

    def _turn(self, piece: Sequence[Entry]) -> Turn:
        messages = [entry.message for entry in piece]
        return Turn(self._session, messages, mode="append", window=self._budget)


def _counting_once(count: Callable[[Message], int]) -> Callable[[Message], int]:
    """Counts each distinct message once: contexts repeat most messages of the last one."""
    seen: dict[bytes, int] = {}

    def cached(message: Message) -> int:
        key = blake2b(as_bytes(message), digest_size=16).digest()
        if key not in seen:
            seen[key] = count(message)
        return seen[key]

    return cached
