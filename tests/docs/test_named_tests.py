"""Tests that a page names as proof exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if "`test_" in page.read_text()]


@pytest.fixture(scope="module")
def defined() -> set[str]:
    sources = (path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    return {name for source in sources for name in re.findall(r"^(?:async )?def (test_\w+)", source, re.M)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_test_that_a_page_names_exists(page: Path, defined: set[str]) -> None:
    named = re.findall(r"`(test_\w+)`", page.read_text())
    assert [name for name in named if name not in defined] == []
