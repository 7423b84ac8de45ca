"""The source text of a summary prompt: selects the blocks that a model sees, and writes them.

A block says who spoke, through which tool and when. Binary runs, reasoning, the system prompt, blocks that a
host injected and our own marks do not reach the model. Long blocks are shortened in the middle when
the whole would not fit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from zoneinfo import ZoneInfo

from lcm_plugin.summarize.base import SourceBlock

CUT_MARK = "[cut: the text went on]"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CLOSING = re.compile(r"<(?=/?source\b)", re.IGNORECASE)
_SHORTEST = 400
_BLOB = re.compile(r"(?<![A-Za-z0-9+/_-])(?:data:[\w.+/-]+;base64,)?[A-Za-z0-9+/_-]{200,}={0,2}")
_LEAST_BLOB = 200
# A few built-in functions tell texts without a run that long, which nearly all are, thirty times as fast as the pattern.
_BLOB_BYTES = bytes(
    ord("x") if chr(byte).isascii() and (chr(byte).isalnum() or chr(byte) in "+/_-") else 32
    for byte in range(256)
)
_BLOB_RUN = b"x" * _LEAST_BLOB
_REASONING = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.IGNORECASE | re.DOTALL)


class SourceText:
    """Writes blocks for a prompt. ``hidden_tags``: elements whose content the model is not shown."""

    def __init__(self, timezone: str = "UTC", hidden_tags: Sequence[str] = ()) -> None:
        self._zone = ZoneInfo(timezone)
        self._zone_name = timezone
        names = "|".join(re.escape(tag) for tag in hidden_tags)
        self._hidden = re.compile(rf"<({names})\b[^>]*>.*?(?:</\1\s*>|\Z)", re.DOTALL | re.IGNORECASE)
        self._hides = bool(hidden_tags)

    def visible(self, blocks: Sequence[SourceBlock]) -> tuple[SourceBlock, ...]:
        """The blocks that a summary is made from, with cleaned text; empty ones are left out."""
        cleaned = (self._cleaned(block) for block in blocks if block.role != "system")
        return tuple(block for block in cleaned if block.text)

    def write(self, blocks: Sequence[SourceBlock], fits: Callable[[str], bool]) -> str:
        """The blocks as one text that ``fits``; the longest are shortened until it does."""
        text = self._joined(blocks, None)
        if fits(text):
            return text
        low, high = _SHORTEST // 2, max((len(block.text) for block in blocks), default=_SHORTEST)
        best = self._joined(blocks, low)
        for _ in range(8):
            middle = (low + high) // 2
            text = self._joined(blocks, middle)
            if fits(text):
                low, best = middle, text
            else:
                high = middle
        return best

    def moment(self, at: int) -> str:
        """A time in the configured zone."""
        try:
            moment = (_EPOCH + timedelta(milliseconds=at)).astimezone(self._zone)
        except OverflowError:
            return "unknown time"
        return f"{moment:%Y-%m-%d %H:%M}"

    def span(self, blocks: Sequence[SourceBlock]) -> str:
        """The time range of the blocks with its zone."""
        first, last = min(block.at for block in blocks), max(block.until for block in blocks)
        return f"{self.moment(first)} to {self.moment(last)} ({self._zone_name})"

    def _cleaned(self, block: SourceBlock) -> SourceBlock:
        text = self._hidden.sub("", block.text) if self._hides and "<" in block.text else block.text
        text = clean(text).strip()
        if text == block.text:
            return block
        return SourceBlock(block.id, block.role, text, block.at, block.until, block.sender, block.tool)

    def _joined(self, blocks: Sequence[SourceBlock], most_chars: int | None) -> str:
        return "\n".join(self._written(block, most_chars) for block in blocks)

    def _written(self, block: SourceBlock, most_chars: int | None) -> str:
        fields = [f'id="{block.id}" role="{escape(block.role)}"']
        if block.tool:
            fields.append(f'tool="{escape(block.tool)}"')
        if block.sender:
            fields.append(f'sender="{escape(block.sender)}"')
        until = f" to {self.moment(block.until)}" if block.until > block.at else ""
        fields.append(f'time="{self.moment(block.at)}{until}"')
        text = block.text if most_chars is None else _shortened(block.text, most_chars)
        return f"<source {' '.join(fields)}>\n{_CLOSING.sub('&lt;', text)}\n</source>"


def clean(text: str) -> str:
    """A text without reasoning, binary runs and our own marks."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    if "<" in text:
        text = _REASONING.sub("", text)
    if len(text) >= _LEAST_BLOB and _BLOB_RUN in text.encode().translate(_BLOB_BYTES):
        text = _BLOB.sub(_blob_note, text)
    return text.replace(CUT_MARK, "").replace("\x00", "")


def _blob_note(match: re.Match[str]) -> str:
    run = match.group()
    if not run.startswith("data:") and not any(char.isdigit() for char in run):
        return run
    return f"[{len(run)} characters of binary data]"


def _shortened(text: str, most_chars: int) -> str:
    if len(text) <= most_chars:
        return text
    head, tail = most_chars * 2 // 3, most_chars // 3
    return f"{text[:head]}\n[{len(text) - head - tail} characters left out]\n{text[len(text) - tail :]}"
