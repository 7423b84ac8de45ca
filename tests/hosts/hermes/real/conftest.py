"""A fake model server and a home for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.model_server import ModelServer
from figures import figure, pytest_terminal_summary
from world import World

__all__ = ["figure", "pytest_terminal_summary"]


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
