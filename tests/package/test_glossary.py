"""One word for one thing: the glossary's, in names, docstrings, messages and pages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from source_trees import PACKAGE, trees

ROOT = Path(__file__).resolve().parents[2]
CONCEPTS = ROOT / "docs" / "concepts.md"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "skills").rglob("*.md"))]

# Images, and second words for what the glossary names; with the word to take instead.
REPLACED = {
    r"\bhears\b": "takes, gets",
    r"\bowes\b": "is due",
    r"\bears\b": "listeners",
    r"\bthread of talk\b": "session",
    r"\bparent summar(?:y|ies)\b": "source, derived",
    r"\bchild summar(?:y|ies)\b": "source, derived",
    r"\bsummary node\b": "summary",
    r"\bsummary tree node\b": "summary",
    r"\bprotected tail\b": "fresh tail",
    r"\brecent tail\b": "fresh tail",
    r"\bcontext entr(?:y|ies)\b": "context item",
    r"\bmessage group\b": "group",
}
# Whoever reads a translation of another program's words finds them there.
OTHERS_WORDS = ("hosts/", "interchange/importers/")
# Names that modules had for an image.
IMAGES = {
    "weaver",
    "outlook",
    "troubles",
    "clockwork",
    "telling",
    "unsure",
    "dialling",
    "patience",
    "people",
    "wording",
}


def glossary() -> set[str]:
    """The terms of the table of words."""
    table = CONCEPTS.read_text(encoding="utf-8").partition("## Words")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", table, re.MULTILINE)
    return {term for row in rows if row not in ("word", "---") for term in row.split(", ")}


def spoken(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The texts of a module by line: docstrings, messages, and the names of what it defines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name.replace("_", " ")


def replaced(text: str) -> list[str]:
    """The words in a text that the glossary has others for."""
    return [match[0] for pattern in REPLACED for match in re.finditer(pattern, text, re.IGNORECASE)]


def test_a_replaced_word_would_be_found() -> None:
    tree = ast.parse("class A:\n    '''Hears of the parent summary.'''\n\ndef recent_tail():\n    pass")
    found = [(line, word) for line, text in spoken(tree) for word in replaced(text)]
    assert found == [(4, "recent tail"), (2, "Hears"), (2, "parent summary")]


def test_the_code_has_no_second_word_for_a_thing() -> None:
    found = {
        f"{path}:{line}: {word}"
        for path, tree in trees().items()
        if not path.startswith(OTHERS_WORDS)
        for line, text in spoken(tree)
        for word in replaced(text)
    }
    assert found == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_no_second_word_for_a_thing(page: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert replaced(prose) == []


def test_no_module_is_named_by_an_image() -> None:
    assert {path.stem for path in PACKAGE.rglob("*.py")} & IMAGES == set()


def test_every_word_of_the_glossary_is_used_in_the_code() -> None:
    terms = glossary()
    assert len(terms) > 15
    texts = " ".join(path.read_text(encoding="utf-8").lower() for path in PACKAGE.rglob("*.py"))
    assert {term for term in terms if term not in texts and term.replace(" ", "_") not in texts} == set()


def test_every_table_of_the_database_is_named_by_its_words() -> None:
    """`storage.md` lists the tables; the nouns of the central ones stand in the glossary."""
    listed = re.findall(
        r"^\| `(\w+)`", (ROOT / "docs" / "storage.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    central = {
        "conversations": "conversation",
        "messages": "message",
        "message_parts": "part",
        "summaries": "summary",
        "context_items": "context item",
    }
    assert set(central) <= set(listed)
    assert set(central.values()) <= glossary()
