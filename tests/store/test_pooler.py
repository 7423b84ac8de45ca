"""PostgreSQL behind PgBouncer, and under settings that a role, a database or the environment brings."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import psycopg
import pytest
from fakes.processes import run
from invariants import assert_sound
from messages import user
from pgbouncer import PgBouncer
from postgres_server import PostgresServer, Standby

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.errors import StoreUnavailable
from lcm_plugin.store.postgres.store import PostgresStore

COMPACTING = {"fresh_tail_count": 4, "leaf_chunk_tokens": 400, "leaf_target_tokens": 96}
ODD_TEXT = "naïve Łódź 漢字 🦊 back\\slash 'quote' \\' E'\\n' \t"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer(tcp=True) as running:
        yield running


@pytest.fixture(scope="module", params=["session", "transaction"])
def bouncer(server: PostgresServer, request: pytest.FixtureRequest) -> Iterator[PgBouncer]:
    mode: Literal["session", "transaction"] = request.param
    with PgBouncer(server, mode) as running:
        yield running


def use_it(url: str, directly: str) -> None:
    """80 messages by 8 threads of two engines, then everything that needs settings, cursors or its own connection."""
    config = LcmConfig(database=url, **COMPACTING)
    with Engine.open(config) as one, Engine.open(config) as two, ThreadPoolExecutor(8) as threads:

        def say(number: int) -> int:
            session = Session(f"agent:main:{number % 4}", "run")
            text = f"{number} {ODD_TEXT} marigold{number} " + "slow " * 60
            return (one if number % 2 else two).ingest(session, [user(text)]).stored

        assert list(threads.map(say, range(80))) == [1] * 80
        said = [message for lane in range(4) for message in one.messages(Session(f"agent:main:{lane}"))]
        assert len(said) == 80
        assert all(ODD_TEXT in message["content"] for message in said)
        for lane in range(4):
            session = Session(f"agent:main:{lane}")
            assert (one if lane % 2 else two).compact(session, force=True).compacted
            assert one.assemble(session, 4_000).messages
            hits = two.call_tool(session, "lcm_grep", {"pattern": f"marigold{lane + 40}"})["hits"]
            assert hits, lane
        assert one.check().ok
        one.store.give_back_space()
        one.store.give_back_space(scrub=True)
        with one.store.read() as reader:
            assert reader.status().messages == 80
    assert_sound(directly)


@pytest.mark.long
def test_through_pgbouncer_80_of_80_are_stored(server: PostgresServer, bouncer: PgBouncer) -> None:
    schema = f"&schema=lcm_by_{bouncer.port}"
    use_it(bouncer.url(more=schema), server.tcp_url() + schema)


@pytest.mark.long
def test_a_pooler_that_drops_start_up_options_changes_nothing(server: PostgresServer) -> None:
    ignored = "options,extra_float_digits"
    with PgBouncer(server, "transaction", ignore_startup_parameters=ignored) as bouncer:
        use_it(bouncer.url(more="&schema=lcm_ignoring"), server.tcp_url() + "&schema=lcm_ignoring")


def test_settings_of_the_url_reach_the_server_through_a_pooler(bouncer: PgBouncer) -> None:
    more = f"&schema=lcm_set_{bouncer.port}&options=-c%20statement_timeout%3D4321%20-c%20work_mem%3D5MB"
    store = PostgresStore(bouncer.url(more=more))
    with store.read() as reader:
        found = reader.db.execute("SELECT current_setting('statement_timeout'), current_setting('work_mem')")
        assert found.fetchone() == ("4321ms", "5MB")
    store.close()


def test_a_pooled_connection_keeps_nothing_of_our_settings(server: PostgresServer) -> None:
    """Other programs get the same server connections afterwards."""
    with PgBouncer(server, "transaction", default_pool_size="1") as bouncer:
        PostgresStore(bouncer.url(more="&schema=lcm_left")).close()
        with psycopg.connect(bouncer.url(), prepare_threshold=None) as other:
            row = other.execute("SHOW search_path").fetchone()
            assert row == ('"$user", public',)
            assert other.execute("SHOW statement_timeout").fetchone() == ("0",)


def test_options_that_are_no_settings_are_refused_by_name(server: PostgresServer) -> None:
    with pytest.raises(StoreUnavailable, match="'-c name=value' only"):
        PostgresStore(server.tcp_url() + "&options=-e")


@pytest.mark.parametrize(
    "environment",
    [
        {"PGCLIENTENCODING": "LATIN1"},
        {"PGCLIENTENCODING": "SQL_ASCII", "PGDATESTYLE": "German", "PGTZ": "Asia/Kathmandu"},
        {"PGOPTIONS": "-c search_path=nowhere -c standard_conforming_strings=off -c client_encoding=latin1"},
    ],
)
def test_the_environment_changes_nothing(server: PostgresServer, environment: dict[str, str]) -> None:
    url = f"{server.tcp_url()}&schema=lcm_env_{abs(hash(tuple(environment)))}"
    program = f"""
        from lcm_plugin import Engine, LcmConfig, Session
        with Engine.open(LcmConfig(database={url!r})) as engine:
            for number in range(5):
                engine.ingest(Session("k"), [{{"role": "user", "content": f"{{number}} " + {ODD_TEXT!r}}}])
            print(sum({ODD_TEXT!r} in one["content"] for one in engine.messages(Session("k"))))
    """
    done = run("-c", textwrap.dedent(program), env={**os.environ, **environment})
    assert done.stdout.strip() == "5", done.stderr
    with Engine.open(LcmConfig(database=url)) as engine:
        assert len(engine.messages(Session("k"))) == 5


@pytest.mark.long
@pytest.mark.parametrize("pooled", [False, True])
def test_a_role_with_odd_defaults_changes_nothing(server: PostgresServer, pooled: bool) -> None:
    odd = {
        "search_path": "nowhere",
        "client_encoding": "latin1",
        "standard_conforming_strings": "off",
        "backslash_quote": "off",
        "datestyle": "'SQL, DMY'",
        "intervalstyle": "sql_standard",
        "bytea_output": "escape",
        "extra_float_digits": "-4",
        "transform_null_equals": "on",
        "default_transaction_isolation": "serializable",
        "timezone": "'Asia/Kathmandu'",
        "default_text_search_config": "'simple'",
        "enable_indexscan": "off",
    }
    with psycopg.connect(server.url, autocommit=True) as administrator:
        if administrator.execute("SELECT FROM pg_roles WHERE rolname = 'odd'").fetchone() is None:
            administrator.execute("CREATE ROLE odd LOGIN SUPERUSER")
            for name, value in odd.items():
                administrator.execute(f"ALTER ROLE odd SET {name} = {value}".encode())
    if pooled:
        with PgBouncer(server, "transaction") as bouncer:
            schema = "&schema=lcm_odd_pooled"
            use_it(bouncer.url("odd", schema), server.tcp_url() + schema)
    else:
        schema = "&schema=lcm_odd"
        use_it(server.tcp_url("odd") + schema, server.tcp_url() + schema)


def test_a_database_that_cannot_hold_every_text_is_refused(server: PostgresServer) -> None:
    with psycopg.connect(server.url, autocommit=True) as administrator:
        administrator.execute(
            "CREATE DATABASE western ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        )
    with pytest.raises(StoreUnavailable, match=r"encoded in LATIN1.*ENCODING 'UTF8'"):
        PostgresStore(server.tcp_url(database="western"))


def test_behind_a_pooler_a_server_that_only_reads_is_named(
    server: PostgresServer, bouncer: PgBouncer
) -> None:
    with psycopg.connect(server.url, autocommit=True) as administrator:
        if administrator.execute("SELECT FROM pg_roles WHERE rolname = 'reading'").fetchone() is None:
            administrator.execute("CREATE ROLE reading LOGIN SUPERUSER")
            administrator.execute("ALTER ROLE reading SET default_transaction_read_only = on")
    with pytest.raises(StoreUnavailable, match="read-only"):
        PostgresStore(bouncer.url("reading", "&schema=lcm_read_only"))


@pytest.mark.long
@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_behind_a_pooler_a_standby_is_named_and_read(
    server: PostgresServer, mode: Literal["session", "transaction"]
) -> None:
    lane, message, schema = Session("agent:main:main"), user("said before"), f"followed_{mode}"
    with Engine.open(LcmConfig(database=f"{server.tcp_url()}&schema={schema}")) as engine:
        engine.ingest(lane, [message])
    with Standby(server) as standby, PgBouncer(standby, mode) as bouncer:
        standby.wait_for(server)
        url = bouncer.url(more=f"&schema={schema}")
        with pytest.raises(StoreUnavailable, match="a standby that follows another server"):
            PostgresStore(url)
        with Engine.open(LcmConfig(database=url), read_only=True) as engine:
            assert engine.messages(lane) == [message]
            assert engine.call_tool(lane, "lcm_grep", {"pattern": "said"})["total"] == 1
            with pytest.raises(StoreUnavailable, match="was opened read-only"):
                engine.ingest(lane, [user("after")])
