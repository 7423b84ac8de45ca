"""What is said when a PostgreSQL server cannot be used: what, where, what to do, and never the password."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import psycopg
import pytest
from fakes.shell import run_here
from messages import user
from old_server import server_of_version
from postgres_server import PostgresServer, Standby
from tcp_proxy import TcpProxy

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.errors import StoreBusy, StoreError, StoreUnavailable
from lcm_plugin.store.postgres.store import PostgresStore
from lcm_plugin.store.postgres.url import split_schema
from lcm_plugin.store.retry import retry_lost
from lcm_plugin.store.search import Filter

PASSWORD = "correct-horse"
HBA = """
host all asked 127.0.0.1/32 scram-sha-256
host all turned_away 127.0.0.1/32 reject
host all all 127.0.0.1/32 trust
host replication all 127.0.0.1/32 trust
local all all trust
"""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer(tcp=True, hba=HBA, settings={"deadlock_timeout": "100ms"}) as running:
        with psycopg.connect(running.url, autocommit=True) as administrator:
            for statement in (
                f"CREATE ROLE asked LOGIN PASSWORD '{PASSWORD}'",
                "CREATE ROLE turned_away LOGIN",
                "CREATE ROLE guest LOGIN",
                "CREATE ROLE reader LOGIN",
                "ALTER ROLE reader SET default_transaction_read_only = on",
                "CREATE SCHEMA closed",
                "CREATE SCHEMA half_open",
                "GRANT USAGE ON SCHEMA half_open TO guest",
            ):
                administrator.execute(statement.encode())
        PostgresStore(f"{running.tcp_url()}&schema=ready").close()
        yield running


def complaint(url: str, *, read_only: bool = False) -> str:
    """Why a store cannot be opened."""
    with pytest.raises(StoreUnavailable) as caught:
        PostgresStore(url, busy_timeout_ms=300, read_only=read_only).close()
    text = str(caught.value)
    assert PASSWORD not in text
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://lcm:correct/horse@db.example/agents",
        "postgresql://lcm:correct@horse@db.example/agents",
        "postgresql://lcm:correct#horse@db.example:54x/agents",
        "postgresql://lcm:correct%zzhorse@db.example/agents",
        "postgresql://lcm:horse@[db.example/agents",
        "postgresql://lcm:horse@db.example/agents?no_such_word=correct",
    ],
)
def test_a_url_that_cannot_be_read_is_told_how_to_be_written(url: str) -> None:
    text = complaint(url)
    assert "cannot be read" in text
    assert "postgresql://user:password@host:port/database" in text
    assert "horse" not in text
    assert "correct" not in text


def test_a_password_with_its_characters_escaped_is_taken_as_it_is() -> None:
    plain, schema = split_schema(
        "postgresql://lcm:a%2Fb%40c%3F@db.example:5433/agents?schema=mine&sslmode=require"
    )
    assert schema == "mine"
    assert psycopg.conninfo.conninfo_to_dict(plain) == {
        "user": "lcm",
        "password": "a/b@c?",
        "host": "db.example",
        "port": "5433",
        "dbname": "agents",
        "sslmode": "require",
    }


def test_a_host_that_is_unknown() -> None:
    text = complaint(f"postgresql://lcm:{PASSWORD}@no-such-host.invalid/agents")
    assert text.startswith("postgresql://lcm@no-such-host.invalid/agents cannot be reached: ")
    assert text.endswith("check the host's name in the database URL")


def test_a_port_where_nothing_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    text = complaint(f"postgresql://lcm:{PASSWORD}@127.0.0.1:{port}/agents")
    assert "Connection refused" in text
    assert text.endswith("check that the server runs there, and host and port in the database URL")


@pytest.mark.long
def test_a_server_that_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        text = complaint(f"postgresql://lcm:{PASSWORD}@127.0.0.1:{silent.getsockname()[1]}/agents")
    assert text.endswith("check that the server can be reached from here (network, firewall)")


@pytest.mark.long
def test_a_wrong_password(server: PostgresServer) -> None:
    text = complaint(server.tcp_url("asked", f"not-{PASSWORD}"))
    assert 'password authentication failed for user "asked"' in text
    assert text.endswith("check user and password in the database URL")
    assert "no password supplied" in complaint(server.tcp_url("asked"))


def test_a_user_a_database_and_an_access_that_are_not_there(server: PostgresServer) -> None:
    assert complaint(server.tcp_url("nobody_here")).endswith(
        "check the user in the database URL, or create the role"
    )
    assert complaint(server.tcp_url(database="nothing_here")).endswith(
        "check the name at the end of the database URL, or create the database"
    )
    assert "pg_hba.conf" in complaint(server.tcp_url("turned_away"))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("closed", "permission denied for schema closed"),
        ("half_open", "permission denied for schema half_open"),
        ("to_be_made", "permission denied for database postgres"),
        ("ready", "permission denied for schema ready"),
    ],
)
def test_rights_that_are_missing(server: PostgresServer, schema: str, words: str) -> None:
    text = complaint(f"{server.tcp_url('guest')}&schema={schema}")
    assert f"not allowed: {words}" in text
    assert f'CREATE SCHEMA "{schema}" AUTHORIZATION' in text


def test_tables_that_may_not_be_read(server: PostgresServer) -> None:
    with psycopg.connect(server.url) as administrator:
        administrator.execute("GRANT USAGE ON SCHEMA ready TO guest")
        administrator.execute("GRANT SELECT ON ready.lcm_migrations TO guest")
    with pytest.raises(StoreUnavailable, match=r"permission denied for table guards; .*all rights"):
        Engine.open(LcmConfig(database=f"{server.tcp_url('guest')}&schema=ready"))


def test_a_server_that_is_too_old() -> None:
    with server_of_version("13.22") as port:
        text = complaint(f"postgresql://lcm@127.0.0.1:{port}/agents?sslmode=disable&gssencmode=disable")
    assert text.endswith("is PostgreSQL 13; 14 or newer is needed: upgrade the server")


@pytest.mark.long
def test_a_standby_is_read_and_not_written(server: PostgresServer) -> None:
    with Standby(server) as standby:
        text = complaint(f"{standby.tcp_url()}&schema=ready")
        assert "is read-only (a standby that follows another server)" in text
        assert "target_session_attrs=read-write" in text
        url = f"{standby.tcp_url()}&schema=ready"
        with Engine.open(LcmConfig(database=url), read_only=True) as engine:
            assert engine.messages(Session("agent:main:main")) == []
            with pytest.raises(StoreUnavailable, match="was opened read-only"):
                engine.ingest(Session("agent:main:main"), [user("hello")])
        # Both servers in one URL: the one that can be written is found.
        both = f"postgresql://postgres@127.0.0.1:{standby.port},127.0.0.1:{server.port}/postgres"
        store = PostgresStore(f"{both}?sslmode=disable&target_session_attrs=read-write&schema=ready")
        store.close()


@pytest.mark.long
def test_an_address_that_comes_to_stand_for_a_standby_works_again_once_that_is_promoted(
    server: PostgresServer,
) -> None:
    lane = Session("agent:main:main")
    with Standby(server) as standby:
        assert server.port is not None
        assert standby.port is not None
        address = TcpProxy(server.port)
        url = f"{server.tcp_url().replace(str(server.port), str(address.port))}&schema=ready"
        with Engine.open(LcmConfig(database=url, busy_timeout_ms=300)) as engine:
            engine.ingest(lane, [user("before")])
            standby.wait_for(server)
            address.redirect(standby.port)
            with pytest.raises(StoreUnavailable, match="a standby that follows another server"):
                engine.ingest(lane, [user("after")])
            assert engine.messages(lane) == [user("before")]
            standby.promote()
            engine.ingest(lane, [user("after")])
            assert engine.messages(lane) == [user("before"), user("after")]
        address.close()


def test_a_role_that_only_reads(server: PostgresServer) -> None:
    text = complaint(f"{server.tcp_url('reader')}&schema=ready")
    assert "is read-only (default_transaction_read_only is on)" in text


def test_a_statement_that_takes_longer_than_its_limit(server: PostgresServer) -> None:
    store = PostgresStore(f"{server.tcp_url()}&schema=ready&options=-c%20statement_timeout%3D100")
    try:
        with (
            pytest.raises(StoreBusy, match=r"longer than its limit .*statement timeout.*nothing was written"),
            store.write() as writer,
        ):
            writer.db.execute("SELECT pg_sleep(5)")
    finally:
        store.close()


def test_a_table_that_another_session_holds(server: PostgresServer) -> None:
    engine = Engine.open(LcmConfig(database=f"{server.tcp_url()}&schema=ready", busy_timeout_ms=100))
    with engine, psycopg.connect(server.url) as other:
        other.execute("LOCK TABLE ready.messages")
        with pytest.raises(StoreBusy, match=r"another session holds the rows .*lock timeout.*try again"):
            engine.ingest(Session("agent:main:main"), [user("hello")])


def test_two_writers_that_wait_for_each_other_both_get_through(server: PostgresServer) -> None:
    store = PostgresStore(f"{server.tcp_url()}&schema=ready")
    both_hold_one = threading.Barrier(2)
    runs: list[str] = []

    def write(first: str, second: str) -> None:
        with store.write() as writer:
            writer.save_guard(first, {"by": first})
            runs.append(first)
            if runs.count(first) == 1:
                both_hold_one.wait(60)
            writer.save_guard(second, {"by": first})

    try:
        threads = [
            threading.Thread(target=retry_lost, args=(partial(write, *pair),))
            for pair in (("left", "right"), ("right", "left"))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        with store.read() as reader:
            states = [reader.guard(key) for key in ("left", "right")]
        assert len(runs) >= 3, "one of them runs again"
        assert states[0] == states[1]
    finally:
        store.close()


def test_a_disk_that_is_full(server: PostgresServer) -> None:
    store = PostgresStore(f"{server.tcp_url()}&schema=ready")
    fails = (
        "DO $$ BEGIN RAISE 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$"
    )
    try:
        with pytest.raises(StoreUnavailable, match=r"disk of .* is full .*nothing"), store.write() as writer:
            writer.db.execute(fails)
    finally:
        store.close()


def test_a_failure_that_a_transaction_did_not_tell_is_not_taken_for_success(server: PostgresServer) -> None:
    store = PostgresStore(f"{server.tcp_url()}&schema=ready")

    def write() -> None:
        with store.write() as writer, pytest.raises(psycopg.Error):
            writer.db.execute("SELECT 1 / 0")

    try:
        with pytest.raises(StoreError, match="nothing was written"):
            write()
    finally:
        store.close()


def test_rows_that_are_left_half_read_do_not_disturb_the_next_transaction(server: PostgresServer) -> None:
    url = f"{server.tcp_url()}&schema=half_read"
    with Engine.open(LcmConfig(database=url)) as engine:
        engine.ingest(Session("agent:main:main"), [user("one"), user("two")])
        with engine.store.read() as reader:
            rows = reader.scan("message", Filter(None))
            next(rows)
        with engine.store.write() as writer:
            rows.close()  # type: ignore[attr-defined]
            writer.save_guard("there", {"still": True})
        with engine.store.read() as reader:
            assert reader.guard("there") == {"still": True}


def test_more_threads_than_connections_wait_and_are_told(server: PostgresServer) -> None:
    store = PostgresStore(f"{server.tcp_url()}&schema=ready", busy_timeout_ms=100)
    try:
        with ExitStack() as held:
            for _ in range(8):
                held.enter_context(store.read())
            with pytest.raises(StoreBusy, match="all 8 connections of this process are in use"):
                held.enter_context(store.read())
        with store.read() as reader:
            assert reader.db.execute("SELECT 1").fetchone() == (1,)
    finally:
        store.close()


@pytest.mark.long
def test_without_psycopg_the_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['psycopg'] = None; from lcm_plugin.cli import main; "
        f"sys.argv = ['lcm', 'status', '--database', 'postgresql://lcm:{PASSWORD}@db.example/agents']; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert "pip install 'lcm_plugin[postgres]'" in done.stderr
    assert PASSWORD not in done.stderr


@pytest.mark.parametrize(
    "command", [("status",), ("doctor",), ("grep", "word"), ("compact", "agent:main:main")]
)
def test_commands_say_it_in_one_line_and_end_with_5(server: PostgresServer, command: tuple[str, ...]) -> None:
    done = run_here(*command, "--database", server.tcp_url("asked", f"not-{PASSWORD}"))
    assert done.returncode == 5
    assert done.stderr.count("\n") == 1
    assert "check user and password" in done.stderr
    assert PASSWORD not in done.stderr + done.stdout
