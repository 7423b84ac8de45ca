"""What a turn asks of the database, the counter and the search: counts are the same on every machine."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from messages import assistant, call, result, user
from small_talk import turns

from lcm_plugin import Engine, LcmPlugin, Session, Turn, Usage
from lcm_plugin.background import Background
from lcm_plugin.maintenance import idle
from lcm_plugin.messages.merging import TokenCounts
from lcm_plugin.recall.active.outside import MOST_LINES
from lcm_plugin.recall.active.service import EFFORT
from lcm_plugin.recall.catchup import index_all
from lcm_plugin.recall.match import Matcher
from lcm_plugin.store.sqlite.connection import Connections

pytestmark = pytest.mark.sqlite_only

WINDOW = 128_000


class Costs:
    """Counts what one thread does."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._on = False

    @contextmanager
    def of(self) -> Iterator[Counter[str]]:
        self.counts.clear()
        self._on = True
        try:
            yield self.counts
        finally:
            self._on = False

    def note(self, what: str) -> None:
        if self._on and threading.current_thread() is threading.main_thread():
            self.counts[what] += 1

    def statement(self, sql: str) -> None:
        if sql.startswith("--"):
            return  # what a full-text index asks of its own tables
        if sql.startswith("BEGIN"):
            self.note("writes" if "IMMEDIATE" in sql else "reads")
        elif sql not in ("COMMIT", "ROLLBACK"):
            self.note("statements")


@pytest.fixture
def costs(monkeypatch: pytest.MonkeyPatch) -> Costs:
    noted = Costs()
    connect, count, submit, find = (
        Connections.connect_to_path,
        TokenCounts.of,
        Background.submit,
        Matcher.find,
    )

    def traced(self: Any) -> Any:
        connection = connect(self)
        connection.set_trace_callback(noted.statement)
        return connection

    def noting(what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def noted_call(*arguments: Any) -> Any:
            noted.note(what)
            return function(*arguments)

        return noted_call

    monkeypatch.setattr(Connections, "connect_to_path", traced)
    monkeypatch.setattr(TokenCounts, "of", noting("token counts", count))
    monkeypatch.setattr(Background, "submit", noting("wake-ups", submit))
    monkeypatch.setattr(Matcher, "find", noting("texts matched", find))
    return noted


def said_in(turn: int) -> list[dict[str, Any]]:
    """Five messages of 17 rows: messages, parts, and pointers."""
    first, second = f"a{turn}", f"b{turn}"
    return [
        call(first, "look"),
        result(first, f"seen {turn}"),
        call(second, "look"),
        result(second, f"found {turn}"),
        assistant(f"Answer {turn}."),
    ]


def test_a_turn_asks_the_same_however_long_the_talk_is(
    costs: Costs, open_engine: Callable[..., Engine], session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle, "LOOK_SECONDS", 3_600)
    engine = open_engine(active_recall="off")
    plugin = LcmPlugin(engine=engine)
    spent: list[tuple[Counter[str], Counter[str]]] = []
    for turn in range(60):
        asked = [user(f"Question {turn}: what is next?")]
        with costs.of():
            plugin.before_turn(turn=Turn(session, asked, mode="append", window=WINDOW))
        assert engine.wait_idle(60)
        before = costs.counts.copy()
        with costs.of():
            plugin.after_turn(turn=Turn(session, said_in(turn), mode="append", window=WINDOW))
        assert engine.wait_idle(60)
        spent.append((before, costs.counts.copy()))
    assert spent[5] == spent[-1]
    before, after = spent[-1]
    assert before["writes"] == after["writes"] == 1
    assert before["reads"] == after["reads"] == 1
    assert before["statements"] <= 17
    # One of them keeps what the turn's calls were given; it is written where the turn is.
    assert after["statements"] <= 28
    # One of the request; three contents, and of each of two calls its id, its result's and its arguments.
    assert before["token counts"] <= 1
    assert after["token counts"] <= 9
    # Of 360 rows each hundred is indexed together, and the first turn looks for what is left from before.
    assert sum(asked["wake-ups"] + answered["wake-ups"] for asked, answered in spent) <= 4


def test_a_turn_of_long_texts_is_compared_where_it_is_written(
    costs: Costs, open_engine: Callable[..., Engine], session: Session
) -> None:
    plugin = LcmPlugin(engine=open_engine(active_recall="off"))
    for turn in range(3):
        said = [*said_in(turn), assistant("a long answer " * 2_000)]
        with costs.of():
            plugin.after_turn(turn=Turn(session, said, mode="append", window=WINDOW))
        assert plugin.engine.wait_idle(60)
    assert (costs.counts["reads"], costs.counts["writes"]) == (1, 1)


def test_hooks_wake_no_thread_that_waits_for_work(monkeypatch: pytest.MonkeyPatch) -> None:
    background = Background()
    background.submit("job", lambda: None)
    assert background.wait_idle(10)
    woken: list[str] = []
    notify = threading.Condition.notify

    def noted(self: threading.Condition, n: int = 1) -> None:
        if self._waiters:  # type: ignore[attr-defined]
            woken.append("a thread")
        notify(self, n)

    monkeypatch.setattr(threading.Condition, "notify", noted)
    with background.foreground():
        pass
    assert not woken
    background.close()


def test_what_the_provider_counted_costs_one_more_read(
    costs: Costs, open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine(active_recall="off")
    plugin = LcmPlugin(engine=engine)
    for turn in range(4):
        asked = [user(f"Question {turn}: what is next?")]
        plugin.before_turn(turn=Turn(session, asked, mode="append", window=WINDOW))
        answered = Turn(session, said_in(turn), mode="append", window=WINDOW, usage=Usage(900 + turn, 20))
        assert engine.wait_idle(60)
        with costs.of():
            plugin.after_turn(turn=answered)
        assert engine.wait_idle(60)
    assert costs.counts["reads"] == 2


def test_quotes_cost_the_same_however_long_the_talk_is(
    costs: Costs, open_engine: Callable[..., Engine], session: Session
) -> None:
    question = "Was the harbour near the orchard and the lantern?"

    def spent(count: int) -> Counter[str]:
        engine = open_engine(f"talk-{count}", leaf_chunk_tokens=20_000, leaf_target_tokens=100)
        engine.ingest(session, turns(count))
        assert engine.compact(session, force=True, budget=8_000).compacted
        index_all(engine.store, engine.events)
        assert engine.wait_idle(60)
        engine.ingest(session, [user(question)])
        with costs.of():
            engine.assemble(session, 8_000)
        assert engine.active_recall.last(1).asked == question  # type: ignore[union-attr]
        return costs.counts.copy()

    for counts in (spent(150), spent(600)):
        assert counts["writes"] == 0
        assert counts["statements"] <= 56
        # Of each proposal, of the neighbours of the best, and of what is quoted.
        assert EFFORT.pool <= counts["texts matched"] <= EFFORT.pool + 7 * EFFORT.expanded + MOST_LINES
