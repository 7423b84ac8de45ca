"""The reference that replaces a payload in a message, and its recognition.

It is recognised by its whole structure, so that a user who quotes or asks about one is not mistaken.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from lcm_plugin.store.records import FileRecord

MARK = "[LCM File: file_"
_REFERENCE = re.compile(
    r"\[LCM File: (file_[0-9a-f]{16}) \| [^\n|\]]* \| ([^\n|\]]*) \| (\d+) bytes(?: \| [^\n|\]]*)?\]"
)
_FOOTER = "Read it with lcm_describe, id {file_id}."
_CUT = " | cut by the host before it was stored"


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference found inside a text: where it starts, whose it is, its type, and its size in bytes."""

    start: int
    file_id: str
    mime: str
    size: int


def reference(record: FileRecord) -> str:
    """The reference of a payload: its name, type, size and exploration, and how to read it."""
    name, mime = _field(record.name) or "unnamed", _field(record.mime_type)
    cut = _CUT if record.truncated else ""
    head = f"[LCM File: {record.file_id} | {name} | {mime} | {record.byte_size} bytes{cut}]"
    lines = [head, record.exploration.strip(), _FOOTER.format(file_id=record.file_id)]
    return "\n".join(line for line in lines if line)


def reference_id(text: str) -> str | None:
    """The file id of a text that is a reference as a whole; None for one that merely quotes one."""
    match = _REFERENCE.match(text)
    if match is None or not text.endswith("\n" + _FOOTER.format(file_id=match.group(1))):
        return None
    return match.group(1)


def find_reference(text: str) -> Reference | None:
    """The first reference in a text."""
    match = _REFERENCE.search(text) if MARK in text else None
    return Reference(match.start(), match.group(1), match.group(2), int(match.group(3))) if match else None


def fit_into(note: str, path: str, whole: bool) -> str:
    """The reference in the form that its place needs: the arguments of a call stay valid JSON.

    ``whole`` says that it replaces all of the string at ``path``.
    """
    if not path.endswith("arguments"):
        return note
    return (
        json.dumps({"lcm_file": note}, ensure_ascii=False)
        if whole
        else json.dumps(note, ensure_ascii=False)[1:-1]
    )


def _field(text: str) -> str:
    shown = "".join(sign if sign.isprintable() and sign not in "|[]" else " " for sign in text[:400])
    return " ".join(shown.split())[:120]
