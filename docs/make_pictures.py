"""Takes the pictures of docs/pictures from the incident of examples/ and three imported histories, as pages are now:

.venvs/browser/bin/python docs/make_pictures.py [PYTHON]

PYTHON has this package with the extra ``web`` (default: .venv/bin/python). `make test-browser` sets up the environment that
runs this script.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, expect, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "pictures"
HISTORIES = [
    ROOT / "tests" / "interchange" / "importers" / "fixtures" / f"{name}.jsonl"
    for name in ("claude-code", "codex", "openclaw")
]
SIZE = {"width": 960, "height": 540}
LEAST_BYTES, MOST_BYTES = 20_000, 100_000
BUDGET = "16000"
MAIN = "from lcm_plugin.cli import main; main()"
# What each picture shows: a page of `lcm web`, and what is drawn once it is ready.
PAGES = {
    "web-sessions": ("/", ".sessions > li"),
    "web-talk": ("/talk/1?at=msg_114", "#msg_114"),
    "web-context": ("/context/1", "svg.budget"),
    "web-tree": ("/tree/1", ".tree > .node"),
    "web-steer": ("/steer/1", ".steer"),
    "web-health": ("/health", ".pairs"),
}


def take(browser: Browser, address: str, page: str, ready: str, name: str) -> None:
    """Takes one page in light and dark."""
    for scheme in ("light", "dark"):
        # A tree is lines of text, which make a large file.
        size = SIZE | ({"height": 400} if name == "web-tree" else {})
        context = browser.new_context(viewport=size, color_scheme=scheme)
        tab = context.new_page()
        tab.goto(address)
        tab.goto(page)
        expect(tab.locator(ready).first).to_be_in_viewport(timeout=30_000)
        tab.evaluate("document.activeElement.blur()")
        picture = FOLDER / f"{name}-{scheme}.png"
        tab.screenshot(path=picture)
        context.close()
        count = picture.stat().st_size
        print(f"{picture.relative_to(ROOT)}: {count:,} bytes")
        if not LEAST_BYTES < count < MOST_BYTES:
            raise SystemExit(f"{picture.name} is empty or too large")


@contextmanager
def served(lcm: list[str], database: Path) -> Iterator[str]:
    """`lcm web` on a free port; gives the address with the token."""
    command = [*lcm, "web", "--write", "--port", "0", "--database", str(database)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            yield running.stdout.readline().strip()
        finally:
            running.terminate()


def main() -> None:
    python = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / ".venv" / "bin" / "python")
    lcm = [python, "-c", MAIN]
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        database, exported = Path(folder, "incident.db"), Path(folder, "incident.html")
        incident = ROOT / "examples" / "incident.jsonl"
        subprocess.run(
            [*lcm, "replay", str(incident), "--budget", BUDGET, "--database", str(database)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        subprocess.run(
            [*lcm, "import", *map(str, HISTORIES), "--apply", "--database", str(database)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        subprocess.run([*lcm, "export", "1", "-o", str(exported), "--database", str(database)], check=True)
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        with served(lcm, database) as address:
            root = address.partition("/?")[0]
            for name, (page, ready) in PAGES.items():
                take(browser, address, root + page, ready, name)
        take(browser, exported.as_uri(), exported.as_uri(), "#picture svg", "export")
        browser.close()


if __name__ == "__main__":
    main()
