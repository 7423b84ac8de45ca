"""A Chromium of the machine. ``make test-browser`` runs these tests in an environment of their own.

``LCM_TEST_CHROMIUM`` names the browser, ``LCM_TEST_PYTHON`` a Python that has this package. A browser that cannot
be started is an error, never a skip.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

collect_ignore = [] if os.environ.get("TEST_BROWSER") else ["export", "web"]
BROWSER = "LCM_TEST_CHROMIUM"
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
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Chromium's own sandbox cannot be had as root; the pages are this package's own.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        started = playwright.chromium.launch(executable_path=chromium(), args=arguments)
        yield started
        started.close()
