"""A store that waits for a server asks for several reads at once, and answers each as if it were asked alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from messages import assistant, call, result, user

from lcm_plugin import Engine, LcmConfig, LcmPlugin, Session, Turn
from lcm_plugin.recall.catchup import index_all
from lcm_plugin.store.postgres.watchdog import WatchedConnection
from lcm_plugin.store.search import Clause, Filter, WordQuery
from lcm_plugin.store.transaction import read_ahead

pytestmark = pytest.mark.both_stores


def test_reads_answer_as_they_would_alone(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("one"), assistant("two"), user("three")])
    with engine.store.read() as reader:
        alone = (reader.heads(1, limit=2), reader.debt(1), reader.lane(session.key or ""))
    with engine.store.read() as reader:
        read_ahead(
            reader,
            lambda: reader.lane(session.key or ""),
            lambda: reader.heads(1, limit=2),
            lambda: reader.heads(1, limit=77),
            lambda: reader.debt(1),
        )
        assert (reader.heads(1, limit=2), reader.debt(1), reader.lane(session.key or "")) == alone
        # Asked a second time, and with other arguments than were named.
        assert reader.heads(1, limit=2) == alone[0]
        assert len(reader.heads(1, limit=1)) == 1


def test_nothing_is_answered_from_before_a_change(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("one"), user("two")])
    with engine.store.write() as writer:
        read_ahead(writer, lambda: writer.heads(1, limit=9), lambda: writer.conversation(1))
        here = writer.conversation(1)
        assert here is not None
        writer.hide(1, [writer.heads(1, limit=9)[0].message_id], 5)
        assert writer.heads(1, limit=9)[0].hidden
        read_ahead(writer, lambda: writer.heads(1, limit=9))
        writer.show(1, [writer.newest_items(1, limit=2)[0].message.message_id], 6)  # type: ignore[union-attr]
        assert not writer.heads(1, limit=9)[0].hidden


def test_what_a_read_looks_ahead_for_itself_is_asked_with_it(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user(f"a lamp and lamp {n}") for n in range(4)] + [user("a boat")])
    index_all(engine.store, engine.events)
    lamp, boat, tree = (WordQuery((Clause("word", word),)) for word in ("lamp", "boat", "tree"))
    here = Filter((1,))
    with engine.store.read() as reader:
        alone = [reader.count_words("message", query, here, 3) for query in (lamp, boat, tree)]
        shares = reader.document_shares("message", [*lamp.clauses, *tree.clauses], here)
        best = reader.find_words("message", lamp, here, order="relevance", limit=9)
    with engine.store.read() as reader:
        read_ahead(
            reader,
            lambda: reader.find_words("message", lamp, here, order="relevance", limit=9),
            lambda: reader.document_shares("message", [*lamp.clauses, *tree.clauses], here),
            lambda: reader.row_count("message", here),
        )
        assert reader.find_words("message", lamp, here, order="relevance", limit=9) == best
        assert reader.document_shares("message", [*lamp.clauses, *tree.clauses], here) == shares
        assert list(reader.count_each("message", (lamp, boat, tree), here, 3)) == alone == [3, 1, 0]


@pytest.mark.sqlite_only
def test_a_turn_waits_for_the_server_a_few_times(
    empty_schemas: Any, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[str] = []
    pipeline, execute = WatchedConnection.pipeline, psycopg.Connection.execute
    together = False

    def noted_execute(self: Any, query: Any, *arguments: Any, **more: Any) -> Any:
        if not together and threading.current_thread() is threading.main_thread():
            waits.append(str(query)[:60])
        return execute(self, query, *arguments, **more)

    @contextmanager
    def noted_pipeline(self: Any) -> Iterator[Any]:
        nonlocal together
        waits.append("several")
        with pipeline(self) as several:
            together = True
            yield several
            together = False

    monkeypatch.setattr(WatchedConnection, "execute", noted_execute)
    monkeypatch.setattr(WatchedConnection, "pipeline", noted_pipeline)
    config = LcmConfig(database=empty_schemas.empty("ahead"), active_recall="off")
    plugin = LcmPlugin(config)
    for turn in range(3):
        said = [
            user(f"Question {turn}"),
            call(f"c{turn}", "look"),
            result(f"c{turn}", "seen"),
            assistant("Done."),
        ]
        waits.clear()
        plugin.after_turn(Turn(session, said, mode="append", window=128_000))
    plugin.close()
    # Begin, what the turn is compared with, its run, what it stores; begin, what says whether compaction is due.
    assert len(waits) == 6, waits
