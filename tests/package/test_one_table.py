"""What is a call, a result, reasoning or words is decided in one table."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from source_trees import trees

from lcm_plugin.messages.table import REASONING_KEYS, TYPES, Kind

TABLE = "messages/table.py"
KINDS = (Kind.TEXT, Kind.REASONING, Kind.CALL, Kind.RESULT)
# Each translates one format into another, block type by block type.
TRANSLATORS = {
    "hosts/openai_agents/items.py",
    "hosts/openai_agents/shown.py",
    "interchange/importers/sources/codex.py",
    "interchange/importers/sources/codex_threads.py",
    "interchange/importers/sources/hermes.py",
}


def lists_of_types(tree: ast.AST) -> Iterator[tuple[int, list[str]]]:
    """Literals that name two block types of one kind, or two keys of reasoning, by line."""
    for node in ast.walk(tree):
        elements = node.elts if isinstance(node, (ast.Tuple, ast.Set, ast.List)) else ()
        keys = node.keys if isinstance(node, ast.Dict) else ()
        names = [one.value for one in (*elements, *keys) if isinstance(one, ast.Constant)]
        texts = [name for name in names if isinstance(name, str)]
        groups = [[name for name in texts if name in TYPES and TYPES[name].kind is kind] for kind in KINDS]
        groups.append([name for name in texts if name in REASONING_KEYS])
        found = next((group for group in groups if len(group) > 1), None)
        if found:
            yield node.lineno, found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('X = frozenset({"tool_use", "function_call"})', True),
        ('kind in ("thinking", "reasoning")', True),
        ('{"type": "tool_use", "id": 1}', False),
        ('kind == "tool_use"', False),
    ],
)
def test_a_second_list_would_be_found(source: str, found: bool) -> None:
    assert bool(list(lists_of_types(ast.parse(source)))) is found


def test_no_module_has_a_list_of_block_types_of_its_own() -> None:
    second = {
        f"{path}:{line}: {names}"
        for path, tree in trees().items()
        if path != TABLE and path not in TRANSLATORS
        for line, names in lists_of_types(tree)
    }
    assert second == set()


def test_every_translator_still_needs_its_exception() -> None:
    for name in TRANSLATORS:
        assert any(lists_of_types(trees()[name]))
