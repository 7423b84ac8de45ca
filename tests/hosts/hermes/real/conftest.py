"""A fake model server and a home for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.model_server import ModelServer
from world import World

FIGURE = "figure"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(window=64_000) as running:
        yield running


@pytest.fixture
def world(tmp_path: Path, server: ModelServer) -> Callable[..., World]:
    """Makes a home; settings by keyword."""

    def make(**settings: Any) -> World:
        return World(tmp_path / settings.pop("name", "home"), server, **settings)

    return make


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Notes what a run measured; printed after the tests."""
    return lambda line: record_property(FIGURE, line)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints how long the host waited for us."""
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, ()):
            for name, line in report.user_properties:
                if name == FIGURE and report.when == "call":
                    terminalreporter.write_line(line)
