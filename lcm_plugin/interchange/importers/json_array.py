"""Reading the elements of one large JSON array, one after the other, in the memory of the largest."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import IO, Any

from lcm_plugin.errors import InputError
from lcm_plugin.interchange.importers.lines import refuse_constant

MAX_ELEMENT_CHARS = 256 * 1024 * 1024
_CHUNK = 1 << 20
_NEAR_END = 16
_BLANK = re.compile(r"[ \t\r\n]*")


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
    """A window on the file's text. ``_text`` before ``_at`` is done with and dropped when more is read."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file = file
        self._name = name
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._json = json.JSONDecoder(parse_constant=refuse_constant)
        self._text = ""
        self._at = 0
        self._line = 1
        self._at_end = False

    @property
    def line(self) -> int:
        """The line of the next sign."""
        return self._line + self._text.count("\n", 0, self._at)

    def next_char(self) -> str:
        """The next sign that is not blank, left in place; empty at the end."""
        while True:
            match = _BLANK.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text) or not self._more(_CHUNK):
                return self._text[self._at : self._at + 1]

    def skip(self, count: int) -> None:
        """Passes over some signs."""
        self._at += count

    def element(self, max_chars: int) -> Any:
        """The value that begins here."""
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._at)
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
