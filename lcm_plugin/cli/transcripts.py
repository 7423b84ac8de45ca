"""Reading transcripts: files of OpenAI-style messages, whatever their outer shape.

Three shapes are understood and told apart by their first value: JSON lines with one message each, JSON
lines with one object each that holds ``messages``, and one JSON array (or object with ``messages``) that
may span lines. A file is read whole before anything is done with it, so that a fault on its last line
leaves nothing half done.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lcm_plugin.errors import InputError
from lcm_plugin.types import Message

STDIN = "-"
ROLES = ("system", "developer", "user", "assistant", "tool", "function")


@dataclass(frozen=True, slots=True)
class Entry:
    """One message and where it stood, for messages about it (``notes.jsonl, line 7``)."""

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
    text = _load(path, name)
    if text.lstrip().startswith("["):
        yield from _messages(_decode(text, name), name)
        return
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if len(lines) > 1 and lines[0][1].strip() == "{":
        # An object spread over lines, as editors and `jq` write it.
        yield from _messages(_decode(text, name), name)
        return
    for number, line in lines:
        place = f"{name}, line {number}"
        yield from _messages(_decode(line, name, number), place)


def _load(path: str, name: str) -> str:
    try:
        data = sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{name}: not UTF-8 text on line {line}") from error


def _decode(text: str, name: str, first_line: int = 1) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = first_line + error.lineno - 1
        raise InputError(f"{name}: broken JSON on line {line}: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: JSON from line {first_line} on cannot be read: {error}") from error


def _messages(value: Any, place: str) -> Iterator[Entry]:
    """The messages of one decoded value: a message, a holder of messages, or a list of either."""
    if isinstance(value, list):
        for index, item in enumerate(value, 1):
            yield from _messages(item, f"{place}, item {index}")
    elif isinstance(value, dict) and isinstance(value.get("messages"), list):
        yield from _checked(value["messages"], place)
    else:
        yield from _checked([value], place)


def _checked(messages: Iterable[Any], place: str) -> Iterator[Entry]:
    many = isinstance(messages, list) and len(messages) > 1
    for index, message in enumerate(messages, 1):
        where = f"{place}, message {index}" if many else place
        if not isinstance(message, dict):
            raise InputError(f"{where}: expected a message object, found {type(message).__name__}")
        role = message.get("role")
        if role is None:
            raise InputError(f"{where}: a message without role")
        if role not in ROLES:
            raise InputError(f"{where}: unknown role {role!r}; one of {', '.join(ROLES)}")
        yield Entry(message, where)
