"""A history that a benchmark loads by itself stands as the plugin would have left it."""

from __future__ import annotations

import importlib
from pathlib import Path

import psycopg
import pytest

from lcm_plugin.events import EventBus
from lcm_plugin.maintenance.recount import Recount
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.store.postgres.store import PostgresStore

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
COUNT = 200


def test_a_loaded_history_is_not_counted_anew_during_the_turns_that_are_timed(
    postgres_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    history = importlib.import_module("postgres_history")
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS loaded CASCADE")
    rows = list(history.texts(COUNT, 100, 1))
    history.fill_store(postgres_server, "loaded", lambda: iter(rows), COUNT, 1)
    database = f"{postgres_server}{'&' if '?' in postgres_server else '?'}schema=loaded"
    store = PostgresStore(database)
    try:
        recount = Recount(store, TokenCounter(), EventBus(), "UTC")
        assert recount.finished
        with store.read() as reader:
            stored = reader.conversation(1), reader.newest_items(1, limit=COUNT)
        recount.run(lambda: False)
        with store.read() as reader:
            assert (reader.conversation(1), reader.newest_items(1, limit=COUNT)) == stored
    finally:
        store.close()
