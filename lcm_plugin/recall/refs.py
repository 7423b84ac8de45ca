"""Ids as people and models write them: bare, several at once, or copied with what stood round them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from lcm_plugin.errors import InputError

RefKind = Literal["summary", "file", "message"]
_KINDS: dict[str, RefKind] = {"sum": "summary", "file": "file", "msg": "message"}
_ID = re.compile(r"(?<![0-9A-Za-z_])(sum_[0-9a-f]{16}|file_[0-9a-f]{16}|msg_\d{1,18})(?![0-9A-Za-z_])")
_RANGE = re.compile(r"(?<![0-9A-Za-z_])msg_(\d{1,18})-msg_(\d{1,18})(?![0-9A-Za-z_])")
_COPIED_SUMMARY = re.compile(r'<summary\s[^>]*?id="(sum_[0-9a-f]{16})"')
_COPIED_FILE = re.compile(r"\[LCM File: (file_[0-9a-f]{16})\b")
MAX_RANGE = 200


@dataclass(frozen=True, slots=True)
class Ref:
    """One id, whole, and what it is the id of."""

    kind: RefKind
    text: str

    @property
    def message_id(self) -> int:
        """The number of a message's id."""
        return int(self.text.removeprefix("msg_"))


def parse_refs(value: str | Iterable[str]) -> tuple[Ref, ...]:
    """The ids in a text or in several, in order, each once.

    A text that begins with a copied wrapper stands for that summary or file alone, whatever ids its body
    mentions. ``msg_3-msg_9`` is a range. Raises `InputError` when there is no id at all.
    """
    texts = [value] if isinstance(value, str) else list(value)
    refs: dict[str, Ref] = {}
    for text in texts:
        for ref in _in_text(text.strip()):
            refs.setdefault(ref, Ref(_KINDS[ref.partition("_")[0]], ref))
    if not refs:
        shown = " ".join(texts)[:80]
        raise InputError(
            f"{shown!r} holds no id; ids look like sum_0123456789abcdef, file_0123456789abcdef or msg_42"
        )
    return tuple(refs.values())


def _in_text(text: str) -> Iterable[str]:
    for wrapper in (_COPIED_SUMMARY, _COPIED_FILE):
        if (copied := wrapper.match(text)) is not None:
            return [copied[1]]
    expanded = _RANGE.sub(_spell_out, text)
    return [match[1] for match in _ID.finditer(expanded)]


def _spell_out(match: re.Match[str]) -> str:
    first, last = int(match[1]), int(match[2])
    if last < first or last - first >= MAX_RANGE:
        raise InputError(f"{match[0]} is not a range of at most {MAX_RANGE} messages")
    return " ".join(f"msg_{number}" for number in range(first, last + 1))
