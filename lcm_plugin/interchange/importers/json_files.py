"""Reading files of JSON in bounded memory: lines of objects, one large array, or one object spread over lines."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from lcm_plugin.errors import InputError

MAX_LINE_BYTES = 64 * 1024 * 1024
MAX_ELEMENT_CHARS = 256 * 1024 * 1024
_MAX_DOCUMENT_BYTES = 256 * 1024 * 1024
_CHUNK = 1 << 20
_NEAR_END = 16
_BLANK = re.compile(r"[ \t\r\n]*")
_BOM = b"\xef\xbb\xbf"


def _refuse_constant(name: str) -> None:
    """``NaN`` and ``Infinity`` are no JSON, whatever Python makes of them."""
    raise ValueError(f"{name} is no JSON value")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


@dataclass(frozen=True, slots=True)
class Line:
    """An object: its number (from 1), where its line begins (-1 without a line of its own), and its error.

    ``unfinished`` says that the file ends in the middle of this line. ``end`` is where the next line begins, -1 as
    long as none can.
    """

    number: int
    offset: int
    value: dict[str, Any]
    error: str = ""
    unfinished: bool = False
    end: int = -1


@dataclass(frozen=True, slots=True)
class View:
    """A part of a file of lines: its first ``head`` lines, and those from ``begin`` up to ``end``.

    ``lines`` is how many lines lie before ``begin``; ``end`` is None for the end of the file. Numbers and offsets of lines
    stay those of the whole file.
    """

    head: int
    begin: int
    lines: int
    end: int | None


_VIEWED: ContextVar[tuple[Path, View] | None] = ContextVar("viewed", default=None)


@contextmanager
def viewing(path: Path, view: View) -> Iterator[None]:
    """Until it ends, every `LineFile` of a path that this thread opens shows a part of the file."""
    token = _VIEWED.set((path, view))
    try:
        yield
    finally:
        _VIEWED.reset(token)


class LineFile:
    """A file of JSON objects, one a line. Opened for reading only; a context manager."""

    def __init__(self, path: Path, max_bytes: int = MAX_LINE_BYTES) -> None:
        self.path = path
        self._max = max_bytes
        viewed = _VIEWED.get()
        self._view = viewed[1] if viewed is not None and viewed[0] == path else None
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
        while True:
            offset, number = self._skip_unseen(offset, number)
            data = self._file.readline(self._max + 1)
            if not data or self._is_over(offset):
                return
            number += 1
            start = offset
            offset += len(data)
            if len(data) > self._max and not data.endswith(b"\n"):
                offset += self._skip_line()
                yield Line(number, start, {}, f"longer than {self._max:,} bytes", end=offset)
                continue
            if start == 0:
                data = data.removeprefix(_BOM)
            if data.strip():
                value, error = decode_object(data)
                whole = data.endswith(b"\n")
                yield Line(number, start, value, error, bool(error) and not whole, offset if whole else -1)

    def first_char(self) -> bytes:
        """The first character that is not blank, of the first 4,096."""
        self._file.seek(0)
        return self._file.read(4_096).removeprefix(_BOM).lstrip()[:1]

    def at(self, offset: int) -> dict[str, Any]:
        """The object of the line that begins at an offset which a pass over the file gave; also during a pass."""
        here = self._file.tell()
        self._file.seek(offset)
        data = self._file.readline(self._max + 1)
        self._file.seek(here)
        return decode_object(data.removeprefix(_BOM) if offset == 0 else data)[0]

    def _skip_unseen(self, offset: int, number: int) -> tuple[int, int]:
        """Passes over what a view leaves out; returns the offset and number of lines then."""
        view = self._view
        if view is None or number < view.head or offset >= view.begin:
            return offset, number
        self._file.seek(view.begin)
        return view.begin, view.lines

    def _is_over(self, offset: int) -> bool:
        return self._view is not None and self._view.end is not None and offset >= self._view.end

    def _skip_line(self) -> int:
        skipped = 0
        while data := self._file.readline(1 << 20):
            skipped += len(data)
            if data.endswith(b"\n"):
                break
        return skipped


def decode_object(data: bytes) -> tuple[dict[str, Any], str]:
    """A JSON object and an empty error, or an empty object and the error."""
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


def json_objects(path: Path) -> Iterator[Line]:
    """The objects of a file: of its lines, of its array, or the one that spans all of it."""
    with LineFile(path) as lines:
        sign = lines.first_char()
        if sign == b"[":
            yield from _elements(path)
            return
        first = next(iter(lines), None)
        if first is not None and first.error and sign == b"{" and (whole := _whole_object(path)) is not None:
            yield whole
            return
        yield from lines


def _elements(path: Path) -> Iterator[Line]:
    number = 0
    with path.open("rb") as file:
        try:
            for number, value in enumerate(array_elements(file, str(path)), 1):
                fits = isinstance(value, dict)
                yield Line(
                    number,
                    -1,
                    value if fits else {},
                    "" if fits else f"expected an object, found {type(value).__name__}",
                )
        except InputError as error:
            yield Line(number + 1, -1, {}, str(error))


def _whole_object(path: Path) -> Line | None:
    """A document that is one object spread over lines, with an error when it is too large to be read; None for any other."""
    if path.stat().st_size <= _MAX_DOCUMENT_BYTES:
        value, _ = decode_object(path.read_bytes().removeprefix(_BOM))
        return Line(1, -1, value) if value else None
    with path.open("rb") as file:
        spread = file.readline(16).removeprefix(_BOM).strip() == b"{"
    return Line(1, -1, {}, f"one object of more than {_MAX_DOCUMENT_BYTES:,} bytes") if spread else None


def array_elements(file: IO[bytes], name: str, max_chars: int = MAX_ELEMENT_CHARS) -> Iterator[Any]:
    """The elements of a file that holds one array. Raises `InputError` where it cannot be read on.

    An element that does not end in what was read so far is tried again with twice as much, so that the
    whole costs no more than twice one pass.
    """
    reader = _Reader(file, name)
    if reader.next_char() != "[":
        raise InputError(f"{name}: expected a JSON array")
    reader.skip(1)
    while (char := reader.next_char()) != "]":
        if char == "":
            raise InputError(f"{name}: the array ends before its closing bracket (line {reader.line})")
        if char == ",":
            reader.skip(1)
            continue
        yield reader.element(max_chars)


class _Reader:
    """A window on the file's text. The text before ``_at`` is dropped when more is read."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file = file
        self._name = name
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""
        self._at = 0
        self._line = 1
        self._at_end = False

    @property
    def line(self) -> int:
        """The line of the next character."""
        return self._line + self._text.count("\n", 0, self._at)

    def next_char(self) -> str:
        """The next character that is not blank, left in place; empty at the end."""
        while True:
            match = _BLANK.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text) or not self._more(_CHUNK):
                return self._text[self._at : self._at + 1]

    def skip(self, count: int) -> None:
        """Passes over some characters."""
        self._at += count

    def element(self, max_chars: int) -> Any:
        """The value that begins here."""
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if not self._may_go_on(error) or not self._more(max(_CHUNK, len(self._text) - self._at)):
                    raise self._broken(error.msg, error.pos) from error
                if len(self._text) > max_chars:
                    raise self._broken(
                        f"an element longer than {max_chars:,} characters", self._at
                    ) from error
                continue
            except (ValueError, RecursionError) as error:
                raise self._broken(str(error), self._at) from error
            if end == len(self._text) and not isinstance(value, (dict, list, str)) and self._more(_CHUNK):
                continue
            self._at = end
            return value

    def _may_go_on(self, error: json.JSONDecodeError) -> bool:
        return "Unterminated string" in error.msg or error.pos >= len(self._text) - _NEAR_END

    def _more(self, count: int) -> bool:
        if self._at_end:
            return False
        self._line = self.line
        self._text = self._text[self._at :]
        self._at = 0
        data = self._file.read(count)
        self._at_end = not data
        try:
            self._text += self._decoder.decode(data, final=self._at_end)
        except UnicodeDecodeError as error:
            raise self._broken("not UTF-8 text", len(self._text)) from error
        return not self._at_end

    def _broken(self, what: str, position: int) -> InputError:
        line = self._line + self._text.count("\n", 0, position)
        return InputError(f"{self._name}: broken JSON on line {line}: {what}")
