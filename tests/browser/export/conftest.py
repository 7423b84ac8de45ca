"""Pages that ``lcm export`` wrote from databases filled here."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

_HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Exports by name: ``talk``, ``hostile``, ``long`` (10,000 messages), ``empty``."""
    folder = tmp_path_factory.mktemp("pages")
    python = os.environ.get("LCM_TEST_PYTHON", sys.executable)
    subprocess.run([python, str(_HERE / "fill.py"), str(folder)], check=True, timeout=300)
    return {file.stem: file for file in folder.glob("*.html")}


@pytest.fixture
def open_page(browser: Browser, pages: dict[str, Path]) -> Iterator[Callable[..., Page]]:
    """Opens an export. Any error, console message or request beside the page itself fails the test."""
    contexts = []
    wrong: list[str] = []

    def open_one(
        name: str = "talk", width: int = 1400, height: int = 900, place: str = "", **more: str
    ) -> Page:
        context = browser.new_context(viewport={"width": width, "height": height}, **more)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("console", lambda message: wrong.append(f"console: {message.text}"))
        page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
        page.on(
            "request",
            lambda one: wrong.append(one.url) if not one.url.startswith(pages[name].as_uri()) else None,
        )
        page.goto(f"{pages[name].as_uri()}{place}")
        page.wait_for_selector("#picture svg")
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert not wrong
