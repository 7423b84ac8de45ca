"""What the source may not do: run text as code, unpickle, start shells, or build SQL from what others said."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from source_trees import trees

FORBIDDEN_MODULES = {"pickle", "shelve", "dill", "cloudpickle", "xmlrpc", "telnetlib"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
NETWORK_MODULES = {"socket", "ssl", "http", "urllib", "httpx", "requests", "aiohttp", "websockets"}
# What talks to a model, a server or a person's browser says so by where it lives.
NETWORK_PLACES = ("hosts/", "summarize/litellm_client.py", "cli/", "web/server.py")
EXECUTORS = {"execute", "executemany", "_all", "_one", "_run", "_many", "executescript"}


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def test_nothing_unpickles() -> None:
    found = [(file, name) for file, tree in trees().items() for name in imported(tree)]
    assert [one for one in found if one[1].partition(".")[0] in FORBIDDEN_MODULES] == []


def test_marshal_only_writes() -> None:
    used = {
        (file, node.attr)
        for file, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "marshal"
    }
    assert used == {("messages/conversions.py", "dumps")}
    assert not any(
        isinstance(node, ast.ImportFrom) and node.module == "marshal"
        for _, tree in trees().items()
        for node in ast.walk(tree)
    )


def test_no_text_is_run_as_code_and_no_shell_is_started() -> None:
    wrong = []
    for file, tree in trees().items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            if isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS:
                wrong.append((file, node.lineno, node.func.id))
            if isinstance(node.func, ast.Attribute) and node.func.attr in ("system", "popen"):
                wrong.append((file, node.lineno, node.func.attr))
            if any(word.arg == "shell" and ast.unparse(word.value) != "False" for word in node.keywords):
                wrong.append((file, node.lineno, "shell"))
            if isinstance(node.func, ast.Attribute) and ast.unparse(node.func) in (
                "yaml.load",
                "yaml.full_load",
            ):
                wrong.append((file, node.lineno, "yaml.load"))
    # The terminal chat has a shell among its tools, which a person switches on.
    assert {(file, what) for file, _, what in wrong} <= {("hosts/chat/tools.py", "shell")}


def test_only_the_parts_that_say_so_can_reach_a_network() -> None:
    found = [
        (file, name)
        for file, tree in trees().items()
        for name in imported(tree)
        if name.partition(".")[0] in NETWORK_MODULES and name != "urllib.parse"
    ]
    elsewhere = {file for file, _ in found if not file.startswith(NETWORK_PLACES)}
    assert {name for file, name in found if file in elsewhere} <= {"socket"}
    # A lease names the machine that holds it, which asks nobody.
    used = {
        node.attr
        for file, tree in trees().items()
        if file in elsewhere
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "socket"
    }
    assert used <= {"gethostname"}


def interpolated(node: ast.expr) -> Iterator[ast.expr]:
    """What is put into a statement's text."""
    for part in ast.walk(node):
        if isinstance(part, ast.FormattedValue):
            yield part.value


def test_no_statement_is_built_with_percent_or_format() -> None:
    wrong = []
    for file, tree in trees().items():
        if not file.startswith("store/"):
            continue
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if node.func.attr not in EXECUTORS or not node.args:
                continue
            first = node.args[0]
            if isinstance(first, ast.BinOp) and isinstance(first.op, ast.Mod):
                wrong.append((file, node.lineno, ast.unparse(first)))
    assert wrong == []


def test_sql_is_executed_in_the_store_alone() -> None:
    wrong = []
    for file, tree in trees().items():
        if file.startswith(("store/", "importers/", "hosts/", "ingest/explore/")):
            continue
        wrong += [
            (file, node.lineno)
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "execute"
        ]
    assert wrong == []


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_no_value_of_a_record_or_a_session_is_put_into_a_statement(store: str) -> None:
    """Values go beside a statement. Into its text go only this package's own constants and conditions."""
    outside = {"session", "conversation", "message", "record", "summary", "now", "text", "pattern"}
    wrong = []
    for file, tree in trees().items():
        if not file.startswith(f"store/{store}/"):
            continue
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if node.func.attr not in EXECUTORS or not node.args:
                continue
            for value in interpolated(node.args[0]):
                roots = {part.id for part in ast.walk(value) if isinstance(part, ast.Name)}
                if roots & outside:
                    wrong.append((file, node.lineno, ast.unparse(value)))
    assert wrong == []
