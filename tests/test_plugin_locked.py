"""Another session holds the database: hooks come back in time, the host is told, and later all is stored, once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pluggy
import pytest
from databases import FreshDatabase, Held, RawDatabase, open_raw
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from messages import assistant, user

from lcm_plugin import LcmConfig, LcmPlugin, Reset, Session, Turn, hookimpl
from lcm_plugin.events import Event
from lcm_plugin.plugin import register
from lcm_plugin.types import Message

pytestmark = pytest.mark.both_stores

KEY = Session("agent:main:main", "run-1")
BUSY_MS = 30
# One wait for the lock and what the call does besides, on a machine that does much else.
BOUND_S = 3.0
EXAMPLES = {"sqlite": examples(5, 3), "postgres": examples(5, 2)}
held = st.sampled_from([None, None, "rows", "writes", "everything"])


class Host:
    """A host that keeps a list of its messages, hears events, and takes the time of every hook."""

    def __init__(self, database: str, mode: str, **settings: Any) -> None:
        self.manager = pluggy.PluginManager("lcm")
        config = LcmConfig(database=database, busy_timeout_ms=BUSY_MS, **settings)
        self.plugin: LcmPlugin = register(self.manager, config)
        self.manager.register(self)
        self.mode = mode
        self.history: list[Message] = []
        self.events: list[Event] = []
        self.longest = 0.0

    @hookimpl
    def lcm_event(self, event: Event) -> None:
        self.events.append(event)

    def call(self, hook: str, **values: Any) -> Any:
        begun = time.monotonic()
        answer = getattr(self.manager.hook, hook)(**values)
        self.longest = max(self.longest, time.monotonic() - begun)
        return answer

    def hear(self, message: Message) -> Any:
        """A message of the user, and what the plugin would send to the model."""
        self.history.append(message)
        return self.call("before_turn", turn=self.turn(message))

    def say(self, message: Message) -> None:
        """The model's answer."""
        self.history.append(message)
        self.call("after_turn", turn=self.turn(message))

    def turn(self, message: Message) -> Turn:
        given = list(self.history) if self.mode == "sync" else [message]
        return Turn(KEY, given, self.mode, window=32_000)

    def failures(self) -> list[dict[str, Any]]:
        """What the host was told of calls that failed, and forgets."""
        told = [dict(event.fields) for event in self.events if event.name == "hook.failed"]
        self.events.clear()
        return told


@pytest.fixture(params=["sync", "append"])
def host(database_named: Callable[[str], str], request: pytest.FixtureRequest) -> Iterator[Host]:
    opened = Host(database_named("lcm"), request.param)
    yield opened
    opened.plugin.close()


@pytest.mark.parametrize("what", ["rows", "writes", "everything"])
def test_a_held_database_costs_a_host_a_moment_and_no_message(
    host: Host, raw_database: Callable[..., RawDatabase], what: Held
) -> None:
    other = raw_database()
    host.hear(user("one"))
    host.say(assistant("uno"))
    host.longest = 0.0
    other.hold(what)
    context = host.hear(user("two"))
    assert context is None if host.mode == "append" else context.messages == host.history
    host.say(assistant("dos"))
    host.hear(user("three"))
    told = host.failures()
    assert [failure["error"] for failure in told] == ["StoreBusy"] * 3
    assert all("try again" in failure["detail"] for failure in told)
    assert host.longest < BOUND_S
    other.let_go()
    host.say(assistant("tres"))
    context = host.hear(user("four"))
    assert host.failures() == []
    assert host.plugin.engine.messages(KEY) == host.history
    assert context.messages == host.history
    assert host.plugin.engine.check().ok


@pytest.mark.parametrize("what", ["rows", "everything"])
def test_whatever_a_host_asks_of_a_held_database_it_gets_an_answer(
    host: Host, raw_database: Callable[..., RawDatabase], what: Held
) -> None:
    other = raw_database()
    host.hear(user("one lamp"))
    host.say(assistant("uno"))
    host.failures()
    other.hold(what)
    answers = [
        host.call("lcm_call_tool", session=KEY, name="lcm_grep", arguments={"pattern": "lamp"}),
        host.call("lcm_run_command", session=KEY, text="/lcm status"),
        host.call("before_reset", reset=Reset(KEY, "new")),
        host.call("before_reset", reset=Reset(KEY, "reset")),
    ]
    host.call("session_end", session=KEY, reason="session-end")
    assert all(answer is not None for answer in answers)
    assert not answers[2].ok
    assert not answers[3].ok
    assert host.longest < BOUND_S
    assert {failure["error"] for failure in host.failures()} == {"StoreBusy"}
    other.let_go()
    assert host.plugin.engine.messages(KEY) == host.history
    assert len(host.plugin.engine.context_items(KEY)) == 2
    host.hear(user("two"))
    assert host.failures() == []
    assert host.plugin.engine.messages(KEY) == host.history


def test_a_compaction_that_meets_a_held_row_is_owed_and_done_later(
    database_named: Callable[[str], str], raw_database: Callable[..., RawDatabase]
) -> None:
    host = Host(database_named("lcm"), "append", fresh_tail_count=2, leaf_chunk_tokens=200, leaf_min_fanout=2)
    other = raw_database()
    for number in range(6):
        host.hear(user(f"{number} " + "the harbour pump failed again " * 10))
    engine = host.plugin.engine
    assert engine.wait_idle(60)
    before = engine.messages(KEY)
    host.failures()
    other.hold("rows")
    host.say(assistant("and again " * 200))
    assert engine.wait_idle(60)
    assert len(host.failures()) == 1
    other.let_go()
    host.say(assistant("that is all"))
    assert engine.wait_idle(60)
    assert host.failures() == []
    assert engine.messages(KEY) == [*before, *host.history[-2:]]
    assert any(item.kind == "summary" for item in engine.context_items(KEY))
    assert engine.check().ok
    host.plugin.close()


@pytest.mark.long
@pytest.mark.parametrize("mode", ["sync", "append"])
def test_whenever_it_is_held_every_message_is_stored_once(
    fresh_database: FreshDatabase, store_kind: str, mode: str
) -> None:
    @settings(max_examples=EXAMPLES[store_kind], deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(st.tuples(held, held), min_size=1, max_size=6))
    def holds(turns: list[tuple[Held | None, Held | None]]) -> None:
        with fresh_database() as database:
            host = Host(database, mode)
            host.hear(user("the very first request"))
            other, numbers = open_raw(database), count()
            for before, after in turns:
                for what, act, message in ((before, host.hear, user), (after, host.say, assistant)):
                    if what is not None:
                        other.hold(what)
                    act(message("ok" if next(numbers) % 3 else f"request {next(numbers)}"))
                    if what is not None:
                        other.let_go()
            host.failures()
            host.say(assistant("that was all"))
            assert host.failures() == []
            assert host.longest < BOUND_S
            assert host.plugin.engine.messages(KEY) == host.history
            assert host.plugin.engine.check().ok
            other.close()
            host.plugin.close()

    holds()
