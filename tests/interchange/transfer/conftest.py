"""Filled databases in both kinds of store."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from one_of_everything import fill, open_engine


@pytest.fixture
def new_schema(postgres_server: str) -> Callable[[], str]:
    """URLs of schemas that are not there yet."""
    joint = "&" if "?" in postgres_server else "?"
    return lambda: f"{postgres_server}{joint}schema=lcm_{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled")
    with open_engine(str(folder / "lcm.db")) as engine:
        fill(engine)
    return folder


@pytest.fixture
def filled(filled_once: Path, tmp_path: Path) -> str:
    """A filled SQLite database of the test's own, with its folder of files."""
    return str(shutil.copytree(filled_once, tmp_path / "filled") / "lcm.db")
