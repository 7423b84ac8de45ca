"""Source code: imports and definitions with their lines.

Python is parsed with `ast`; other languages are tokenised by Pygments, whose token types name
definitions in most languages, helped by the keyword before a name.
"""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import re2

from lcm_plugin.files.explore.base import FileOutline, TextSample, clip, listed, one_line
from lcm_plugin.text import plural

_PYTHON_CHARS = 1 << 20
_PYTHON_NESTING = 80
_CODE_CHARS = 256 << 10
_LINE_CHARS = 400
_MAX_DEFINITIONS = 400
_DEFINING = frozenset(
    re.findall(
        r"\S+",
        "class interface struct enum trait impl func fn function def module namespace type object record "
        "protocol extension mod macro sub proc fun method actor union contract",
    )
)
_LEXER_NAMES = frozenset(
    re.findall(
        r"\S+",
        "bash c cpp csharp java javascript jsx typescript tsx go rust ruby php kotlin swift scala perl lua r "
        "haskell elixir erlang clojure dart groovy objective-c powershell makefile docker zig nim julia "
        "ocaml fsharp vbnet solidity protobuf graphql terraform css scss",
    )
)
_SELF = frozenset({"Self", "self", "this"})
_SHEBANG = re.compile(r"#!.{0,80}?\b(python|bash|sh|zsh|node|ruby|perl|php|lua|Rscript)[\d.]*\b")
_SHEBANG_LEXERS = {"sh": "bash", "zsh": "bash", "node": "javascript", "Rscript": "r"}
# Pairs of signs that both must occur; RE2, so that no text makes them slow.
_MARKS = tuple(
    (name, re2.compile(f"(?m){first}"), re2.compile(f"(?m){second}"))
    for name, first, second in (
        ("go", r"^package \w+\s*$", r"^(?:func|import|type) "),
        (
            "rust",
            r"^[ \t]*(?:pub )?(?:fn|impl|mod|struct|trait)\b.*[{;]\s*$",
            r"^use \w|let (?:mut )?\w|->|fn main",
        ),
        ("cpp", r"^#include\s*[<\"]", r"^(?:class|namespace|template)\b|std::"),
        ("c", r"^#include\s*[<\"]", r"[{;]\s*$"),
        ("java", r"^(?:package|import) [\w.]+(?:\.\*)?;\s*$", r"\b(?:class|interface|enum|record) \w"),
        ("csharp", r"^using [\w.]+;\s*$", r"\b(?:namespace|class|interface|struct) \w"),
        ("php", r"\A\s*<\?php\b", r"\$\w"),
        (
            "typescript",
            r"^(?:import .{1,200} from ['\"]|export )",
            r"^[ \t]*(?:export )?(?:interface|type|enum) \w|: (?:string|number|boolean)\b",
        ),
        (
            "javascript",
            r"^(?:import .{1,200} from ['\"]|export |const \w{1,80} = require\(|['\"]use strict)"
            r"|^[ \t]*(?:async )?function\*? \w",
            r"\b(?:const|let|var|function)\b|=>",
        ),
        ("ruby", r"^[ \t]*(?:require|module|class) ['\"\w]", r"^[ \t]*end\s*$"),
    )
)
_PYTHON = re2.compile(r"(?m)^(?:import \w|from [\w.]+ import |(?:async )?def \w+\(|class \w+[(:]|@\w)")
_DIFF = re2.compile(r"(?m)^(?:diff --git |--- \S.*\n\+\+\+ |Index: )")
_METHOD = (
    r"(?m)^[ \t]+(?:(?:async|static|private|public|protected|override|get|set) )*"
    r"([\w$#]+)\([^;\n]{0,300}\{[ \t]*$"
)
# Definitions that Pygments gives no token type of their own.
_MORE = {
    "bash": re2.compile(r"(?m)^[ \t]*([\w:.-]+)[ \t]*\(\)"),
    "javascript": re2.compile(_METHOD),
    "typescript": re2.compile(_METHOD),
    "go": re2.compile(r"(?m)^func \([^)\n]{1,120}\) (\w+)"),
    "cpp": re2.compile(r"(?m)^[\w:<>*& ,~]{0,120}::(~?\w+)\([^;\n]*$"),
}
_CONTROL = frozenset({"if", "for", "while", "switch", "catch", "with", "function", "return"})


def explore_code(sample: TextSample) -> FileOutline | None:
    """Source code of a language known by its name, type or text; None for anything else."""
    language = _language(sample)
    if language == "diff":
        return explore_diff(sample)
    if language == "python":
        return _explore_python(sample) or _explore_tokens(sample, "python")
    return _explore_tokens(sample, language) if language else None


def looks_like_code(sample: TextSample) -> bool:
    """Whether the name or the text is that of a programming language."""
    return bool(_language(sample))


def _language(sample: TextSample) -> str:
    head = sample.head[:65_536]
    named = _by_name(sample)
    if named:
        return named
    shebang = _SHEBANG.match(head)
    if shebang:
        return _SHEBANG_LEXERS.get(shebang.group(1), shebang.group(1))
    if _DIFF.search(head[:4_096]):
        return "diff"
    if (
        len(_PYTHON.findall(head)) >= 3
        and not head.lstrip().startswith(("#include", "package "))
        and ":" in head
    ):
        return "python"
    return next((name for name, first, second in _MARKS if first.search(head) and second.search(head)), "")


def _by_name(sample: TextSample) -> str:
    if sample.extension in ("py", "pyi", "pyw") or sample.mime in ("text/x-python", "application/x-python"):
        return "python"
    if sample.extension in ("diff", "patch"):
        return "diff"
    if not sample.extension and not sample.mime:
        return ""
    from pygments.lexers import find_lexer_class_for_filename, get_lexer_for_mimetype
    from pygments.util import ClassNotFound

    lexer: Any = find_lexer_class_for_filename(sample.name.rpartition("/")[2]) if sample.extension else None
    if lexer is None and sample.mime:
        try:
            lexer = get_lexer_for_mimetype(sample.mime)
        except ClassNotFound:
            return ""
    return next((alias for alias in getattr(lexer, "aliases", ()) if alias in _LEXER_NAMES), "")


def _explore_python(sample: TextSample) -> FileOutline | None:
    text = sample.head.lstrip("\ufeff")
    if not sample.whole or len(text) > _PYTHON_CHARS or _nesting(text) > _PYTHON_NESTING:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
        return FileOutline("python", "text/x-python", _python_lines(tree, sample.line_count))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _python_lines(tree: ast.Module, line_count: int) -> list[str]:
    nodes = list(ast.walk(tree))
    classes = sum(isinstance(node, ast.ClassDef) for node in nodes)
    functions = sum(isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) for node in nodes)
    imports = sorted(set(_imports(nodes)))
    docstring = ast.get_docstring(tree)
    lines = [
        f"Python: {plural(line_count, 'line')}, {plural(classes, 'class')}, {plural(functions, 'function')}."
    ]
    lines += [f"Says: {one_line(docstring, 240)}"] if docstring else []
    lines += [f"Imports: {listed(imports, 24)}"] if imports else []
    return lines + list(_definitions(tree.body, 0))


def _nesting(text: str) -> int:
    """The depth of brackets and runs of prefix operators, which can exhaust the parser's C stack."""
    depth = deepest = run = 0
    for sign in text:
        if sign in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif sign in ")]}":
            depth = max(depth - 1, 0)
        run = run + 1 if sign in "-+~!" else 0
        deepest = max(deepest, run - 100)
    return deepest


def _imports(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


def _definitions(body: list[ast.stmt], level: int) -> Iterator[str]:
    indent = "  " * level + "- "
    for node in body:
        if isinstance(node, ast.ClassDef):
            bases = ", ".join(one_line(ast.unparse(base), 40) for base in node.bases[:6])
            yield f"{indent}class {node.name}{f'({bases})' if bases else ''} (line {node.lineno:,})"
            if level < 3:
                yield from _definitions(node.body, level + 1)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            keyword = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
            yield f"{indent}{keyword} {node.name}({_arguments(node.args)}) (line {node.lineno:,})"
        elif level == 0 and isinstance(node, (ast.Assign, ast.AnnAssign)):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and target.id.isupper():
                yield f"{indent}{target.id} (line {node.lineno:,})"


def _arguments(arguments: ast.arguments) -> str:
    names = [item.arg for item in (*arguments.posonlyargs, *arguments.args)]
    names += [f"*{arguments.vararg.arg}"] if arguments.vararg else []
    names += [item.arg for item in arguments.kwonlyargs]
    names += [f"**{arguments.kwarg.arg}"] if arguments.kwarg else []
    return clip(", ".join(names), 80)


def _explore_tokens(sample: TextSample, language: str) -> FileOutline | None:
    from pygments.lexers import get_lexer_by_name

    lines = [line[:_LINE_CHARS] for line in sample.head[:_CODE_CHARS].split("\n")]
    text = "\n".join(lines)
    lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    positions = set(_token_definitions(lexer.get_tokens_unprocessed(text)))
    if language in _MORE:
        matches = _MORE[language].finditer(text)
        positions |= {match.start(1) for match in matches if match.group(1) not in _CONTROL}
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    rows = sorted({bisect_right(starts, position) for position in positions})
    part = (
        ""
        if len(sample.head) <= _CODE_CHARS
        else f"; definitions are of the first {plural(len(lines), 'line')}"
    )
    found = [
        f"{lexer.name} code: {plural(sample.line_count, 'line')}, {plural(len(rows), 'definition')}{part}."
    ]
    if not rows or rows[0] > 1:
        found.append(f"First line: {one_line(next((line for line in lines if line.strip()), ''), 120)}")
    found += [f"- {one_line(lines[row - 1], 100).rstrip(' {')} (line {row:,})" for row in rows]
    return FileOutline(language, lexer.mimetypes[0] if lexer.mimetypes else f"text/x-{language}", found)


def _token_definitions(tokens: Any) -> Iterator[int]:
    """The positions of defined names: those that a lexer marks, and names after a defining keyword."""
    from pygments.token import Token

    seen: set[str] = set()
    keyword = ""
    for position, kind, value in tokens:
        word = value.strip()
        if not word or kind in Token.Comment:
            continue
        defined = kind in Token.Name.Class or (
            kind in Token.Name.Function and kind not in Token.Name.Function.Magic
        )
        named = kind in Token.Name or (kind in Token.Text and word.isidentifier())
        if (defined or (named and keyword)) and word not in seen and word not in _SELF:
            seen.add(word)
            yield position
            if len(seen) >= _MAX_DEFINITIONS:
                return
        keyword = word if word in _DEFINING and kind not in Token.Literal else ""


_DIFF_FILE = re.compile(r"(?:\+\+\+|Index:) (?:b/)?(\S{1,300})")


def explore_diff(sample: TextSample) -> FileOutline | None:
    """A unified diff: files with lines added and removed."""
    files: dict[str, list[int]] = {}
    current: list[int] | None = None
    for line in sample.head.split("\n"):
        match = _DIFF_FILE.match(line)
        if match:
            current = files.setdefault(match.group(1), [0, 0])
        elif current is not None and line[:1] in ("+", "-") and not line.startswith(("+++", "---")):
            current[line[0] == "-"] += 1
    if not files:
        return None
    added, removed = (sum(counts[side] for counts in files.values()) for side in (0, 1))
    lines = [f"Diff: {plural(len(files), 'file')}, {added:,} lines added, {removed:,} removed."]
    lines += [f"- {one_line(name, 120)} +{plus:,} -{minus:,}" for name, (plus, minus) in files.items()]
    return FileOutline("diff", "text/x-diff", lines)
