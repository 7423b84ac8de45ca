"""The files of a data set: their rows, and the hash that says which data a figure was measured on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from lcm_plugin.errors import InputError

Row = dict[str, Any]
_ENDINGS = (".json", ".jsonl")


def files_of(path: Path) -> list[Path]:
    """The JSON files of a data set, in the order of their names: the file itself, or those below a folder."""
    if path.is_file():
        return [path]
    found = sorted(file for ending in _ENDINGS for file in path.rglob(f"*{ending}"))
    if not found:
        raise InputError(f"{path}: no such file, and no folder with .json or .jsonl files")
    return found


def rows_of(path: Path) -> Iterator[Row]:
    """The objects of a file: a JSON array, one JSON object, or one object a line. Raises `InputError`."""
    text = path.read_text(encoding="utf-8")
    try:
        value = json.loads(text)
    except ValueError:
        value = [
            _line(path, number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()
        ]
    for row in value if isinstance(value, list) else [value]:
        if not isinstance(row, dict):
            raise InputError(f"{path}: expected objects, found {type(row).__name__}")
        yield row


def _line(path: Path, number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise InputError(f"{path}, line {number}: {error}") from error


def data_hash(path: Path) -> str:
    """SHA-256 over the names and bytes of all files of a data set."""
    whole = sha256()
    for file in files_of(path):
        whole.update(f"{file.relative_to(path).as_posix() if path.is_dir() else file.name}\0".encode())
        whole.update(file.read_bytes())
    return whole.hexdigest()
