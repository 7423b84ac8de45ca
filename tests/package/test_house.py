"""How the package is laid out: sizes, and imports that go one way, those inside functions and under TYPE_CHECKING too."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from source_trees import PACKAGE, trees

TESTS = Path(__file__).resolve().parents[1]
MOST_FILES, MOST_LINES, MOST_FUNCTION_LINES, LEAST_MODULE_LINES = 20, 450, 80, 30
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the package by its name in an import."""
    return {_name(path): tree for path, tree in trees().items()}


def _name(path: str) -> str:
    parts = (PACKAGE.name, *path.removesuffix(".py").split("/"))
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(module: ast.Module) -> Iterator[str]:
    """The modules of the package that a module imports, wherever in it."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules())
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules() else node.module


def only_forwards(module: ast.Module) -> bool:
    """Whether a module has nothing of its own: imports, and functions that hand their arguments on to another one."""
    own = [node for node in module.body if not isinstance(node, ast.Import | ast.ImportFrom | ast.Expr)]
    return all(isinstance(node, Function) and _hands_on(node) for node in own)


def _hands_on(function: Function) -> bool:
    body = [node for node in function.body if not (isinstance(node, ast.Expr) and _is_text(node.value))]
    if len(body) != 1 or not isinstance(body[0], ast.Return | ast.Expr):
        return False
    call = body[0].value.value if isinstance(body[0].value, ast.Await) else body[0].value
    return isinstance(call, ast.Call) and all(isinstance(argument, ast.Name) for argument in call.args)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def test_no_folder_has_more_files_than_a_reader_takes_in() -> None:
    counts = Counter(path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
    assert {folder: count for folder, count in counts.items() if count > MOST_FILES} == {}


def test_no_file_is_too_long() -> None:
    lengths = {
        path.relative_to(PACKAGE).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for path in PACKAGE.rglob("*.py")
    }
    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}


def test_no_function_is_too_long() -> None:
    long = {
        f"{name}.{node.name}": length
        for name, module in modules().items()
        for node in ast.walk(module)
        if isinstance(node, Function)
        and (length := (node.end_lineno or 0) - node.lineno + 1) > MOST_FUNCTION_LINES
    }
    assert long == {}


def test_no_module_only_forwards() -> None:
    short = {
        name: module
        for name, module in modules().items()
        if module.body and (module.body[-1].end_lineno or 0) < LEAST_MODULE_LINES
    }
    packages = {_name(path) for path in trees() if path.endswith("__init__.py")}
    assert [name for name, module in short.items() if name not in packages and only_forwards(module)] == []


def test_no_two_test_files_share_a_name() -> None:
    """pytest imports them by name alone: the second one would end the whole run."""
    names = Counter(path.name for path in TESTS.rglob("test_*.py"))
    assert {name for name, count in names.items() if count > 1} == set()


def test_no_import_goes_round_in_a_circle() -> None:
    graph = {name: set(imported(module)) - {name} for name, module in modules().items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as circle:
        raise AssertionError(" -> ".join(circle.args[1])) from None


def test_a_circle_and_a_forwarding_module_would_be_seen() -> None:
    hidden = ast.parse("def late():\n    from lcm_plugin.engine import Engine\n    return Engine")
    typed = ast.parse("if TYPE_CHECKING:\n    import lcm_plugin.events\n    from lcm_plugin import plugin")
    assert list(imported(hidden)) == ["lcm_plugin.engine"]
    assert list(imported(typed)) == ["lcm_plugin.events", "lcm_plugin.plugin"]
    forwarding = "from a import b\n\ndef call(engine, name):\n    '''Text.'''\n    return engine.call(name)"
    assert only_forwards(ast.parse(forwarding))
    assert not only_forwards(ast.parse(forwarding + " + 1"))
    assert not only_forwards(ast.parse("LIMIT = 3"))
