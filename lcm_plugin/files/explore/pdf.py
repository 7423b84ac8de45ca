"""PDF: pages, title, outline and how the text begins.

With pypdf installed (extra ``files``) a child process reads the document under limits of time and
memory, since a crafted PDF can hold a reader for ever. Without it, or when the child gives up, what
can be seen without a parser is described.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

from lcm_plugin.files.explore.base import FileOutline, one_line
from lcm_plugin.text import plural

_MIME = "application/pdf"
_MAX_BYTES = 64 << 20
_SECONDS = 10
_SCAN = 16 << 20
_PAGE = re.compile(rb"/Type\s{0,4}/Page(?![A-Za-z])")
_TITLE = re.compile(rb"/Title\s{0,4}\(((?:[^()\\]|\\.){1,200})\)")


def explore_pdf(data: bytes) -> FileOutline | None:
    """A PDF document, or None when the bytes are no PDF."""
    if b"%PDF-" not in data[:1_024]:
        return None
    read = _read_in_child(data)
    return _described(read, data) if read else _seen(data)


def _described(read: dict[str, Any], data: bytes) -> FileOutline:
    lines = [f"PDF document: {plural(int(read['pages']), 'page')}, {len(data):,} bytes."]
    labels = [label for label in ("title", "author", "subject") if read.get(label)]
    lines += [f"{label.capitalize()}: {one_line(read[label], 120)}" for label in labels]
    lines += [f"{'  ' * int(level)}- {one_line(title, 100)}" for level, title in read.get("outline", [])[:40]]
    lines.append(f"Text begins: {one_line(read.get('text', ''), 500) or 'no text on the first pages'}")
    return FileOutline("pdf", _MIME, lines)


def _seen(data: bytes) -> FileOutline:
    head = data[:_SCAN]
    pages = len(_PAGE.findall(head))
    title = _TITLE.search(head)
    count = f"at least {plural(pages, 'page')}, " if pages else ""
    lines = [f"PDF document: {count}{len(data):,} bytes, version {_version(head)}."]
    if title:
        lines.append(f"Title: {one_line(title.group(1).decode('latin-1'), 120)}")
    if b"/Encrypt" in head:
        lines.append("Encrypted.")
    return FileOutline("pdf", _MIME, lines)


def _version(head: bytes) -> str:
    start = head.find(b"%PDF-") + 5
    return one_line(head[start : start + 3].decode("latin-1"), 3)


def _read_in_child(data: bytes) -> dict[str, Any] | None:
    if len(data) > _MAX_BYTES or not sys.executable or find_spec("pypdf") is None:
        return None
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-m", "lcm_plugin.files.explore.pdf_child"],
            input=data,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
        answer = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return answer if isinstance(answer, dict) and isinstance(answer.get("pages"), int) else None
