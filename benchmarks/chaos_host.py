"""A host process of a chaos run: takes turns in talks through the plugin's hooks until it is stopped or killed."""

from __future__ import annotations

import http.client
import json
import mmap
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import IO, Any, TypeVar
from urllib.parse import urlsplit

import pluggy
from chaos_talk import (
    NEWEST,
    STYLES,
    Message,
    Sayings,
    Style,
    Talk,
    locked,
    open_calls,
    read_talk,
    unique_word,
)

from lcm_plugin import CompletionRequest, LcmConfig, Session
from lcm_plugin.events import Event
from lcm_plugin.hookspecs import PROJECT, hookimpl
from lcm_plugin.plugin import register
from lcm_plugin.types import Context, IngestMode, Reset, Turn

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from fakes.validity import problems_of

_T = TypeVar("_T")
SETTINGS: dict[str, Any] = {
    "fresh_tail_count": 6,
    "leaf_chunk_tokens": 400,
    "leaf_min_fanout": 4,
    "leaf_target_tokens": 96,
    "condensed_target_tokens": 128,
    "large_file_token_threshold": 1_000,
    "summary_max_calls_per_window": 1_000_000,
    "busy_timeout_ms": 2_000,
}
SLOTS = 1_024
_WINDOWS = (2_500, 4_000, 8_000)
_COUNTED = frozenset(
    {
        "hook.failed",
        "tool.failed",
        "ingest.waiting",
        "compaction.pass",
        "compaction.finished",
        "compaction.skipped",
    }
)


@dataclass(frozen=True, slots=True)
class Place:
    """What all processes of a run share. ``think_s`` is the mean pause between two turns of a process.

    ``in_hook`` has a byte for each process, 1 while it is in a hook.
    """

    database: str
    folder: Path
    model: str
    talks: int
    think_s: float
    in_hook: mmap.mmap = field(default_factory=lambda: mmap.mmap(-1, SLOTS))

    def talk(self, number: int) -> Talk:
        """A talk as its journal tells it now."""
        return read_talk(self.path(number), self.key(number), self.style(number))

    def path(self, number: int) -> Path:
        """A talk's journal."""
        return self.folder / f"talk-{number}.jsonl"

    def style(self, number: int) -> Style:
        """How a talk's host hands its messages over; one talk in sixteen is a room."""
        return "room" if number % 16 == 15 else STYLES[number % len(STYLES)]

    @staticmethod
    def key(number: int) -> str:
        """A talk's session key."""
        return f"agent:chaos:talk:{number}"


class Diary:
    """What a process saw: times of hooks, events, and what should not have been."""

    def __init__(self, path: Path) -> None:
        self._lines: IO[str] = path.open("a", buffering=1)

    def hook(self, name: str, began: float) -> None:
        """One hook's time."""
        self._note("hook", name=name, began=began, seconds=time.monotonic() - began)

    def event(self, event: Event) -> None:
        """One event of those that are counted."""
        if event.name in _COUNTED:
            fields = {
                key: str(event.fields[key])
                for key in ("reason", "error", "detail", "hook")
                if key in event.fields
            }
            self._note("event", name=event.name, at=time.monotonic(), **fields)

    def fault(self, text: str) -> None:
        """Something that should not have been."""
        self._note("fault", text=text, at=time.monotonic())

    def _note(self, kind: str, **values: Any) -> None:
        self._lines.write(json.dumps({"kind": kind, **values}) + "\n")


class Model:
    """The host's own model, asked over HTTP, and its ear for events."""

    def __init__(self, url: str, diary: Diary) -> None:
        self._server = urlsplit(url)
        self._diary = diary
        self.failures = 0

    @hookimpl
    def lcm_complete(self, request: CompletionRequest) -> str:
        """One call; any error is the host's, and is passed on."""
        connection = http.client.HTTPConnection(
            str(self._server.hostname), self._server.port, timeout=request.timeout
        )
        body = {"model": "fake", "messages": list(request.messages), "max_tokens": request.max_tokens}
        try:
            connection.request("POST", f"{self._server.path}/chat/completions", json.dumps(body))
            answer = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        return str(answer["choices"][0]["message"]["content"])

    @hookimpl
    def lcm_event(self, event: Event) -> None:
        """Notes it; a failed hook is what a host would log."""
        if event.name == "hook.failed":
            self.failures += 1
        self._diary.event(event)


class ChaosHost:
    """One process's life. ``number`` is given to no other."""

    def __init__(self, place: Place, number: int, seed: int) -> None:
        self._place = place
        self._name = name = f"p{number}"
        self._slot = number % SLOTS
        self._rng = Random(seed)
        self._diary = Diary(place.folder / f"diary-{name}.jsonl")
        self._model = Model(place.model, self._diary)
        self._manager = pluggy.PluginManager(PROJECT)
        self._plugin = register(self._manager, LcmConfig(database=place.database, **SETTINGS))
        self._manager.register(self._model)
        self._sayings: dict[int, Sayings] = {}
        self._rooms: dict[int, Talk] = {}
        self._told: dict[str, int] = {}
        self._stopped = False
        self._hurried = False

    def live(self) -> None:
        """Takes turns until SIGTERM."""
        signal.signal(signal.SIGTERM, self._stop)
        while not self._stopped:
            self._some_turn()
            self._pause(self._place.think_s)
        self._end()

    def catch_up(self) -> None:
        """One more turn in every talk, as would come some day."""
        self._hurried = True
        for number in range(self._place.talks):
            with locked(self._place.path(number), wait=True):
                talk = self._place.talk(number)
                if talk.style != "room" and (talk.run.messages or talk.asked):
                    self._turn(number, talk)
        self._end()

    def _stop(self, *_: object) -> None:
        self._stopped = True

    def _end(self) -> None:
        for number in list(self._sayings)[-3:]:
            session = self._place.talk(number).session
            self._guarded(
                "session_end",
                lambda session=session: self._hook("session_end", session=session, reason="shutdown"),
            )
        self._plugin.close()

    def _some_turn(self) -> None:
        """A turn in some talk, oftener in the first ones; in one that nobody else is working on, unless it is a room."""
        number = int(self._place.talks * self._rng.random() ** 3)
        if self._place.style(number) == "room":
            self._room_turn(number)
            return
        with locked(self._place.path(number)) as mine:
            if mine:
                self._turn(number, self._place.talk(number))

    def _turn(self, number: int, talk: Talk) -> None:
        says = self._said_by(number, talk.style)
        if talk.holder != self._name:
            self._told[talk.key] = 0
        talk.take(self._name)
        if talk.asked and self._rng.random() < 0.5:
            talk.settle_reset(done=False)
        if talk.asked or (talk.run.messages and self._rng.random() < 0.04):
            self._reset(talk)
        for call in open_calls(talk.run.messages):
            talk.say({"role": "tool", "tool_call_id": call, "content": "interrupted"})
        talk.say(says.user())
        self._before(talk)
        for _ in range(self._rng.choice((0, 0, 0, 1, 2))):
            asked, results = says.calls()
            if self._rng.random() < 0.3:
                talk.say(asked)
                self._think()
                talk.say(*results)
            else:
                talk.say(asked, *results)
            self._before(talk)
        self._think()
        talk.say(says.answer())
        self._storing("after_turn", talk)
        if self._rng.random() < 0.2:
            self._search(talk)
        if self._rng.random() < 0.03:
            self._compact(talk)

    def _room_turn(self, number: int) -> None:
        """What this process says among others; each keeps its own journal, in which nothing else stands."""
        talk = self._rooms.get(number)
        if talk is None:
            path = self._place.folder / f"room-{number}-{self._name}.jsonl"
            talk = self._rooms[number] = Talk(path, self._place.key(number), "room")
        says = self._said_by(number, "room")
        talk.say(says.user())
        self._before(talk)
        self._think()
        talk.say(says.answer())
        self._storing("after_turn", talk)

    def _said_by(self, number: int, style: Style) -> Sayings:
        if number not in self._sayings:
            self._sayings[number] = Sayings(Random(self._rng.random()), f"{self._name}t{number}", style)
        return self._sayings[number]

    def _before(self, talk: Talk) -> None:
        context: Context | None = self._storing("before_turn", talk)
        if context is not None:
            self._look_at(context, talk)

    def _storing(self, hook: str, talk: Talk) -> Any:
        """Calls a hook with the list, or with what this process has not told yet; notes what is stored.

        A delta that could not be stored waits within the plugin; a list is told again.
        """
        everything, told = talk.run.messages, self._told.get(talk.key, 0)
        mode: IngestMode = (
            "append" if talk.style == "room" or (talk.style.startswith("delta") and told) else "sync"
        )
        messages = everything[told:] if mode == "append" else everything
        if talk.style == "newest":
            messages = _newest(everything, talk.run.stored)
        window = _WINDOWS[len(talk.key) % len(_WINDOWS)]
        turn = Turn(talk.session, messages, mode=mode, model="fake", window=window)
        failed = self._model.failures
        answer = self._guarded(hook, lambda: self._hook(hook, turn=turn))
        if stored := self._model.failures == failed:
            talk.acknowledge(len(everything))
            if hook == "before_turn" and answer is None:
                self._diary.fault(f"{talk.key}: before_turn gave no context")
        if stored or mode == "append":
            self._told[talk.key] = len(everything)
        return answer

    def _look_at(self, context: Context, talk: Talk) -> None:
        # In a room somebody else may have answered meanwhile.
        problems = problems_of(context.messages, model_must_answer=talk.style != "room")
        if problems:
            self._diary.fault(f"{talk.key}: an invalid context: {problems[:3]}")
        newest = next(one for one in reversed(talk.run.messages) if one["role"] == "user")
        if not any(one.get("content") == newest["content"] for one in context.messages):
            end = json.dumps(context.messages[-2:])[-600:]
            self._diary.fault(
                f"{talk.key}: {newest['content'][:60]} is not in the context, which ends with {end}"
            )

    def _reset(self, talk: Talk) -> None:
        kind = talk.asked or self._rng.choice(("new", "new", "reset"))
        talk.ask_reset(kind)
        result = self._guarded(
            "before_reset", lambda: self._hook("before_reset", reset=Reset(talk.session, kind))
        )
        done = result is not None and result.ok
        talk.settle_reset(done=done)
        if done:
            self._told[talk.key] = 0

    def _search(self, talk: Talk) -> None:
        """Looks for a message that was acknowledged; it must be found."""
        words = [word for one in talk.run.messages[: talk.run.stored] if (word := unique_word(one))]
        if not words:
            return
        word, failed = self._rng.choice(words), self._model.failures
        found = self._tool(talk.session, "lcm_grep", {"pattern": word}) or {}
        if "error" in found:
            self._diary.event(
                Event("tool.failed", fields={"error": "in its answer", "detail": found["error"]})
            )
        elif self._model.failures == failed and not found.get("hits"):
            self._diary.fault(f"{talk.key}: a search for {word} found {json.dumps(found)[:200]}")

    def _compact(self, talk: Talk) -> None:
        failed = self._model.failures
        result = self._guarded(
            "lcm_run_command",
            lambda: self._hook("lcm_run_command", session=talk.session, text="/lcm compact"),
        )
        if self._model.failures == failed and result is None:
            self._diary.fault(f"{talk.key}: /lcm compact was not answered")

    def _tool(self, session: Session, name: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
        return self._guarded(
            "lcm_call_tool",
            lambda: self._hook("lcm_call_tool", session=session, name=name, arguments=arguments),
        )

    def _hook(self, name: str, /, **values: Any) -> Any:
        return getattr(self._manager.hook, name)(**values)

    def _guarded(self, name: str, call: Callable[[], _T]) -> _T | None:
        """A hook's answer and time; an exception that leaves it is a fault."""
        began = time.monotonic()
        self._place.in_hook[self._slot] = 1
        try:
            return call()
        except Exception as error:  # noqa: BLE001 - this is what must never be
            self._diary.fault(f"{name} raised {error!r}")
            return None
        finally:
            self._place.in_hook[self._slot] = 0
            self._diary.hook(name, began)

    def _think(self) -> None:
        """The model's time for an answer."""
        if not self._hurried:
            time.sleep(self._rng.uniform(0.05, 0.3))

    def _pause(self, mean: float) -> None:
        if not self._stopped:
            time.sleep(min(self._rng.expovariate(1 / mean), 4 * mean))


def _newest(messages: list[Message], stored: int) -> list[Message]:
    """The end of a list, with all that was not acknowledged yet, begun at a question as hosts do."""
    start = min(max(0, len(messages) - NEWEST), stored)
    while start and messages[start]["role"] != "user":
        start -= 1
    return messages[start:]


def start_host(
    place: Place, number: int, seed: int, life: Callable[[ChaosHost], None] = ChaosHost.live
) -> int:
    """Forks a host and returns its process id."""
    if child := os.fork():
        return child
    code = 1
    try:
        life(ChaosHost(place, number, seed))
        code = 0
    except BaseException as error:  # noqa: BLE001 - a fork must not go on as its parent
        Diary(place.folder / f"diary-p{number}.jsonl").fault(f"the host itself failed: {error!r}")
    finally:
        os._exit(code)
