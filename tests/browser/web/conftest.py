"""`lcm web` over a database filled here, and a browser that is signed in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

# A busy machine is slow, not wrong.
expect.set_options(timeout=30_000)
_HERE = Path(__file__).parent
_MAIN = "from lcm_plugin.cli import main; main()"


@dataclass(frozen=True)
class Served:
    """A running server: its address with the token, and its database."""

    address: str
    database: Path | str

    @property
    def root(self) -> str:
        return self.address.partition("/?")[0]


def python() -> str:
    """A Python that has this package."""
    return os.environ.get("LCM_TEST_PYTHON", sys.executable)


def serve(database: Path | str, *options: str) -> Iterator[Served]:
    """Starts `lcm web` on a free port and ends it."""
    command = [python(), "-c", _MAIN, "web", "--port", "0", "--database", str(database), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            address = running.stdout.readline().strip()
            assert address, "lcm web did not start"
            yield Served(address, database)
        finally:
            running.terminate()


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("web") / "web.db"
    subprocess.run([python(), str(_HERE / "fill.py"), str(place)], check=True, timeout=600)
    return place


@pytest.fixture(scope="session")
def served(database: Path) -> Iterator[Served]:
    yield from serve(database)


@pytest.fixture(scope="session")
def writing(database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of a copy, which pages may change."""
    copy = tmp_path_factory.mktemp("write") / "web.db"
    shutil.copy(database, copy)
    yield from serve(copy, "--write")


@pytest.fixture(scope="session")
def on_postgres() -> Iterator[Served]:
    """A server of a PostgreSQL database."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([python(), str(_HERE / "fill_postgres.py")], **pipes) as running:
        assert running.stdout is not None
        url = running.stdout.readline().strip()
        assert url, "PostgreSQL did not start"
        yield from serve(url)


@pytest.fixture
def open_page(browser: Browser, served: Served) -> Iterator[Callable[..., Page]]:
    """Opens a page. Any error, console message, dialog or request to elsewhere fails the test."""
    contexts = []
    wrong: list[str] = []

    def open_one(
        path: str = "/", width: int = 1280, height: int = 900, at: Served = served, **more: object
    ) -> Page:
        context = browser.new_context(viewport={"width": width, "height": height}, **more)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("console", lambda message: wrong.append(f"console: {message.text}"))
        page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
        page.on("request", lambda one: wrong.append(one.url) if not one.url.startswith(at.root) else None)
        page.goto(at.address)
        page.goto(at.root + path)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert not wrong
