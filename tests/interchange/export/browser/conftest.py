"""A Chromium of the machine, and pages that ``lcm export`` wrote from databases filled here.

``LCM_TEST_CHROMIUM`` names the browser, ``LCM_TEST_PYTHON`` a Python that has this package. A browser that cannot
be started is an error, never a skip.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

BROWSER = "LCM_TEST_CHROMIUM"
_HERE = Path(__file__).parent
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium() -> str:
    """The browser's program."""
    found = os.environ.get(BROWSER) or next(filter(None, map(shutil.which, _NAMES)), None)
    if not found:
        raise RuntimeError(
            f"no Chromium here; install one (Debian: apt-get install chromium) or set {BROWSER}"
        )
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # Chromium's own sandbox cannot be had as root; the pages are this package's own.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        started = playwright.chromium.launch(executable_path=chromium(), args=arguments)
        yield started
        started.close()


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
