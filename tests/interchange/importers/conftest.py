"""Importing a file into a fresh database."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from imported_store import Imported

from lcm_plugin import Engine

FIXTURES = Path(__file__).with_name("fixtures")


@pytest.fixture
def fixture_file() -> Callable[[str], Path]:
    """The path of a fixture."""
    return lambda name: FIXTURES / name


@pytest.fixture
def imported(open_engine: Callable[..., Engine]) -> Imported:
    return Imported(open_engine("imported"))
