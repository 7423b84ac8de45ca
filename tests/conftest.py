"""What many tests need: an engine on a fresh database, a session, a clock that stands still."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from lcm_plugin import Engine, LcmConfig, Session

# The settings file of whoever runs the tests must not change them.
os.environ["LCM_CONFIG"] = str(Path(__file__).with_name("no-settings.json"))

# A build that failed must fail again: there the examples are the same every time. Elsewhere they vary.
hypothesis.settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
hypothesis.settings.register_profile("here", deadline=None)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "here")

START = 1_780_000_000_000


class Clock:
    """A clock that moves only when told to. Times are ms."""

    def __init__(self, now: int = START) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def forward(self, ms: int) -> None:
        self.now += ms


@pytest.fixture(autouse=True)
def no_invalid_context(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Every assembly checks itself; where a hook hides that it failed, its log line still tells."""
    yield
    told = [record for when in ("setup", "call") for record in caplog.get_records(when)]
    broken = [text for record in told if "breaks a provider's rule" in (text := record.getMessage())]
    assert not broken, broken


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def session() -> Session:
    return Session("agent:main:main", "run-1")


@pytest.fixture
def open_engine(tmp_path: Path, clock: Clock) -> Iterator[Callable[..., Engine]]:
    """Opens engines; several calls with the same ``name`` share a database file."""
    engines: list[Engine] = []

    def open_one(name: str = "lcm", completer: Any = None, **settings: Any) -> Engine:
        config = LcmConfig(database=str(tmp_path / f"{name}.db"), **settings)
        engine = Engine.open(config, completer, clock=clock)
        engines.append(engine)
        return engine

    yield open_one
    for engine in engines:
        engine.close()


@pytest.fixture
def engine(open_engine: Callable[..., Engine]) -> Engine:
    return open_engine()
