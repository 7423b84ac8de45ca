"""CSV and TSV columns, and the statements of an SQL script."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter

import re2

from lcm_plugin.files.explore.base import FileOutline, TextSample, clip, listed, one_line
from lcm_plugin.text import plural

_DELIMITERS = {",": "csv", "\t": "tsv", ";": "csv", "|": "csv"}
_NUMBER = re.compile(r"[+-]?(?:\d{1,30}(?:[.,]\d{1,30})?|\.\d{1,30})(?:[eE][+-]?\d{1,4})?")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}.{0,20})?|\d{1,2}[./]\d{1,2}[./]\d{2,4}")
_ROWS = 20_000
_COLUMNS = 40


def guess_delimiter(sample: TextSample) -> str | None:
    """The delimiter that splits the first lines into one same number of columns, if there is one."""
    lines = [line for line in sample.head[:65_536].split("\n")[:40] if line.strip()]
    if not sample.whole or len(sample.head) > 65_536:
        lines = lines[:-1]
    if len(lines) < 2:
        return None
    best, columns = None, 1
    for delimiter in _DELIMITERS:
        widths = [len(row) for row in _rows("\n".join(lines), delimiter)]
        # Prose has commas too, though never the same number on nearly every line.
        usual, times = Counter(widths).most_common(1)[0] if widths else (0, 0)
        if usual > columns and times >= 0.9 * len(widths) and len(widths) >= 2:
            best, columns = delimiter, usual
    return best


def explore_table(sample: TextSample, delimiter: str | None = None) -> FileOutline | None:
    """A table: columns with types, ranges and samples, and the number of rows."""
    delimiter = delimiter or guess_delimiter(sample)
    if delimiter is None:
        return None
    rows = _rows(sample.head, delimiter)[: _ROWS + 1]
    if not sample.whole and rows:
        rows.pop()
    if len(rows) < 2:
        return None
    header, body = (rows[0], rows[1:]) if _is_header(rows) else ([], rows)
    complete = sample.whole and len(rows) <= _ROWS
    count = f"{len(body):,}" if complete else f"about {max(sample.line_count - bool(header), 0):,}"
    width = Counter(len(row) for row in rows).most_common(1)[0][0]
    names = [header[index] if index < len(header) else f"column {index + 1}" for index in range(width)]
    kind = _DELIMITERS[delimiter]
    odd = sum(len(row) != width for row in body)
    lines = [
        f"{kind.upper()} table: {count} rows, {plural(width, 'column')}"
        f"{'' if header else ', no header line'}{', delimiter ' + repr(delimiter) if kind == 'csv' else ''}.",
        f"Columns: {clip(listed([one_line(name, 40) for name in names], _COLUMNS), 390)}",
    ]
    if not complete:
        lines.append(f"Values below are of the first {plural(len(body), 'row')}.")
    if odd:
        lines.append(f"{plural(odd, 'row')} with another number of columns.")
    for index, name in enumerate(names[:_COLUMNS]):
        lines.append(f"- {one_line(name, 60)}: {_column([row[index] for row in body if index < len(row)])}")
    lines.append(f"First row: {one_line(delimiter.join(body[0]), 200)}")
    return FileOutline(kind, "text/tab-separated-values" if kind == "tsv" else "text/csv", lines)


def _rows(text: str, delimiter: str) -> list[list[str]]:
    rows: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            if row:
                rows.append(row)
            if len(rows) > _ROWS:
                break
    except csv.Error:
        return rows
    return rows


def _is_header(rows: list[list[str]]) -> bool:
    """Whether the first row names columns: all filled, distinct, none a number, unlike the other rows."""
    first = [cell.strip() for cell in rows[0]]
    if not all(first) or len(set(first)) < len(first) or any(_NUMBER.fullmatch(cell) for cell in first):
        return False
    return not any(_DATE.fullmatch(cell) for cell in first) and max(map(len, first)) <= 80


def _column(cells: list[str]) -> str:
    filled = [cell.strip() for cell in cells if cell.strip()]
    empty = f", {len(cells) - len(filled):,} empty" if len(filled) < len(cells) else ""
    if not filled:
        return "always empty"
    if all(_NUMBER.fullmatch(cell) for cell in filled):
        numbers = [float(cell.replace(",", ".")) for cell in filled]
        kind = "number" if any("." in cell or "," in cell for cell in filled) else "integer"
        return f"{kind}, {min(numbers):.15g} to {max(numbers):.15g}{empty}"
    if all(_DATE.fullmatch(cell) for cell in filled):
        return f"date, {min(filled)} to {max(filled)}{empty}"
    distinct = Counter(filled)
    if len(distinct) <= 6 and len(distinct) < len(filled):
        shares = [f"{one_line(value, 30)} ({count:,})" for value, count in distinct.most_common()]
        return f"text, {', '.join(shares)}{empty}"
    examples = ", ".join(f'"{one_line(cell, 30)}"' for cell in list(distinct)[:3])
    return f"text, {len(distinct):,} distinct, e.g. {examples}{empty}"


_STATEMENT = re2.compile(
    r"(?im)^\s*(CREATE(?:\s+OR\s+REPLACE)?(?:\s+(?:TEMP|TEMPORARY|UNIQUE|VIRTUAL|MATERIALIZED))*\s+"
    r"(?:TABLE|VIEW|INDEX|TRIGGER|FUNCTION|PROCEDURE|TYPE|SCHEMA|DATABASE|SEQUENCE|EXTENSION)"
    r"|INSERT(?:\s+OR\s+\w+)?\s+INTO|REPLACE\s+INTO|UPDATE|DELETE\s+FROM|SELECT|WITH|ALTER\s+TABLE"
    r"|DROP\s+\w+|COPY|GRANT|BEGIN|COMMIT|PRAGMA|SET|MERGE\s+INTO|TRUNCATE)\b"
    r"(?:\s+IF\s+(?:NOT\s+)?EXISTS)?\s*([\w.\"`\[\]]{0,120})"
)
_SQL_START = re2.compile(
    r"(?i)^\s*(?:(?:--[^\n]*|/\*[^*]{0,1000}\*/|\s+)\s*)*"
    r"(?:CREATE|INSERT|SELECT|DROP|ALTER|BEGIN|PRAGMA|SET|UPDATE|DELETE|WITH|COPY)\s"
)
_COLUMN_NAME = re2.compile(r"^\s*[\"`\[]?(\w+)[\"`\]]?\s+\w")
_CONSTRAINTS = frozenset(
    {"primary", "foreign", "unique", "check", "constraint", "key", "index", "exclude", "like"}
)


def looks_like_sql(sample: TextSample) -> bool:
    """Whether a text starts with an SQL statement and ends some with semicolons."""
    start = sample.head[:16_384]
    return bool(_SQL_START.search(start)) and ";" in start and bool(_STATEMENT.search(start))


def explore_sql(sample: TextSample) -> FileOutline | None:
    """An SQL script: statements by kind, tables with their columns, rows inserted per table."""
    text = sample.head
    kinds: Counter[str] = Counter()
    inserts: Counter[str] = Counter()
    tables: list[str] = []
    for match in _STATEMENT.finditer(text):
        verb = " ".join(match.group(1).upper().split())
        name = match.group(2).strip('"`[]')
        kinds[verb] += 1
        if verb.startswith(("INSERT", "REPLACE")):
            inserts[name] += 1
        elif verb.startswith("CREATE") and verb.endswith("TABLE") and len(tables) < 60:
            tables.append(f"- table {name}: {listed(_columns(text, match.end()), 20) or 'no columns read'}")
    if not kinds:
        return None
    part = "" if sample.whole else " in the part read"
    lines = [f"SQL script: {plural(sum(kinds.values()), 'statement')}{part}."]
    lines.append(f"Statements: {', '.join(f'{verb} {count:,}' for verb, count in kinds.most_common(10))}")
    if inserts:
        lines.append(f"Inserts: {listed([f'{name} {count:,}' for name, count in inserts.most_common()], 12)}")
    return FileOutline("sql", "application/sql", lines + tables)


def _columns(text: str, position: int) -> list[str]:
    """Column names of a CREATE TABLE whose name ends at ``position``."""
    start = text.find("(", position, position + 200)
    if start < 0:
        return []
    depth, piece, pieces = 0, start + 1, []
    for index in range(start, min(len(text), start + 20_000)):
        sign = text[index]
        depth += (sign == "(") - (sign == ")")
        if depth == 0 or (depth == 1 and sign == ","):
            pieces.append(text[piece:index])
            piece = index + 1
        if depth == 0:
            break
    names = [match.group(1) for match in map(_COLUMN_NAME.search, pieces) if match]
    return [name for name in names if name.lower() not in _CONSTRAINTS]
