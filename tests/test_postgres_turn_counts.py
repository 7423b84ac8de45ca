"""What a turn asks of a PostgreSQL server: each wait is a round trip, and counts are the same on every machine."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg
import pytest
from messages import assistant, call, result, user
from postgres_server import EmptySchemas
from psycopg.pq import PipelineStatus
from small_talk import turns

from lcm_plugin import LcmConfig, LcmPlugin, Session, Turn
from lcm_plugin.maintenance import idle
from lcm_plugin.store.postgres.watchdog import WatchedConnection

WINDOW = 128_000
QUESTION = "Was the harbour near the orchard and the lantern?"


@pytest.fixture
def spent(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Of the main thread; a pipeline is one wait, and that of an ``executemany`` is one statement."""
    counts: Counter[str] = Counter()

    def note(what: str) -> None:
        if threading.current_thread() is threading.main_thread():
            counts[what] += 1

    def noting(kind: type[Any], name: str, tell: Callable[..., None]) -> None:
        function = getattr(kind, name)

        def noted(self: Any, *arguments: Any, **more: Any) -> Any:
            tell(self, *arguments)
            return function(self, *arguments, **more)

        monkeypatch.setattr(kind, name, noted)

    def wait(connection: WatchedConnection, *_: Any) -> None:
        # A pipeline is off while it is begun; what it holds is sent and answered together.
        if connection.pgconn.pipeline_status == PipelineStatus.OFF:
            note("waits")

    def statement(_: object, query: str | bytes, *__: Any) -> None:
        text = query if isinstance(query, str) else query.decode()
        if text.startswith("BEGIN"):
            note("reads" if "READ ONLY" in text else "writes")
        else:
            note("statements")

    noting(WatchedConnection, "wait", wait)
    noting(WatchedConnection, "commit", lambda *_: note("commits"))
    for cursor in (psycopg.Cursor, psycopg.ServerCursor):
        noting(cursor, "execute", statement)
    noting(psycopg.Cursor, "executemany", statement)
    return counts


def said_in(turn: int) -> list[dict[str, Any]]:
    """The five messages after a request."""
    first, second = f"a{turn}", f"b{turn}"
    return [
        call(first, "look"),
        result(first, f"seen {turn}"),
        call(second, "look"),
        result(second, f"found {turn}"),
        assistant(f"Answer {turn}."),
    ]


@pytest.mark.parametrize(("recall", "waits", "statements"), [("off", 11, 13), ("on", 19, 29)])
def test_a_warm_turn_waits_for_the_server_as_often_as_ever(
    recall: str,
    waits: int,
    statements: int,
    empty_schemas: EmptySchemas,
    session: Session,
    spent: Counter[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(idle, "LOOK_SECONDS", 3_600)
    database = empty_schemas.empty("counted")
    with closing(
        LcmPlugin(LcmConfig(database=database, active_recall=recall, leaf_target_tokens=100))
    ) as plugin:
        engine = plugin.engine
        engine.ingest(session, turns(150))
        assert engine.compact(session, force=True, budget=8_000).compacted
        spends = []
        for turn in range(4):
            assert engine.wait_idle(60)
            spent.clear()
            plugin.before_turn(turn=Turn(session, [user(QUESTION)], mode="append", window=WINDOW))
            asked = dict(spent)
            assert engine.wait_idle(60)
            spent.clear()
            plugin.after_turn(turn=Turn(session, said_in(turn), mode="append", window=WINDOW))
            spends.append((asked, dict(spent)))
        recalled = engine.active_recall.last(1) if engine.active_recall else None
    assert (recalled is not None) == (recall == "on")
    transactions = {"reads": 1, "writes": 1, "commits": 2}
    # The first turn learns how the index writes the question's words.
    assert spends[1:] == 3 * [
        (
            {"waits": waits, "statements": statements, **transactions},
            {"waits": 9, "statements": 12, **transactions},
        )
    ]
