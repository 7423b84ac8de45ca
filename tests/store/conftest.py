"""Every store that the contract suite runs against."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lcm_plugin.store.postgres.store import PostgresStore
from lcm_plugin.store.protocol import Store
from lcm_plugin.store.sqlite.store import SqliteStore


@pytest.fixture
def postgres_url(postgres_server: str) -> str:
    """A database URL with a schema of its own."""
    joint = "&" if "?" in postgres_server else "?"
    return f"{postgres_server}{joint}schema=lcm_{uuid.uuid4().hex[:12]}"


@pytest.fixture(params=["sqlite", "postgres"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Store]]:
    """Opens stores on one and the same database."""
    stores: list[Store] = []
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else ""

    def open_one() -> Store:
        store: Store = PostgresStore(url) if url else SqliteStore(tmp_path / "lcm.db")
        stores.append(store)
        return store

    yield open_one
    for store in stores:
        store.close()


@pytest.fixture
def store(open_store: Callable[[], Store]) -> Store:
    return open_store()
