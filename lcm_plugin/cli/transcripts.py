"""Reads transcripts: files of OpenAI-style messages, as lines, as one array, or in objects with ``messages``.

All files are read before anything is done with them, so that a fault on the last line leaves nothing half done.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from lcm_plugin.errors import InputError
from lcm_plugin.interchange.importers.json_files import json_objects
from lcm_plugin.messages.table import checked_role
from lcm_plugin.types import Message

STDIN = "-"


@dataclass(frozen=True, slots=True)
class Entry:
    """One message and its place, for error messages (``notes.jsonl, line 7``)."""

    message: Message
    place: str


def read_transcripts(paths: Sequence[str]) -> list[Entry]:
    """All messages of some files, in order; ``-`` is standard input. Raises `InputError`."""
    entries = [entry for path in paths for entry in _read_one(path)]
    if not entries:
        raise InputError(f"{', '.join(paths)}: no message in it")
    return entries


def _read_one(path: str) -> Iterator[Entry]:
    name = "standard input" if path == STDIN else path
    with _file_of(path) as file:
        for line in json_objects(file):
            place = f"{name}, {'line' if line.offset >= 0 else 'item'} {line.number}"
            if line.error:
                raise InputError(f"{place}: {line.error}")
            held = line.value.get("messages")
            if not isinstance(held, list):
                yield _checked(line.value, place)
                continue
            for index, message in enumerate(held, 1):
                yield _checked(message, f"{place}, message {index}" if len(held) > 1 else place)


@contextmanager
def _file_of(path: str) -> Iterator[Path]:
    if path != STDIN:
        yield Path(path)
        return
    with NamedTemporaryFile(prefix="lcm-") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield Path(copy.name)


def _checked(message: Any, place: str) -> Entry:
    if not isinstance(message, dict):
        raise InputError(f"{place}: expected a message object, found {type(message).__name__}")
    role = message.get("role")
    if role is None:
        raise InputError(f"{place}: a message without role")
    try:
        checked_role(role)
    except ValueError as error:
        raise InputError(f"{place}: unknown role {role!r}: {error}") from error
    return Entry(message, place)
