"""Reads a PDF from standard input and writes its content as JSON; run as a process of its own."""

from __future__ import annotations

import io
import json
import logging
import resource
import sys
import warnings
from typing import Any

CPU_SECONDS = 8
MEMORY_BYTES = 1 << 30
_TEXT_PAGES = 3
_OUTLINE_ITEMS = 60


def main() -> None:
    """Read, limit this process, describe, write."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    json.dump(describe(sys.stdin.buffer.read()), sys.stdout)


def describe(data: bytes) -> dict[str, Any]:
    """Pages, document information, outline and the first text of a PDF."""
    from pypdf import PdfReader

    reader = PdfReader(io.BytesIO(data), strict=False)
    info: Any = reader.metadata or {}
    text = ""
    for page in reader.pages[:_TEXT_PAGES]:
        text += page.extract_text() + "\n"
        if len(text) > 4_000:
            break
    return {
        "pages": len(reader.pages),
        **{key: str(info.get(f"/{key.capitalize()}", ""))[:400] for key in ("title", "author", "subject")},
        "outline": list(_outline(reader.outline, 0))[:_OUTLINE_ITEMS],
        "text": text[:4_000],
    }


def _outline(items: list[Any], level: int) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for item in items[:_OUTLINE_ITEMS]:
        if isinstance(item, list):
            found += _outline(item, level + 1) if level < 4 else []
        else:
            found.append((level, str(item.title)[:200]))
    return found


if __name__ == "__main__":
    main()
