"""A fake model server and a home for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bub_world import BubWorld
from fakes.model_server import ModelServer
from figures import figure, pytest_terminal_summary

__all__ = ["figure", "pytest_terminal_summary"]

WINDOW = 16_000


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(window=WINDOW) as running:
        yield running


@pytest.fixture
def world(tmp_path: Path, server: ModelServer) -> Callable[..., BubWorld]:
    """Makes a home; settings by keyword. The host does not know the model's window, so the settings say it."""

    def make(**settings: Any) -> BubWorld:
        lcm = {"maxAssemblyTokenBudget": WINDOW, **settings.pop("lcm", {})}
        return BubWorld(tmp_path / settings.pop("name", "home"), server, lcm, **settings)

    return make
