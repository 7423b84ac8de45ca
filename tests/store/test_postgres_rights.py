"""The role that the page of PostgreSQL makes, with a password and a schema of its own: is that enough for everything?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from effort import FULL
from invariants import assert_sound
from messages import assistant, user
from postgres_server import PostgresServer

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.maintenance.selection import LaneKind, Selection

PAGE = Path(__file__).parents[2] / "docs" / "postgres.md"
HBA = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
PASSWORD = "correct-horse"
ARCHIVED = Selection(older_than_ms=0, kinds=frozenset({LaneKind.ARCHIVED}))
SESSION = Session("agent:main:main", "run-1")
SETTINGS = {"fresh_tail_count": 4, "leaf_chunk_tokens": 400, "leaf_target_tokens": 96}


def statements() -> list[str]:
    """What the page has an administrator do."""
    section = PAGE.read_text().partition("## Rights")[2]
    found = re.search(r"```sql\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return [one.strip() for one in found[1].replace("…", PASSWORD).split(";") if one.strip()]


def _has_trigrams(administrator: psycopg.Connection[Any]) -> bool:
    """Servers without contrib may lack them, but not where the whole page has to be shown."""
    found = administrator.execute("SELECT FROM pg_available_extensions WHERE name = 'pg_trgm'").fetchone()
    return found is not None or FULL


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer(tcp=True, hba=HBA) as running:
        with psycopg.connect(running.url, autocommit=True) as administrator:
            administrator.execute("CREATE DATABASE bare")
            for statement in statements():
                if "EXTENSION" not in statement or _has_trigrams(administrator):
                    administrator.execute(statement.encode())
        bare = running.url.replace("/postgres?", "/bare?")
        with psycopg.connect(bare, autocommit=True) as administrator:
            administrator.execute("CREATE SCHEMA lcm AUTHORIZATION lcm")
        yield running


def use_everything(url: str) -> list[str]:
    """Stores, compacts, searches, prunes, resets, checks and removes; what was found of a word's middle."""
    said = [
        one
        for n in range(40)
        for one in (user(f"bed {n}: amberlily{n} at dusk " + "slow " * 40), assistant("ok"))
    ]
    with Engine.open(LcmConfig(database=url, **SETTINGS)) as engine:
        engine.ingest(SESSION, said)
        assert engine.compact(SESSION, force=True).compacted
        engine.new_session(SESSION)
        hits = engine.call_tool(SESSION, "lcm_grep", {"pattern": "berlily17", "mode": "regex"})["hits"]
        engine.reset_session(SESSION)
        engine.ingest(SESSION, [user("a fresh start")])
        assert engine.check().ok
        engine.retention.apply(engine.retention.plan(ARCHIVED), "a person")
        engine.store.give_back_space()
        engine.store.give_back_space(scrub=True)
        with engine.store.read() as reader:
            assert reader.status().messages == 1
    assert_sound(url)
    return [hit["id"] for hit in hits]


def test_the_documented_role_can_do_everything_within_its_schema(server: PostgresServer) -> None:
    assert use_everything(server.tcp_url("lcm", PASSWORD))
    with psycopg.connect(server.url) as administrator:
        indexed = administrator.execute(
            "SELECT count(*) FROM pg_indexes WHERE schemaname = 'lcm' AND indexname LIKE '%trigrams'"
        ).fetchone()
        elsewhere = administrator.execute(
            "SELECT count(*) FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner "
            "WHERE r.rolname = 'lcm' AND c.relnamespace NOT IN ('lcm'::regnamespace, 'pg_toast'::regnamespace)"
        ).fetchone()
        expected = 2 if _has_trigrams(administrator) else 0
    assert indexed == (expected,)
    assert elsewhere == (0,)


def test_without_the_extension_a_substring_is_found_all_the_same(
    server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    assert use_everything(server.tcp_url("lcm", PASSWORD, database="bare"))
    assert "pg_trgm is not available" in caplog.text
