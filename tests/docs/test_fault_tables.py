"""Each row of the tables of faults names a test that holds what it says."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "operations.md"
HEAD = re.compile(r"\| (?:fault|what happens) \| what the user sees \| what is lost \|")
NAMED = re.compile(r"<!-- ((?:test_\w+(?:, )?)+) --> \|$")


def rows() -> list[str]:
    """The rows of all tables that say what is lost."""
    found, inside = list[str](), False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        inside = line.startswith("|") and (inside or HEAD.match(line) is not None)
        if inside and not HEAD.match(line) and not line.startswith("|---"):
            found.append(line)
    return found


def test_each_fault_on_the_page_has_a_test() -> None:
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    tests = {name for source in sources for name in re.findall(r"def (test_\w+)\(", source)}
    named = {row: NAMED.search(row) for row in rows()}
    assert len(named) > 25
    assert [row[:60] for row, match in named.items() if match is None] == []
    assert {name for match in named.values() if match for name in match[1].split(", ")} <= tests
