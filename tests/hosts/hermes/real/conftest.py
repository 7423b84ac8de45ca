"""A fake model server and a home for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.model_server import ModelServer
from world import FIGURES, World


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


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints how long the host waited for us."""
    for line in FIGURES:
        terminalreporter.write_line(line)
