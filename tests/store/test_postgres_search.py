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
from lcm_plugin.store.postgres.search_terms import MOST_CHOICES, holds
from lcm_plugin.store.postgres.store import PostgresStore
from lcm_plugin.store.search import AllOf, AnyOf, Filter, Substring

SESSION = Session("agent:main:main")
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
