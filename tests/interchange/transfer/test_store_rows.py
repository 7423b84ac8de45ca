"""Whole rows out of a store and into one: nothing that a table holds is left behind."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest
from one_of_everything import fill, open_engine

from lcm_plugin.store.postgres.store import PostgresStore
from lcm_plugin.store.protocol import Store
from lcm_plugin.store.transfer import BY_NAME, COUNTERS, TABLES, conversation_ids, rows_of, table_hashes

# What each store makes by itself out of what is carried over, and what is carried over in another way. Checks
# that were asked for belong to the store that they were to look at, and so does the record of what a person did to it.
_DERIVED_TABLES = {
    "actions",
    "file_blobs",
    "index_state",
    "integrity_jobs",
    "sqlite_sequence",
    "_sqlite_migrations",
    "lcm_migrations",
}
_DERIVED_COLUMNS = {
    ("message_parts", "part_id"),
    ("message_parts", "words"),
    ("messages", "kind"),
    ("summaries", "words"),
}
_BORROWED = {
    ("message_parts", "conversation_id"),
    ("summary_messages", "conversation_id"),
    ("summary_parents", "conversation_id"),
}


def _check_columns(found: set[tuple[str, str]]) -> None:
    known = {(table.name, column) for table in TABLES for column in table.columns}
    assert found - known == set(), "carry these columns over, or say what makes them"
    assert known - found <= _BORROWED


def test_every_column_of_a_sqlite_database_is_carried_over(filled: str) -> None:
    with closing(sqlite3.connect(filled)) as db:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        tables = [
            name
            for name in names
            if name not in _DERIVED_TABLES and "_fts" not in name and "_trigram" not in name
        ]
        found = {(name, row[1]) for name in tables for row in db.execute(f"PRAGMA table_info({name})")}
    _check_columns(found - _DERIVED_COLUMNS)


def test_every_column_of_a_postgres_schema_is_carried_over(new_schema: Callable[[], str]) -> None:
    store = PostgresStore(new_schema())
    with store.read() as reader:
        rows = reader.db.execute(
            "SELECT table_name, column_name FROM information_schema.columns NATURAL JOIN information_schema.tables "
            "WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'"
        ).fetchall()
    store.close()
    _check_columns(
        {(table, column) for table, column in rows if table not in _DERIVED_TABLES} - _DERIVED_COLUMNS
    )


def _loaded_equal(source: Store, target: Store) -> None:
    with source.read() as reader, target.write() as writer:
        for scope in (None, *conversation_ids(reader)):
            for table in TABLES:
                if table.shared if scope is None else table.bound:
                    writer.load_rows(table, list(rows_of(reader, table, scope)))
        writer.raise_counters(reader.counters())
    with source.read() as reader, target.read() as there:
        assert there.row_counts() == reader.row_counts()
        assert table_hashes(there) == table_hashes(reader)
        assert there.counters() == reader.counters()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_loaded_rows_are_equal_in_any_store(
    filled: str, tmp_path: object, new_schema: Callable[[], str], kind: str
) -> None:
    where = new_schema() if kind == "postgres" else f"{tmp_path}/copy.db"
    with open_engine(filled) as source, open_engine(where, large_files_dir="db") as target:
        with source.store.read() as reader:
            counts = reader.row_counts()
            assert all(counts.values()), "the filled database lacks something"
        _loaded_equal(source.store, target.store)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_pages_go_on_after_any_key(
    filled: str, tmp_path: object, new_schema: Callable[[], str], kind: str
) -> None:
    where = new_schema() if kind == "postgres" else f"{tmp_path}/other.db"
    with open_engine(where, large_files_dir="db") as engine:
        fill(engine)
        with engine.store.read() as reader:
            for scope in (None, *conversation_ids(reader)):
                for table in TABLES:
                    if not (table.shared if scope is None else table.bound):
                        continue
                    whole = list(rows_of(reader, table, scope))
                    assert len({table.key_of(row) for row in whole}) == len(whole)
                    assert reader.transfer_end(table, scope) == (whole[-1] if whole else None)
                    for place, row in enumerate(whole):
                        following = reader.transfer_page(table, scope, table.key_of(row), 2)
                        assert following == whole[place + 1 : place + 3], table.name


def test_a_hash_notices_any_change(filled: str) -> None:
    with open_engine(filled) as engine:
        with engine.store.read() as reader:
            before = table_hashes(reader)
        with engine.store.write() as writer:
            writer.save_guard("circuit:m", {"open_until": 13})
        with engine.store.read() as reader:
            after = table_hashes(reader)
    assert {name for name in BY_NAME if before[name] != after[name]} == {"guards"}


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_counters_are_raised_never_lowered_and_reserve_what_follows(
    tmp_path: object, new_schema: Callable[[], str], kind: str
) -> None:
    where = new_schema() if kind == "postgres" else f"{tmp_path}/counters.db"
    with open_engine(where) as engine, engine.store.write() as writer:
        assert writer.counters() == dict.fromkeys(COUNTERS, 0)
        writer.raise_counters({"messages": 40})
        writer.raise_counters({"messages": 7, "summaries": 0})
        assert writer.counters()["messages"] == 40
        assert writer.reserve("messages", 10) == 41
        assert writer.reserve("messages", 1) == 51
        assert writer.counters()["messages"] == 51
