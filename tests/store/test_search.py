"""The search index of SQLite: filled late, never wrong, never in the way."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from messages import user

from lcm_plugin import Engine, Session
from lcm_plugin.recall.catchup import index_all
from lcm_plugin.store.search import AllOf, AnyOf, Clause, Filter, Substring, WordQuery
from lcm_plugin.store.sqlite import search_index
from lcm_plugin.store.sqlite.search import match_expression, trigram_expression

HERE = Filter((1,))


def grep(engine: Engine, session: Session, pattern: str, **arguments: Any) -> list[str]:
    answer = engine.call_tool(session, "lcm_grep", {"pattern": pattern, "context": 0, **arguments})
    assert "error" not in answer, answer
    return [hit["id"] for hit in answer["hits"]]


def raw(engine: Engine) -> sqlite3.Connection:
    return sqlite3.connect(engine.store.location, isolation_level=None)


def test_storing_a_message_touches_no_index(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("lamp")])
    with engine.store.read() as reader:
        state = reader.index_state()
    assert (state.usable, state.message_lag) == (False, 1)


def test_indexing_goes_in_batches_and_remembers_where_it_was(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user(f"lamp {n}") for n in range(25)])
    for expected, lag in ((10, 15), (10, 5), (5, 0), (0, 0)):
        with engine.store.write() as writer:
            assert writer.index_pending(10) == expected
            assert writer.index_state().message_lag == lag


def test_what_was_rolled_back_is_indexed_later(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("lamp")])
    with pytest.raises(RuntimeError), engine.store.write() as writer:  # noqa: PT012 - the block must roll back
        writer.index_pending()
        raise RuntimeError
    assert grep(engine, session, "lamp") == ["msg_1"]


@pytest.mark.parametrize("pattern", ["lamp", "red lamp", "静默", "my-lamp"])
@pytest.mark.parametrize("mode", ["full_text", "regex"])
def test_a_row_taken_out_is_found_no_more_and_comes_back(
    engine: Engine, session: Session, pattern: str, mode: str
) -> None:
    engine.ingest(session, [user("a red lamp, my-lamp, 静默模式"), user("other")])
    assert grep(engine, session, pattern, mode=mode) == ["msg_1"]
    with engine.store.write() as writer:
        writer.unindex_messages([1])
        writer.db.execute("UPDATE message_parts SET text = 'a green bottle' WHERE message_id = 1")
        writer.reindex_messages([1])
    assert grep(engine, session, pattern, mode=mode) == []
    assert grep(engine, session, "green bottle", mode=mode) == ["msg_1"]
    with raw(engine) as database:
        database.execute("INSERT INTO messages_fts (messages_fts) VALUES ('integrity-check')")
        database.execute("INSERT INTO messages_trigram (messages_trigram) VALUES ('integrity-check')")


def test_rows_that_are_gone_are_not_found(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("a lamp"), user("a lamp too")])
    grep(engine, session, "lamp")
    with engine.store.write() as writer:
        writer.unindex_messages([1])
        writer.db.execute("DELETE FROM context_items WHERE message_id = 1")
        writer.db.execute("DELETE FROM messages WHERE message_id = 1")
    assert grep(engine, session, "lamp") == ["msg_2"]


def test_each_text_is_stored_once(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("unmistakable-marker " * 50)])
    index_all(engine.store, engine.events)
    with raw(engine) as database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE name LIKE '%_content'").fetchall()
    assert tables == []


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE messages_fts_data SET block = x'00' WHERE id > 10",
        "DELETE FROM messages_fts_data",
        "DROP TABLE messages_fts",
        "DELETE FROM messages_trigram_data",
        "DROP TABLE messages_trigram",
        "DROP TABLE index_state",
    ],
)
def test_a_broken_index_hides_nothing_and_is_built_again(
    open_engine: Callable[..., Engine], session: Session, damage: str
) -> None:
    engine = open_engine("damaged")
    engine.ingest(session, [user("a red lamp"), user("my-lamp"), user("other")])
    assert set(grep(engine, session, "lamp")) == {"msg_1", "msg_2"}
    with raw(engine) as database:
        database.execute(damage)
    again = open_engine("damaged")
    for _ in range(3):
        again.ingest(session, [user("one more")])
        assert set(grep(again, session, "red lamp")) >= {"msg_1"}
        assert grep(again, session, "my-lamp") == ["msg_2"]
        assert grep(again, session, "red l.mp", mode="regex") == ["msg_1"]
        assert grep(again, session, "lamp", mode="regex") == ["msg_2", "msg_1"]
    with again.store.read() as reader:
        assert reader.index_state().usable
        assert reader.index_state().message_lag == 0
        assert (
            len(
                reader.find_words(
                    "message", WordQuery((Clause("word", "lamp"),)), HERE, order="relevance", limit=9
                )
            )
            == 2
        )


def test_without_fts5_rows_are_scanned_and_it_is_said(
    engine: Engine, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_index, "fts5_available", lambda: False)
    engine.ingest(session, [user("a red lamp"), user("my-lamp"), user("静默模式"), user("other")])
    assert set(grep(engine, session, "lamps")) == {"msg_1", "msg_2"}
    assert grep(engine, session, "my-lamp") == ["msg_2"]
    assert grep(engine, session, "静") == ["msg_3"]
    assert grep(engine, session, "red l.mp", mode="regex") == ["msg_1"]
    answer = engine.call_tool(session, "lcm_grep", {"pattern": "lamp"})
    assert "scanned" in answer["notices"][0]


@pytest.mark.parametrize(
    "rows",
    [
        Filter(None),
        Filter((1,)),
        Filter((1, 2)),
        Filter((1,), ("user",), "look", 5, 9_000, 7),
        Filter((1,), spans=((5, 9), (20, 30))),
    ],
)
@pytest.mark.parametrize("order", ["relevance", "recency"])
def test_a_query_is_driven_from_the_index(engine: Engine, session: Session, rows: Filter, order: str) -> None:
    """Without statistics the planner would walk the messages: a thousand times slower."""
    engine.ingest(session, [user("lamp")])
    index_all(engine.store, engine.events)
    statements: list[str] = []
    with engine.store.read() as reader:
        reader.db.set_trace_callback(statements.append)
        reader.find_words("message", WordQuery((Clause("word", "lamp"),)), rows, order=order, limit=5)  # type: ignore[arg-type]
        list(reader.scan("message", rows, Substring("lamp")))
        reader.db.set_trace_callback(None)
        plans = [
            [str(step[3]) for step in reader.db.execute(f"EXPLAIN QUERY PLAN {statement}")]
            for statement in statements
            if "MATCH" in statement and statement.lstrip().startswith("SELECT")
        ]
    assert len(plans) == 2
    for plan in plans:
        assert plan[0].startswith("SCAN f VIRTUAL TABLE INDEX")
        assert not any(step.startswith("SCAN m") for step in plan)
    assert not any("TEMP B-TREE" in step for step in plans[1])
    assert any("TEMP B-TREE" in step for step in plans[0]) == (order == "relevance")


@pytest.mark.parametrize("rows", [Filter(None), Filter((1,)), Filter((1, 2))])
def test_a_scan_never_sorts(engine: Engine, session: Session, rows: Filter) -> None:
    engine.ingest(session, [user("lamp")])
    statements: list[str] = []
    with engine.store.read() as reader:
        reader.db.set_trace_callback(statements.append)
        list(reader.scan("message", rows))
        reader.message_senders(rows.conversation_ids)
        reader.db.set_trace_callback(None)
        steps = [
            str(step[3])
            for statement in statements
            if "ORDER BY" in statement
            for step in reader.db.execute(f"EXPLAIN QUERY PLAN {statement}")
        ]
    assert steps
    assert not any("ORDER BY" in step for step in steps)


def test_nothing_typed_becomes_syntax() -> None:
    query = WordQuery(
        (Clause("word", 'a" OR text:b*'), Clause("cjk", "静默"), Clause("word", "go", ("went",)))
    )
    assert match_expression(query) == 'text : ("a"" OR text:b*") OR cjk : "静 默" OR text : ("go" OR "went")'


def test_a_condition_is_asked_of_the_index_by_its_runs() -> None:
    condition = AllOf((Substring("abcd"), AnyOf((Substring('x"y'), Substring("123")))))
    assert trigram_expression(condition) == '("abc" AND "bcd") AND (("x""y") OR ("123"))'


def test_an_older_database_without_an_index_is_searched_at_once_and_indexed_behind_it(
    tmp_path: Path, open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine("old")
    engine.ingest(session, [user(f"lamp {n}") for n in range(1_200)])
    engine.close()
    again = open_engine("old")
    answer = again.call_tool(session, "lcm_grep", {"pattern": "lamp", "limit": 1})
    assert answer["total"] in (1_200, "at least 1000", "at least 1200")
    assert again.wait_idle(60)
    with again.store.read() as reader:
        assert reader.index_state().message_lag == 0
