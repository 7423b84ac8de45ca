"""Generated pages are what the code generates now."""

from __future__ import annotations

from pathlib import Path

from lcm_plugin.cli.reference import page

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_command_line_page_is_up_to_date() -> None:
    written = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert written == page(), "run: python -m lcm_plugin.cli.reference > docs/cli.md"
