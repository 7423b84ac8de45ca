"""A capability on a database of its own for each test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from talk import KEY, WINDOW

from lcm_plugin.hosts.pydantic_ai import LcmCapability

os.environ["LCM_CONFIG"] = str(Path(__file__).with_name("no-settings.json"))


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "talk.db"


@pytest.fixture
def make(database: Path) -> Iterator[Callable[..., LcmCapability[Any]]]:
    """Makes capabilities on one database; options by keyword."""
    made: list[LcmCapability[Any]] = []

    def capability(session: Any = KEY, **options: Any) -> LcmCapability[Any]:
        made.append(LcmCapability(session, database, **{"window": WINDOW, **options}))
        return made[-1]

    yield capability
    for one in made:
        one.close()
