"""Two compactions that publish in one conversation at one moment, on PostgreSQL."""

from __future__ import annotations

import time

import psycopg
import pytest
from test_contract import current, fill, items, node, publish

from lcm_plugin.errors import StoreBusy, StoreConflict
from lcm_plugin.store.postgres.store import PostgresStore
from lcm_plugin.store.postgres.url import split_schema
from lcm_plugin.types import Session

OTHER = Session("agent:main:other", "run-1")


def test_the_second_is_told_at_once_to_try_again_and_the_first_goes_on(postgres_url: str) -> None:
    store = PostgresStore(postgres_url, busy_timeout_ms=20_000)
    conversation, elsewhere = fill(store, 8), fill(store, 8, OTHER)
    with store.write() as first:
        first.publish(node(conversation, items(first, conversation)[:4]), 5)
        begun = time.monotonic()
        with pytest.raises(StoreBusy, match="try again"), store.write() as second:
            second.publish(node(conversation, items(second, conversation)[4:6], "1" * 16), 5)
        assert time.monotonic() - begun < 20
        with store.write() as other:
            other.publish(node(elsewhere, items(other, elsewhere)[:4], "2" * 16), 5)
    with pytest.raises(StoreConflict), store.write() as second:
        second.publish(node(conversation, items(second, conversation)[1:3], "1" * 16), 5)
    publish(store, 1, 3, "3" * 16)
    assert current(store).summary_items == 2
    store.close()


def test_no_turn_waits_for_whoever_is_about_to_publish(postgres_url: str) -> None:
    store = PostgresStore(postgres_url, busy_timeout_ms=500)
    conversation = fill(store, 8)
    plain, schema = split_schema(postgres_url)
    with psycopg.connect(plain, options=f"-c search_path={schema}") as holder:
        holder.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' publishes', %s))",
            (conversation.conversation_id,),
        )
        assert fill(store, 1).message_count == 9
        with pytest.raises(StoreBusy):
            publish(store, 0, 4)
    publish(store, 0, 4)
    store.close()
