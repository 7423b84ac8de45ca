"""Searches that PostgreSQL answers in ways of its own: without trigrams, past its limits, and through the right index."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from effort import FULL
from messages import user

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.recall.query import parse_query
from lcm_plugin.recall.textsearch import TextSearch
from lcm_plugin.store.postgres import known_words, search, search_terms
from lcm_plugin.store.postgres.known_words import LEAST_FREQUENT
from lcm_plugin.store.postgres.search_terms import MOST_ACROSS, MOST_CHOICES, MOST_JOINED, WordSearch, holds
from lcm_plugin.store.postgres.store import PostgresStore
from lcm_plugin.store.postgres.watchdog import WatchedConnection
from lcm_plugin.store.search import AllOf, AnyOf, Clause, Filter, Substring, WordQuery

SESSION = Session("agent:main:main")
HERE = Filter((1,))
MEGABYTE = 1 << 20
_INDEXED_CHARS = 250_000


def grep(engine: Engine, pattern: str, **arguments: Any) -> list[str]:
    answer = engine.call_tool(SESSION, "lcm_grep", {"pattern": pattern, "context": 0, **arguments})
    assert "error" not in answer, answer
    return [hit["id"] for hit in answer["hits"]]


@pytest.fixture
def database_without_trigrams(postgres_server: str) -> Iterator[str]:
    """The URL of a database whose user may not install an extension."""
    name = f"lcm_{uuid.uuid4().hex[:12]}"
    base, _, query = postgres_server.partition("?")
    there = f"{base.rpartition('/')[0]}/{name}?{query}"
    with psycopg.connect(postgres_server, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}".encode())
        server.execute(f"CREATE ROLE {name}".encode())
        with psycopg.connect(there, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA lcm AUTHORIZATION {name}".encode())
        yield f"{there}&options={quote(f'-c role={name}')}"
        server.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
        server.execute(f"DROP ROLE {name}".encode())


def test_without_trigrams_every_search_still_finds_its_rows(
    database_without_trigrams: str, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.WARNING),
        Engine.open(LcmConfig(database=database_without_trigrams)) as engine,
    ):
        assert "pg_trgm is not available" in caplog.text
        engine.ingest(SESSION, [user("a red lamp"), user("my-lamp"), user("静默模式"), user("other")])
        assert set(grep(engine, "lamp")) == {"msg_1", "msg_2"}
        assert grep(engine, "my-lamp") == ["msg_2"]
        assert grep(engine, "静默") == ["msg_3"]
        assert grep(engine, "l.mp", mode="regex") == ["msg_2", "msg_1"]
        assert grep(engine, "(?i)RED lamp", mode="regex") == ["msg_1"]
        assert engine.check().ok


def _install_trigrams(server: psycopg.Connection[Any]) -> None:
    """As some providers do: in a schema that is not searched."""
    there = server.execute("SELECT FROM pg_available_extensions WHERE name = 'pg_trgm'").fetchone()
    if there is None and not FULL:
        pytest.skip("this server has no pg_trgm (postgresql-contrib)")
    for statement in (b"SCHEMA extensions", b"EXTENSION pg_trgm SCHEMA extensions"):
        server.execute(b"CREATE " + statement)
    server.execute("GRANT USAGE ON SCHEMA extensions TO PUBLIC")


def test_trigrams_that_are_installed_later_are_missed_by_the_doctor_and_indexed(
    database_without_trigrams: str,
) -> None:
    with Engine.open(LcmConfig(database=database_without_trigrams)) as engine:
        engine.ingest(SESSION, [user("a red lamp")])
        with psycopg.connect(database_without_trigrams.partition("&options=")[0], autocommit=True) as server:
            _install_trigrams(server)
        report = engine.check()
        assert [finding.code for finding in report.findings] == ["schema_differs"] * 2
        assert not any(
            done.error for done in engine.repair(engine.plan_repairs(report), backup=False).results
        )
        assert engine.check().ok
        assert grep(engine, "red l.mp", mode="regex") == ["msg_1"]


def test_trigrams_are_used_wherever_they_are_installed(database_without_trigrams: str) -> None:
    with psycopg.connect(database_without_trigrams.partition("&options=")[0], autocommit=True) as server:
        _install_trigrams(server)
    with Engine.open(LcmConfig(database=database_without_trigrams)) as engine:
        engine.ingest(SESSION, [user("a red lamp")])
        assert engine.check().ok
        with engine.store.read() as reader:
            row = reader.db.execute("SELECT to_regclass('message_parts_trigrams') IS NOT NULL").fetchone()
    assert row == (True,)


@pytest.mark.long
@pytest.mark.parametrize(
    "filler",
    [
        " ".join(f"word{number:x}" for number in range(2 * MEGABYTE // 9)),
        "".join(chr(0x4E00 + number * 7 % 20_000) for number in range(2 * MEGABYTE // 3)),
        " ".join(
            chr(0x1D400 + number % 26) + chr(0x1D400 + number // 26 % 26) for number in range(MEGABYTE // 4)
        ),
    ],
    ids=["words", "Chinese", "letters of four bytes"],
)
def test_a_text_beyond_the_limit_of_a_word_vector_is_stored_whole_and_found_by_its_beginning(
    postgres_url: str, filler: str
) -> None:
    text = f"zebrafish {filler} quagga"
    config = LcmConfig(database=postgres_url, large_file_token_threshold=10_000_000)
    with Engine.open(config) as engine:
        engine.ingest(SESSION, [user("a lamp"), user(text)])
        assert engine.messages(SESSION)[1] == user(text)
        assert grep(engine, "zebrafish") == ["msg_2"]
        assert grep(engine, "quagga$", mode="regex") == ["msg_2"]
        assert len(text) > _INDEXED_CHARS
        with engine.store.read() as reader:
            words = reader.db.execute(
                "SELECT words @@ lcm_phrase('quagga') FROM message_parts WHERE message_id = 2"
            )
            assert words.fetchone() == (False,)


def test_a_condition_is_met_by_one_part_or_several(postgres_url: str) -> None:
    both = {
        "role": "user",
        "content": [{"type": "text", "text": "a red lamp"}, {"type": "text", "text": "a blue stone"}],
    }
    config = LcmConfig(database=postgres_url)
    lamp, stone, river, bird = map(Substring, ("LAMP", "stone", "river", "bird"))
    with Engine.open(config) as engine:
        engine.ingest(SESSION, [both, user("a river"), user("a lamp post"), user("50% of_all \\ lamps")])

        def found(condition: Any) -> list[int]:
            with engine.store.read() as reader:
                return [row.row_id for row in reader.scan("message", Filter((1,)), condition)]

        assert found(lamp) == [4, 3, 1]
        assert found(AllOf((lamp, stone))) == [1]
        assert found(AnyOf((stone, river))) == [2, 1]
        assert found(AnyOf((AllOf((lamp, stone)), river))) == [2, 1]
        assert found(AllOf((AnyOf((stone, river)), AnyOf((lamp, bird))))) == [1]
        assert found(AllOf((lamp, bird))) == []
        assert found(Substring("50% of")) == [4]
        assert found(Substring("f_a")) == [4]
        assert found(Substring("l \\ l")) == [4]
        assert found(Substring("0_ o")) == []


def test_a_condition_with_too_many_ways_rules_out_less_and_never_more() -> None:
    pair = AllOf((Substring("one"), Substring("two")))
    values: dict[str, Any] = {}
    sql = holds("message", AnyOf((pair,) * 12), values)
    assert 0 < sql.count("EXISTS") <= MOST_CHOICES
    assert set(values.values()) <= {"%one%", "%two%"}


def test_an_empty_store_has_no_newest_row(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    with store.read() as reader:
        assert (reader.newest_row("message"), reader.newest_row("summary")) == (0, 0)
        assert reader.row_count("message", Filter(None)) == 0
        assert reader.search_rows("message", []) == {}
    store.close()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that searches send, except those that begin and end transactions; "together" before a pipeline."""
    sent: list[str] = []
    pipeline, execute = WatchedConnection.pipeline, psycopg.Connection.execute

    def noted_execute(self: Any, query: Any, *arguments: Any, **more: Any) -> Any:
        text = query.decode() if isinstance(query, bytes) else query
        if not text.startswith("BEGIN"):
            sent.append(text)
        return execute(self, query, *arguments, **more)

    def noted_pipeline(self: Any) -> Any:
        sent.append("together")
        return pipeline(self)

    monkeypatch.setattr(WatchedConnection, "execute", noted_execute)
    monkeypatch.setattr(WatchedConnection, "pipeline", noted_pipeline)
    return sent


def test_a_search_asks_for_hits_and_rows_together_then_for_texts(postgres_url: str, asked: list[str]) -> None:
    with Engine.open(LcmConfig(database=postgres_url)) as engine:
        engine.ingest(SESSION, [user("a red lamp"), user("a green lamp"), user("nothing")])
        for word, texts_read in (("lamp", 1), ("absent", 0)):
            for _ in range(2):
                asked.clear()
                with engine.store.read() as reader:
                    found = TextSearch(reader, "message", parse_query(word), Filter((1,))).by_relevance(10)
            # The second time the word's form in the index is known.
            assert len(found.rows) == 2 * texts_read
            assert asked[0] == "together", asked
            assert len(asked) == 3 + texts_read, asked


def test_a_frequent_word_is_counted_once(
    postgres_url: str, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore(postgres_url)
    with Engine.open(LcmConfig(database=postgres_url)) as engine:
        engine.ingest(SESSION, [user(f"lamp {number}") for number in range(LEAST_FREQUENT)])
        lamp = WordQuery((Clause("word", "lamp"),))

        def count(cap: int, up_to: int | None = None) -> tuple[int, bool]:
            """How many rows, and whether the database was asked."""
            asked.clear()
            with store.read() as reader:
                counted = reader.count_words("message", lamp, Filter((1,), up_to_id=up_to), cap)
            return counted, any("SELECT count(*)" in one for one in asked)

        assert count(LEAST_FREQUENT, up_to=LEAST_FREQUENT) == (LEAST_FREQUENT, True)
        assert count(LEAST_FREQUENT, up_to=LEAST_FREQUENT) == (LEAST_FREQUENT, False)
        assert count(1) == (1, False)
        # More than is known, fewer rows than were counted, and what may have changed since are counted.
        assert count(LEAST_FREQUENT + 1) == (LEAST_FREQUENT, True)
        assert count(LEAST_FREQUENT, up_to=7) == (7, True)
        monkeypatch.setattr(known_words, "BELIEVED_S", 0.0)
        assert count(1) == (1, True)
    store.close()


def test_many_words_together_are_found_across_parts_and_soon_planned(postgres_url: str) -> None:
    words = [f"lamp{number}" for number in range(20)]
    halves = " ".join(words[:10]), " ".join(words[10:])
    store = PostgresStore(postgres_url)
    with Engine.open(LcmConfig(database=postgres_url)) as engine:
        parts = [{"type": "text", "text": half} for half in halves]
        engine.ingest(SESSION, [user(halves[0]), {"role": "user", "content": parts}, user(halves[1])])
        query = WordQuery(tuple(Clause("word", word) for word in words), all=True)
        with store.read() as reader:
            for order in ("recency", "relevance"):
                found = reader.find_words("message", query, Filter((1,)), order=order, limit=9)  # type: ignore[arg-type]
                assert [one.row_id for one in found] == [2]
            assert reader.count_words("message", query, Filter(None), 9) == 1
    store.close()
    made = WordSearch("message", query, Filter((1,)), {word: f"'{word}'" for word in words})
    # The planner tries the orders of what it may join, which are without number for twenty tables.
    assert made.found.count("EXISTS") - made.found.count("OFFSET 0") < MOST_JOINED


def test_words_that_are_all_frequent_are_looked_for_together_in_the_newest_rows(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_terms, "NEWEST_ACROSS", 3)
    words = [f"lamp{number}" for number in range(MOST_ACROSS + 1)]
    both = WordQuery(tuple(Clause("word", word) for word in words), all=True)
    store = PostgresStore(postgres_url)
    with Engine.open(LcmConfig(database=postgres_url)) as engine:
        engine.ingest(SESSION, [user(" ".join(words)), *[user("a boat")] * 4, user(" ".join(words))])
        with store.read() as reader:
            assert list(reader.count_each("message", [WordQuery((one,)) for one in both.clauses], HERE, 9))
            found = reader.find_words("message", both, HERE, order="recency", limit=9)
            assert [one.row_id for one in found] == [6, 1]
            monkeypatch.setattr(search, "MOST_ENTRIES", 0)
            found = reader.find_words("message", both, HERE, order="recency", limit=9)
            assert [one.row_id for one in found] == [6]
    store.close()
