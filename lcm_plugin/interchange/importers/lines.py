"""Reading JSON lines with bounded memory: one line at a time, none longer than a limit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from lcm_plugin.errors import InputError

MAX_LINE_BYTES = 64 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"


def refuse_constant(name: str) -> None:
    """``NaN`` and ``Infinity`` are no JSON, whatever Python makes of them."""
    raise ValueError(f"{name} is no JSON value")


_DECODER = json.JSONDecoder(parse_constant=refuse_constant)


@dataclass(frozen=True, slots=True)
class Line:
    """One line that is not blank: its number (from 1), where it begins, and its value or what is wrong."""

    number: int
    offset: int
    value: dict[str, Any]
    error: str = ""


class LineFile:
    """A file of JSON objects, one a line. Opened for reading only; a context manager."""

    def __init__(self, path: Path, max_bytes: int = MAX_LINE_BYTES) -> None:
        self.path = path
        self._max = max_bytes
        try:
            self._file: IO[bytes] = path.open("rb")
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or error}") from error

    def __enter__(self) -> LineFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[Line]:
        """All lines, from the beginning."""
        self._file.seek(0)
        offset = number = 0
        while data := self._file.readline(self._max + 1):
            number += 1
            start = offset
            offset += len(data)
            if len(data) > self._max and not data.endswith(b"\n"):
                offset += self._skip_line()
                yield Line(number, start, {}, f"longer than {self._max:,} bytes")
                continue
            if start == 0:
                data = data.removeprefix(_BOM)
            if data.strip():
                value, error = decode_object(data)
                yield Line(number, start, value, error)

    def at(self, offset: int) -> dict[str, Any]:
        """The object of the line that begins at an offset which a pass over the file gave; also during a pass."""
        here = self._file.tell()
        self._file.seek(offset)
        data = self._file.readline(self._max + 1)
        self._file.seek(here)
        return decode_object(data.removeprefix(_BOM) if offset == 0 else data)[0]

    def _skip_line(self) -> int:
        skipped = 0
        while data := self._file.readline(1 << 20):
            skipped += len(data)
            if data.endswith(b"\n"):
                break
        return skipped


def decode_object(data: bytes) -> tuple[dict[str, Any], str]:
    """A JSON object, or an empty one and what is wrong."""
    try:
        value = _DECODER.decode(data.decode("utf-8").strip())
    except UnicodeDecodeError as error:
        return {}, f"not UTF-8 text at byte {error.start}"
    except json.JSONDecodeError as error:
        return {}, f"broken JSON at column {error.colno}: {error.msg}"
    except (ValueError, RecursionError) as error:
        return {}, f"JSON that cannot be read: {error}"
    if not isinstance(value, dict):
        return {}, f"expected an object, found {type(value).__name__}"
    return value, ""
