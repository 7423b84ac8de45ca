"""Statements are written once for both databases, and one place decides whether a database is on a server."""

from __future__ import annotations

import ast

from source_trees import trees

# The place that decides, and one that hides passwords in any URL.
READERS_OF_URLS = {"store/open.py", "config/explain.py"}


def text_of(node: ast.AST) -> str:
    """A text as it stands in the code, with ``{}`` for what is put into it."""
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(value) if isinstance(value, ast.Constant) else "{}" for value in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def statements(folder: str) -> set[str]:
    """What one database's modules write of SQL."""
    modules = [tree for path, tree in trees().items() if path.startswith(f"store/{folder}/")]
    nodes = [node for tree in modules for node in ast.walk(tree)]
    pieces = {id(value) for node in nodes if isinstance(node, ast.JoinedStr) for value in node.values}
    texts = {" ".join(text_of(node).split()) for node in nodes if id(node) not in pieces}
    return {text for text in texts if text.startswith(("SELECT ", "INSERT ", "UPDATE ", "DELETE "))}


def test_no_statement_stands_in_the_modules_of_both_databases() -> None:
    ours, theirs = statements("sqlite"), statements("postgres")
    assert len(ours) > 10
    assert len(theirs) > 10
    assert not {text for text in ours & theirs if len(text) > 40}


def test_one_place_decides_whether_a_database_is_on_a_server() -> None:
    found = {
        path
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        and isinstance(node.left, ast.Constant)
        and node.left.value == "://"
        and isinstance(node.ops[0], (ast.In, ast.NotIn))
    }
    assert found == READERS_OF_URLS
