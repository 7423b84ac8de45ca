"""How texts are shown: counts with their nouns, and stored texts that steer no terminal and no Markdown.

Everything that people see of what somebody else wrote goes through `harmless`; within a line of Markdown through
`inline` or `code`, as a block through `fenced`.
"""

from __future__ import annotations

import re
from itertools import islice

# Control characters but tab and line feed; other line ends; what overrides the direction of text; tags, which hide it.
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u206f\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_MARKUP = re.compile(r"([\\`*_\[\]<>|~&])")
_BACKTICKS = re.compile(r"`+")


def harmless(text: str) -> str:
    """The text with each character that would steer a terminal, or reorder or hide text, made visible."""
    return _STEERING.sub(_visible, text)


def harmless_json(document: str) -> str:
    """The same JSON value, written without steering characters."""
    return _STEERING.sub(_json_escape, document)


def inline(text: str) -> str:
    """A stored text within a line of Markdown: one line, and no mark-up or HTML of its own."""
    return _MARKUP.sub(r"\\\1", harmless(" ".join(text.split())))


def code(text: str) -> str:
    """A name or path as code within a line of Markdown."""
    shown = harmless(" ".join(text.split())).replace("`", "'")
    return f"`{shown}`"


def fenced(text: str, language: str = "") -> str:
    """A stored text as a block of code in Markdown that it cannot end."""
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{harmless(text)}\n{fence}"


def _json_escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _visible(match: re.Match[str]) -> str:
    number = ord(match[0])
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def plural(count: int, noun: str) -> str:
    """A count with its noun: ``1 row``, ``2,000 rows``, ``3 entries``, ``2 branches``."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}{'es' if noun.endswith(('ch', 'sh', 'ss', 'x')) else 's'}"


def size(count: int) -> str:
    """Bytes with a unit of 1024: ``12 B``, ``3.4 MiB``."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def first_line(text: str, length: int = 80) -> str:
    """How a text begins, on one line."""
    words = " ".join(islice(text[: 4 * length].split(), length))
    return words if len(words) <= length else f"{words[: length - 1]}…"


def duration(ms: int) -> str:
    """A time in its two largest units: ``850 ms``, ``3.2 s``, ``4 min 10 s``, ``2 h 5 min``."""
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 59_950:
        return f"{ms / 1_000:.1f} s"
    seconds = round(ms / 1_000)
    minutes = seconds // 60
    return f"{minutes} min {seconds % 60} s" if minutes < 60 else f"{minutes // 60:,} h {minutes % 60} min"
