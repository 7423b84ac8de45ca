"""The formats that can be imported, and how a file's format is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from lcm_plugin.errors import InputError
from lcm_plugin.interchange.importers import (
    chatgpt,
    claude_code,
    codex,
    hermes,
    hermes_lcm,
    lossless_claw,
    openai,
    openclaw,
)
from lcm_plugin.interchange.importers.json_array import array_elements
from lcm_plugin.interchange.importers.lines import LineFile, decode_object
from lcm_plugin.interchange.importers.packed import unpacked
from lcm_plugin.interchange.importers.records import Record
from lcm_plugin.store.foreign import ForeignDatabase, is_sqlite

_MOST_LINES = 20
_MAX_DOCUMENT = 64 * 1024 * 1024
SUFFIXES = frozenset({".jsonl", ".json", ".zip", ".db", ".sqlite", ".sqlite3"})


@dataclass(frozen=True, slots=True)
class Format:
    """A format: its name, what a person calls it, and the function that reads a file."""

    name: str
    title: str
    read: Callable[[Path], Iterator[Record]]


FORMATS = {
    one.name: one
    for one in (
        Format(openai.NAME, "OpenAI-style messages (JSON, JSON lines)", openai.read),
        Format(claude_code.NAME, "Claude Code transcript", claude_code.read),
        Format(codex.NAME, "Codex rollout", codex.read),
        Format(openclaw.NAME, "OpenClaw transcript", openclaw.read),
        Format(chatgpt.NAME, "ChatGPT data export", chatgpt.read),
        Format(hermes.NAME, "Hermes state.db", hermes.read),
        Format(lossless_claw.NAME, "lossless-claw database", lossless_claw.read),
        Format(hermes_lcm.NAME, "hermes-lcm database", hermes_lcm.read),
    )
}
_DATABASES = (hermes_lcm, lossless_claw, hermes)
# The first that recognises a file has it: OpenAI's messages have the least to be known by.
_FILES = (openclaw, codex, chatgpt, claude_code, openai)


def check_file(path: Path) -> None:
    """Raises `InputError` when there is no file to read."""
    if not path.is_file():
        raise InputError(f"{path}: {'not a file' if path.exists() else 'there is no such file'}")


def format_of(path: Path) -> Format | None:
    """The format of a file; None when none fits. Raises `InputError` for a file that cannot be read."""
    check_file(path)
    with unpacked(path) as plain:
        return _recognised(plain)


def _recognised(path: Path) -> Format | None:
    if is_sqlite(path):
        with ForeignDatabase(path) as database:
            found = next((one for one in _DATABASES if one.recognises_database(database)), None)
        return FORMATS[found.NAME] if found else None
    if chatgpt.holds_export(path):
        return FORMATS[chatgpt.NAME]
    for value in _first_values(path):
        for module in _FILES:
            if module.recognises(value, path):
                return FORMATS[module.NAME]
    return None


def _first_values(path: Path) -> Iterator[Any]:
    """What a file's first lines hold; what it holds as a whole when its lines are no values."""
    with LineFile(path) as lines:
        for line in islice(lines, _MOST_LINES):
            if line.number == 1 and line.error:
                # An array, or an object spread over lines.
                yield from _whole(path)
            elif not line.error:
                yield line.value


def _whole(path: Path) -> Iterator[Any]:
    with path.open("rb") as file:
        head = file.read(4_096).removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if head == b"[":
        with path.open("rb") as file:
            try:
                yield [next(array_elements(file, str(path)))]
            except (InputError, StopIteration):
                return
    elif head == b"{" and path.stat().st_size <= _MAX_DOCUMENT:
        value, error = decode_object(path.read_bytes().removeprefix(b"\xef\xbb\xbf"))
        if not error:
            yield value
