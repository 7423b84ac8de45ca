"""Each row of the tables of faults, and of those of complaints, names a test that holds what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "operations.md"
HOSTS = ROOT / "docs" / "hosts"
HEAD = re.compile(
    r"\| (?:(?:fault|what happens) \| what the user sees \| what is lost|complaint \| what happens here) \|"
)
NAMED = re.compile(r"<!-- ((?:test_\w+(?:, )?)+) --> \|$")
DEFINED = re.compile(r"def (test_\w+)\(")


def rows(page: Path) -> list[str]:
    """The rows of a page's tables that say what is lost, or what becomes of a complaint."""
    found, inside = list[str](), False
    for line in page.read_text(encoding="utf-8").splitlines():
        inside = line.startswith("|") and (inside or HEAD.match(line) is not None)
        if inside and not HEAD.match(line) and not line.startswith("|---"):
            found.append(line)
    return found


def known_tests() -> set[str]:
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    return {name for source in sources for name in DEFINED.findall(source)}


@pytest.mark.parametrize(
    ("page", "least"),
    [
        (PAGE, 26),
        *(
            (HOSTS / f"{host}.md", 10)
            for host in ("bub", "hermes", "langchain", "openai-agents", "pydantic-ai")
        ),
    ],
    ids=lambda value: value.stem if isinstance(value, Path) else "",
)
def test_each_row_has_a_test(page: Path, least: int) -> None:
    named = {row: NAMED.search(row) for row in rows(page)}
    assert len(named) >= least
    assert [row[:60] for row, match in named.items() if match is None] == []
    assert {name for match in named.values() if match for name in match[1].split(", ")} <= known_tests()


@pytest.mark.parametrize("host", ["bub", "langchain", "openai-agents", "pydantic-ai"])
def test_what_becomes_of_a_complaint_is_tested_in_the_host_itself(host: str) -> None:
    folder = ROOT / "tests" / "hosts" / host.replace("-", "_") / "real"
    there = {name for path in folder.glob("test_*.py") for name in DEFINED.findall(path.read_text("utf-8"))}
    named = [set(match[1].split(", ")) for row in rows(HOSTS / f"{host}.md") if (match := NAMED.search(row))]
    assert [names for names in named if not names & there] == []
