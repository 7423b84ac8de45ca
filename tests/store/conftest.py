"""Every store that the contract suite runs against."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lcm_plugin.store.base import Store
from lcm_plugin.store.sqlite.store import SqliteStore

STORES = ["sqlite"]


@pytest.fixture(params=STORES)
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Store]]:
    """Opens stores on one and the same database."""
    stores: list[Store] = []

    def open_one() -> Store:
        store = SqliteStore(tmp_path / "lcm.db")
        stores.append(store)
        return store

    yield open_one
    for store in stores:
        store.close()


@pytest.fixture
def store(open_store: Callable[[], Store]) -> Store:
    return open_store()
