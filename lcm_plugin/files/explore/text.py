"""Any other text: how it begins and ends, and the lines in between that look most telling."""

from __future__ import annotations

import re
from collections import Counter

from lcm_plugin.files.explore.base import Found, Source, clip, one_line
from lcm_plugin.text import plural

_WORD = re.compile(r"[^\W\d_]{4,40}")
_TERMS_CHARS = 1 << 20
_TELLING = re.compile(
    r"(?:error|failed|failure|warning|decided|decision|todo|important|note|result|total|summary|conclusion)\b",
    re.IGNORECASE,
)


def explore_text(source: Source) -> Found:
    """A plain text's beginning, telling lines, frequent words and end."""
    lines = [line for line in source.head.split("\n") if line.strip()]
    found = [f"Text: {plural(source.line_count, 'line')}, {source.size:,} bytes."]
    found.append(f"Begins: {one_line(source.head, 380)}")
    end = one_line((source.tail or source.head).rstrip()[-280:], 280)
    if source.size > 1_000:
        found.append(f"Ends: {end}")
    words = Counter(word.lower() for word in _WORD.findall(source.head[:_TERMS_CHARS]))
    frequent = [
        word for word, count in sorted(words.items(), key=lambda item: (-item[1], item[0])) if count > 2
    ][:16]
    if frequent:
        found.append(f"Frequent words: {clip(', '.join(frequent), 200)}")
    telling = [(number, line) for number, line in enumerate(lines, 1) if _TELLING.match(line.lstrip()[:40])][
        :8
    ]
    found += [f"- {one_line(line, 120)}" for _, line in telling]
    return Found("text", source.mime if source.mime.startswith("text/") else "text/plain", found)
