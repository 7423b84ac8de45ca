"""Filled databases in both kinds of store."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from one_of_everything import fill, open_engine
from postgres_server import running_server


@pytest.fixture(scope="session")
def server_for_copies() -> Iterator[str]:
    with running_server() as url:
        yield url


@pytest.fixture
def new_schema(server_for_copies: str) -> Callable[[], str]:
    """URLs of schemas that are not there yet."""
    joint = "&" if "?" in server_for_copies else "?"
    return lambda: f"{server_for_copies}{joint}schema=lcm_{uuid.uuid4().hex[:12]}"


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
