"""Fuzzes the hooks and the adapters of hosts with what a host should not hand over.

    python benchmarks/fuzz_hosts.py [--host plugin] [--examples 500] [--seed 0]

Each example is a talk of a few turns in a session of its own. Between sound messages, which carry a word that stands
nowhere else, come odd ones: values that JSON lacks, cycles, deep nesting, huge numbers, mappings that raise, calls that
are no calls, and what is no message. Now and then the store fails for a turn. No call may raise, every context must be
encodable and one that providers take, tools must answer, and in the end each sound message is stored exactly once, in order.

An adapter is driven where its host is installed: ``plugin``, ``hermes`` and ``bub`` run anywhere, since their adapters
need no host; ``openai_agents``, ``langchain`` and ``pydantic_ai`` in an environment that has the SDK.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import json
import logging
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any, Protocol

from lcm_plugin import Engine, LcmConfig, LcmPlugin, Session, Turn
from lcm_plugin.errors import StoreBusy, StoreError, StoreUnavailable
from lcm_plugin.messages.validate import validate

ERRORS = (StoreBusy("locked"), StoreError("odd"), StoreUnavailable("away"), MemoryError())
ARGUMENTS: tuple[Any, ...] = (
    {"pattern": "\ud83d", "mode": "regex"},
    {"pattern": "x", "tool_name": "\ud83d", "limit": 10**30},
    {"pattern": ["x"], "roles": {"a": 1}},
    {"pattern": "x", "since": "\x00"},
    {"id": "msg_99999999999999999999"},
    {},
)


Check = Callable[[Any], list[str]]


def no_problems(context: Any) -> list[str]:
    """For contexts that nobody checks but for their encoding."""
    return []


class Driver(Protocol):
    """One host with one talk; ``say`` hands a message over in the host's own way and returns the context."""

    def say(self, message: Any) -> Any: ...
    def tool(self, name: str, arguments: Any) -> Any: ...
    def close(self) -> None: ...


def cyclic() -> dict[str, Any]:
    value: dict[str, Any] = {"role": "user", "content": "round"}
    value["me"] = [value]
    return value


def nested(depth: int) -> Any:
    value: Any = ["deep"]
    for _ in range(depth):
        value = [value]
    return value


class Unreadable(dict[str, Any]):
    """A message that cannot be read."""

    def items(self) -> Any:
        raise RuntimeError("this mapping is odd")


class Hostile:
    """A value that cannot even be named."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


def odd_value(rng: Random) -> Any:
    return rng.choice(
        (
            lambda: datetime(2026, 5, 1),
            lambda: b"\xff\x00",
            lambda: {1, "two"},
            lambda: 10**5000,
            lambda: nested(rng.choice((150, 990, 3_000, 100_000))),
            object,
            Hostile,
            list,
            lambda: [{"type": "text", "text": ""}],
            lambda: {"type": "text"},
            lambda: None,
        )
    )()


def odd_message(rng: Random) -> Any:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": odd_value(rng)}}
    return rng.choice(
        (
            lambda: {
                "role": rng.choice(("user", "assistant", "tool", "odd role")),
                "content": odd_value(rng),
            },
            lambda: {"role": "user", "content": "text", "extra": odd_value(rng), "timestamp": odd_value(rng)},
            lambda: {
                "role": "assistant",
                "content": "text",
                "tool_calls": rng.choice((5, "x", [5], [call], [None])),
            },
            lambda: {"role": "tool", "content": odd_value(rng), "tool_call_id": odd_value(rng)},
            cyclic,
            lambda: Unreadable(role="user", content="unread"),
            lambda: {"content": "no role"},
            lambda: {"role": "user", 7: odd_value(rng), "content": "odd key"},
        )
    )()


class ByHooks:
    """A host of the plugin's hooks: of deltas, or of its whole list."""

    def __init__(self, engine: Engine, rng: Random, name: str) -> None:
        self._plugin = LcmPlugin(engine=engine)
        self.session = Session(f"fuzz:{name}")
        self._mode: Any = rng.choice(("append", "sync"))
        self._list: list[Any] = []

    def say(self, message: Any) -> Any:
        self._list.append(message)
        given = [message] if self._mode == "append" else list(self._list)
        turn = Turn(self.session, given, mode=self._mode, window=8_000)
        context = self._plugin.before_turn(turn)
        self._plugin.after_turn(turn)
        return context.messages if context is not None and context.prefix_epoch else []

    def tool(self, name: str, arguments: Any) -> Any:
        return self._plugin.lcm_call_tool(self.session, name, arguments)

    def close(self) -> None:
        self._plugin._recorder.settle()


class ByHermes:
    """Hermes Agent's context engine, called as the host calls it."""

    def __init__(self, engine: Engine, rng: Random, name: str) -> None:
        from lcm_plugin.hosts.hermes.completer import AuxiliaryCompleter
        from lcm_plugin.hosts.hermes.engine import HermesEngine
        from lcm_plugin.hosts.hermes.runtime import Runtime

        self._runtime = Runtime(lambda: engine.config, AuxiliaryCompleter(), patience=0.05)
        self._agent = copy.deepcopy(HermesEngine(self._runtime))
        self._agent.update_model("fake", 8_000, provider="custom")
        self._agent.bind_session_state(session_db=None, session_id=name)
        self._agent.on_session_start(name, platform="cli")
        session = self._agent.session
        assert session is not None
        self.session = session
        self._list: list[Any] = []

    def say(self, message: Any) -> Any:
        self._list.append(message)
        self._agent.before_request(self._list, {"messages": self._list})
        self._agent.after_turn(self._list)
        return []

    def tool(self, name: str, arguments: Any) -> Any:
        return json.loads(self._agent.handle_tool_call(name, arguments))

    def close(self) -> None:
        self._agent.after_turn(self._list)
        self._runtime.outbox.drain(10)
        self._runtime.close()


class ByBub:
    """Bub's core, called as its hooks call it."""

    def __init__(self, engine: Engine, rng: Random, name: str) -> None:
        from lcm_plugin.hosts.bub.core import Core

        self._now = 0.0
        self._core = Core(engine.config, monotonic=lambda: self._now)
        self.session = Session(f"agent:fuzz:{name}")
        self._number = 0

    def say(self, message: Any) -> Any:
        from lcm_plugin.hosts.bub.tape import named

        self._number += 1
        self._now += 100.0
        given = named(message, f"run-{self._number}/0") if type(message) is dict else message
        context = self._core.before_turn(Turn(self.session, [given], mode="append", window=8_000))
        return context.messages if context is not None else []

    def tool(self, name: str, arguments: Any) -> Any:
        self._now += 100.0
        return self._core.call_tool(self.session, name, arguments)

    def close(self) -> None:
        self._now += 100.0
        self._core.before_turn(Turn(self.session, [], mode="append"))
        self._core.close()


def watch(driver: Any, plugin: Any) -> None:
    """Notes in ``driver._ours`` whether the newest call goes out with a context of ours."""
    assemble: Callable[[Any], Any] = plugin.before_turn

    def watched(turn: Any) -> Any:
        context = assemble(turn)
        driver._ours = context is not None and bool(context.prefix_epoch)
        return context

    plugin.before_turn = watched


class ByOpenAIAgents:
    """The session of the OpenAI Agents SDK."""

    def __init__(self, engine: Engine, rng: Random, name: str) -> None:
        from lcm_plugin.hosts.openai_agents import LcmSession

        self._session = LcmSession(name, engine=engine, window=8_000)
        self.session = self._session.core_session
        self._ours = False
        watch(self, self._session.plugin)

    def say(self, message: Any) -> Any:
        async def add_and_get() -> Any:
            await self._session.add_items([message])
            return await self._session.get_items()

        items = asyncio.run(add_and_get())
        # When nothing could be assembled the record goes out, whatever is in it.
        return items if self._ours else []

    def tool(self, name: str, arguments: Any) -> Any:
        return self._session.call_tool(name, arguments)

    def close(self) -> None:
        """Its engine is everybody's."""


def by_langchain(engine: Engine, rng: Random, name: str) -> Driver:
    from fuzz_graphs import ByLangChain

    return ByLangChain(engine, rng, name)


def by_pydantic_ai(engine: Engine, rng: Random, name: str) -> Driver:
    from fuzz_graphs import ByPydanticAI

    return ByPydanticAI(engine, rng, name)


DRIVERS: dict[str, Callable[[Engine, Random, str], Driver]] = {
    "plugin": ByHooks,
    "hermes": ByHermes,
    "bub": ByBub,
    "openai_agents": ByOpenAIAgents,
    "langchain": by_langchain,
    "pydantic_ai": by_pydantic_ai,
}


@contextmanager
def failing(rng: Random, share: float) -> Iterator[None]:
    """Some calls find a store that fails."""
    ingest = Engine.ingest
    if rng.random() < share:
        error = rng.choice(ERRORS)

        def fail(*_: Any, **__: Any) -> Any:
            raise error

        Engine.ingest = fail  # type: ignore[method-assign]
    try:
        yield
    finally:
        Engine.ingest = ingest  # type: ignore[method-assign]


def run(
    host: str, examples: int, seed: int, folder: Path, problems_in: Check = no_problems
) -> dict[str, int]:
    """All examples; raises when a promise is broken, naming the example.

    ``problems_in`` says what providers would refuse of what a model is given, in the host's own objects.
    """
    counts = {"examples": 0, "messages": 0, "odd": 0}
    config = LcmConfig(database=str(folder / "fuzz.db"), fresh_tail_count=4, leaf_chunk_tokens=400)
    with Engine.open(config) as engine:
        for number in range(examples):
            rng = Random(f"{seed}/{number}")
            try:
                driver = DRIVERS[host](engine, rng, f"{seed}-{number}")
                _talk(Checked(driver, problems_in), engine, rng, counts)
            except Exception as error:
                raise AssertionError(
                    f"{host}, seed {seed}, example {number}: {type(error).__name__}: {error}"
                ) from error
            counts["examples"] += 1
        assert engine.check().ok
    return counts


class Checked:
    """A driver of which every context must be encodable and one that providers take."""

    def __init__(self, driver: Any, problems_in: Check) -> None:
        self._driver, self._problems_in = driver, problems_in
        self.tool, self.close, self.session = driver.tool, driver.close, driver.session

    def say(self, message: Any) -> None:
        context = self._driver.say(message)
        _encodable(context)
        if context:
            problems = self._problems_in(getattr(self._driver, "given", context))
            assert not problems, f"a provider would refuse the context: {problems}"


def _talk(driver: Any, engine: Engine, rng: Random, counts: dict[str, int]) -> None:
    sound = []
    for turn in range(rng.randrange(2, 7)):
        word = f"word-{turn}-{rng.getrandbits(40):x}"
        said = {
            "role": "assistant" if turn % 2 else "user",
            "content": f"{word} " + "amber lantern " * rng.randrange(20),
        }
        with failing(rng, 0.2):
            if rng.random() < 0.7:
                driver.say(odd_message(rng))
                counts["odd"] += 1
            driver.say(said)
        sound.append(word)
        counts["messages"] += 1
        if rng.random() < 0.3:
            answer = driver.tool(
                rng.choice(("lcm_grep", "lcm_describe", "lcm_expand")), rng.choice(ARGUMENTS)
            )
            assert isinstance(answer, dict), "a tool gave no answer"
            _encodable(answer)
    last = f"word-last-{rng.getrandbits(40):x}"
    driver.say({"role": "user", "content": last})
    driver.close()
    stored = (json.dumps(message.get("content")) for message in engine.messages(driver.session))
    found = [word for text in stored for word in re.findall(r"word-\w+-[0-9a-f]+", text)]
    assert found == [*sound, last], f"{found} is stored, {[*sound, last]} was said"


def _encodable(value: Any) -> None:
    json.dumps(value, ensure_ascii=False).encode()


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--host", choices=sorted(DRIVERS), default="plugin")
    parser.add_argument("--examples", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        try:
            check = validate if options.host in ("plugin", "bub") else no_problems
            counts = run(options.host, options.examples, options.seed, Path(folder), check)
        except AssertionError as error:
            print(error)
            return 1
    print(
        ", ".join(f"{key} {value:,}" for key, value in counts.items()),
        f"in {time.perf_counter() - begun:.0f} s",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
