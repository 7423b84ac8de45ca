"""The pages are short enough to be read: what is said, is said once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GENERATED = {ROOT / "docs" / name for name in ("cli.md", "commands.md", "configuration.md")}
PAGES = {ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "skills").rglob("*.md")} - GENERATED
FIGURES = {ROOT / "docs" / name for name in ("benchmarks.md", "evaluation.md")}
MOST_WORDS, MOST_WORDS_ABOUT_FIGURES = 25_000, 5_000
UNREAD = re.compile(r"^```.*?^```|<!--.*?-->|\]\([^)]*\)", re.MULTILINE | re.DOTALL)


def words(text: str) -> int:
    """The words of a page: no code blocks, no comments, no addresses of links, no figures."""
    return sum(re.search(r"[^\W\d_]", word) is not None for word in UNREAD.sub("]", text).split())


@pytest.mark.parametrize(
    ("pages", "most"),
    [(PAGES - FIGURES, MOST_WORDS), (FIGURES, MOST_WORDS_ABOUT_FIGURES)],
    ids=["text", "figures"],
)
def test_all_pages_together_are_short(pages: set[Path], most: int) -> None:
    counted = {str(page.relative_to(ROOT)): words(page.read_text(encoding="utf-8")) for page in pages}
    longest = sorted(counted, key=counted.__getitem__, reverse=True)[:5]
    assert sum(counted.values()) <= most, {page: counted[page] for page in longest}


def test_code_comments_addresses_and_figures_are_no_words() -> None:
    assert (
        words("A [link](to/some-where.md), 1,234 | --- |\n```python\nx = one\n```\n<!-- not read --> `two`")
        == 3
    )
