"""Splits a text into items: its lines, the rows of a CSV, the elements of JSON, or the sections of Markdown."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from lcm_plugin.errors import InputError
from lcm_plugin.messages.sendable import parse_json

Split: TypeAlias = Literal["lines", "csv", "json", "markdown"]
# Where a piece stands in its text ("line 3"), and the piece.
Piece: TypeAlias = tuple[str, str]
_ENDINGS: dict[str, Split] = {
    "csv": "csv",
    "tsv": "csv",
    "json": "json",
    "md": "markdown",
    "markdown": "markdown",
}
_HEADING = re.compile(r"#{1,6}\s")
_FENCE = re.compile(r"\s*(```|~~~)")
_TAB_ENDING = "tsv"
_LARGEST_FIELD = 10_000_000


def split_of(name: str) -> Split:
    """How a file of this name is split when nobody says so."""
    return _ENDINGS.get(_ending(name), "lines")


def pieces(lines: Iterable[str], how: Split, name: str) -> Iterator[Piece]:
    """The items of a text that is read line by line; empty ones are left out.

    Raises `InputError` naming the file and the place where it is not what ``how`` says.
    """
    if how == "csv":
        return _rows(lines, name)
    if how == "json":
        return _elements(lines, name)
    return _sections(lines) if how == "markdown" else _lines(lines)


def _lines(lines: Iterable[str]) -> Iterator[Piece]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield f"line {number}", line.rstrip("\r\n")


def _rows(lines: Iterable[str], name: str) -> Iterator[Piece]:
    """Each row as an object by the names in the first one."""
    csv.field_size_limit(_LARGEST_FIELD)
    reader = csv.DictReader(lines, dialect=csv.excel_tab if _ending(name) == _TAB_ENDING else csv.excel)
    try:
        for number, row in enumerate(reader, 1):
            more = row.pop(None, None)
            yield f"row {number}", json.dumps(row | ({"…": more} if more else {}), ensure_ascii=False)
    except csv.Error as error:
        raise InputError(f"{name}, line {reader.line_num}: {error}") from error


def _elements(lines: Iterable[str], name: str) -> Iterator[Piece]:
    """The elements of a JSON array, or of the only array in an object; else a value a line (JSON Lines)."""
    text = "".join(lines)
    try:
        value = parse_json(text)
    except ValueError:
        yield from _json_lines(text, name)
        return
    if isinstance(value, dict):
        arrays = [inner for inner in value.values() if isinstance(inner, list)]
        value = arrays[0] if len(arrays) == 1 else [value]
    for number, element in enumerate(value if isinstance(value, list) else [value], 1):
        yield (
            f"item {number}",
            element if isinstance(element, str) else json.dumps(element, ensure_ascii=False),
        )


def _json_lines(text: str, name: str) -> Iterator[Piece]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            parse_json(line)
        except ValueError as error:
            raise InputError(
                f"{name}, line {number}: neither a JSON document nor JSON Lines: {error}"
            ) from error
        yield f"line {number}", line.strip()


def _sections(lines: Iterable[str]) -> Iterator[Piece]:
    """From one heading to the next; ``#`` inside of code fences is no heading."""
    start, section, fenced = 1, list[str](), ""
    for number, line in enumerate(lines, 1):
        fence = _FENCE.match(line)
        if fence and fenced in ("", fence[1]):
            fenced = "" if fenced else fence[1]
        if not fenced and not fence and _HEADING.match(line):
            yield from _section(start, section)
            start, section = number, []
        section.append(line)
    yield from _section(start, section)


def _section(start: int, section: list[str]) -> Iterator[Piece]:
    text = "".join(section).strip()
    if text:
        yield f"line {start}", text


def _ending(name: str) -> str:
    return name.rpartition(".")[2].lower() if "." in name else ""
