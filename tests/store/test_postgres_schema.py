"""What distribution by conversation asks of the schema, checked against the page that says so."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest

from lcm_plugin.store.postgres.schema import MIGRATIONS, prepare_schema
from lcm_plugin.store.postgres.store import PostgresStore
from lcm_plugin.store.postgres.url import split_schema

PAGE = Path(__file__).parents[2] / "docs" / "postgres.md"
_INDEXES = """
SELECT t.relname, i.relname, x.indisunique, pg_get_indexdef(x.indexrelid, 1, false)
FROM pg_index x JOIN pg_class t ON t.oid = x.indrelid JOIN pg_class i ON i.oid = x.indexrelid
WHERE t.relkind = 'r' AND t.relnamespace = current_schema()::regnamespace"""


@pytest.fixture
def indexes(postgres_url: str) -> list[tuple[str, str, bool, str]]:
    """Table, name, whether it is unique, and first column of every index."""
    store = PostgresStore(postgres_url)
    with store.write() as writer:
        writer.store_vectors("any", {})
    store.close()
    plain, schema = split_schema(postgres_url)
    with psycopg.connect(plain, options=f"-c search_path={schema}") as connection:
        return connection.execute(_INDEXES).fetchall()


def _tables(function: str) -> set[str]:
    return set(re.findall(rf"{function}\('lcm\.(\w+)'", PAGE.read_text()))


def test_the_conversation_leads_each_unique_index_of_a_distributed_table(
    indexes: list[tuple[str, str, bool, str]],
) -> None:
    distributed = _tables("create_distributed_table")
    wrong = [row for row in indexes if row[0] in distributed and row[2] and row[3] != "conversation_id"]
    assert not wrong


def test_the_page_names_every_index_that_another_column_leads(
    indexes: list[tuple[str, str, bool, str]],
) -> None:
    distributed = _tables("create_distributed_table")
    named = set(re.findall(r"`(\w+)`", PAGE.read_text().partition("begin with another column")[2]))
    here = {row[1] for row in indexes if row[0] in distributed and row[3] != "conversation_id"}
    # A server without the extension has none of these.
    optional = {name for name in named if name.endswith("_trigrams")}
    assert here | optional == named


def test_the_page_says_how_each_table_is_distributed(indexes: list[tuple[str, str, bool, str]]) -> None:
    told = _tables("create_distributed_table") | _tables("create_reference_table")
    assert {row[0] for row in indexes} - told == {"lcm_migrations"}


def test_a_schema_of_an_earlier_version_is_brought_up_to_date(postgres_url: str) -> None:
    plain, schema = split_schema(postgres_url)
    with psycopg.connect(plain, autocommit=True, options=f"-c search_path={schema},public") as connection:
        for number in range(1, len(MIGRATIONS)):
            with connection.transaction():
                if number == 1:
                    connection.execute(f"CREATE SCHEMA {schema}".encode())
                    connection.execute(
                        "CREATE TABLE lcm_migrations (version integer PRIMARY KEY, applied_at timestamptz)"
                    )
                connection.execute(MIGRATIONS[number - 1].replace("{schema}", schema).encode())
                connection.execute("INSERT INTO lcm_migrations VALUES (%s, now())", (number,))
        prepare_schema(connection, schema)
        upgraded = connection.execute(_INDEXES).fetchall()
    fresh = f"{schema}_new"
    PostgresStore(postgres_url.replace(schema, fresh)).close()
    with psycopg.connect(plain, options=f"-c search_path={fresh}") as connection:
        made = connection.execute(_INDEXES).fetchall()
    assert sorted(upgraded) == sorted(made)


def test_tables_of_others_may_have_the_names_of_our_views(postgres_url: str) -> None:
    plain, _ = split_schema(postgres_url)
    with psycopg.connect(plain, autocommit=True) as others:
        others.execute("CREATE TABLE public.parts (theirs text)")
        try:
            store = PostgresStore(postgres_url)
            with store.read() as reader:
                assert reader.schema_faults() == []
                assert reader.one("SELECT count(*) FROM parts") == (0,)
            store.close()
            assert others.execute("SELECT count(theirs) FROM public.parts").fetchone() == (0,)
        finally:
            others.execute("DROP TABLE public.parts")
