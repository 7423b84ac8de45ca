"""Engines with small windows, and models that do as they are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from clock import Clock
from invariants import assert_sound

from lcm_plugin import Engine, LcmConfig, Session


@pytest.fixture
def session() -> Session:
    return Session("agent:test:main", "run-1")


@pytest.fixture
def database(database_named: Callable[[str], str]) -> str:
    return database_named("lcm")


@pytest.fixture
def open_engine(database: str, clock: Clock) -> Iterator[Callable[..., Engine]]:
    """Opens engines on one database; afterwards its invariants must hold."""
    engines: list[Engine] = []

    def open_one(completer: Any = None, **settings: Any) -> Engine:
        values = {"summary_max_calls_per_window": 100_000, **settings}
        engine = Engine.open(LcmConfig(database=database, **values), completer, clock=clock)
        engines.append(engine)
        return engine

    yield open_one
    for engine in engines:
        engine.close()
    if engines:
        assert_sound(database)
