"""The targets of a redaction: texts that match, or messages, summaries and payloads named by their ids."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Protocol
from urllib.parse import quote

from lcm_plugin.errors import ConfigError, InputError
from lcm_plugin.ingest.redaction import MARK, Redactor
from lcm_plugin.messages.blocks import blocks_of, is_reasoning, with_blocks
from lcm_plugin.messages.table import REASONING_KEYS
from lcm_plugin.recall.scope import parse_refs
from lcm_plugin.types import Message

_ID = re.compile(r"sum_[0-9a-f]{16}|file_[0-9a-f]{16}|msg_\d{1,18}(?:-msg_\d{1,18})?", re.ASCII)
# Keys that say how a message is built; their values are no content.
_FORM_KEYS = frozenset((
    "role", "type", "id", "tool_call_id", "tool_use_id", "call_id", "name", "status", "finish_reason", "model",
    "media_type", "mime_type", "created_at", "createdAt", "timestamp",
))  # fmt: skip


class Target(Protocol):
    """Removes its target from texts. Every method returns its argument when the target is not in it."""

    def message(self, ref: str, message: Message) -> Message:
        """A message without the target."""

    def summary(self, ref: str, text: str) -> str:
        """A summary's text without it."""

    def payload(self, ref: str, text: str) -> str:
        """The text of a payload that is no part of its message's own text, such as an attached text file."""

    def words(self, text: str) -> str:
        """A name, a note or an error text."""

    def whole_payload(self, ref: str) -> bool:
        """Whether a payload goes as a whole, whatever is in it."""

    def occurs_in(self, data: bytes) -> bool:
        """Whether bytes that are no text hold the target."""


class MatchingTexts:
    """All texts that match a pattern or equal a given text."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    @classmethod
    def of_pattern(cls, pattern: str) -> MatchingTexts:
        """The target of an RE2 expression. Raises `InputError`, which does not repeat the pattern."""
        return cls(_redactor([pattern]))

    @classmethod
    def of_text(cls, text: str) -> MatchingTexts:
        """The target of a text as it is, and as it is written within JSON or a URL."""
        import re2

        if not text.strip():
            raise InputError("there is no text to redact")
        forms = [
            text,
            json.dumps(text)[1:-1],
            json.dumps(text, ensure_ascii=False)[1:-1],
            quote(text, safe=""),
        ]
        # The longest first: a form may be part of another.
        unique = sorted(dict.fromkeys(forms), key=len, reverse=True)
        return cls(_redactor([re2.escape(form) for form in unique], strict=True))

    def message(self, ref: str, message: Message) -> Message:
        return _without_broken_reasoning(message, self._redactor.message(message))

    def summary(self, ref: str, text: str) -> str:
        return self._redactor.text(text)

    def payload(self, ref: str, text: str) -> str:
        return self._redactor.text(text)

    def words(self, text: str) -> str:
        return self._redactor.text(text)

    def whole_payload(self, ref: str) -> bool:
        return False

    def occurs_in(self, data: bytes) -> bool:
        text = data.decode("latin-1")
        return self._redactor.text(text) != text


class NamedThings:
    """Messages, summaries and payloads by id, each as a whole."""

    def __init__(self, ids: Sequence[str]) -> None:
        """Raises `InputError` for a word that is no id."""
        self.refs = parse_refs(ids)
        self._names = frozenset(ref.text for ref in self.refs)

    def message(self, ref: str, message: Message) -> Message:
        return blank(message) if ref in self._names else message

    def summary(self, ref: str, text: str) -> str:
        return MARK if ref in self._names else text

    def payload(self, ref: str, text: str) -> str:
        return text

    def words(self, text: str) -> str:
        return text

    def whole_payload(self, ref: str) -> bool:
        return ref in self._names

    def occurs_in(self, data: bytes) -> bool:
        return False


def target_of(words: Sequence[str], *, literal: bool) -> Target:
    """What a person means to remove: things by id, one secret as it is (``literal``), or what an expression matches.

    Raises `InputError` for several words that are not all ids, and for a bad expression.
    """
    if not literal and are_ids(words):
        return NamedThings(words)
    if len(words) != 1:
        raise InputError("give one expression, one secret, or ids only")
    return MatchingTexts.of_text(words[0]) if literal else MatchingTexts.of_pattern(words[0])


def are_ids(words: Sequence[str]) -> bool:
    """Whether every word is an id, or a range of messages, and nothing else."""
    return bool(words) and all(_ID.fullmatch(word) for word in words)


def blank(message: Message) -> Message:
    """A message of the same form, calls and ids included, with every text in it redacted."""
    result = {key: _blank(value, key) for key, value in message.items() if key not in REASONING_KEYS}
    if blocks := blocks_of(result):
        kept = [block for block in blocks if not is_reasoning(block)]
        return with_blocks(result, kept) if kept else {**result, "content": MARK}
    return result


def _blank(value: Any, key: str) -> Any:
    if isinstance(value, str):
        if key in _FORM_KEYS or not value:
            return value
        return json.dumps({"redacted": MARK}) if key == "arguments" else MARK
    if isinstance(value, dict):
        if key in ("input", "args", "arguments"):
            return {"redacted": MARK}
        return {name: _blank(item, name) for name, item in value.items()}
    return [_blank(item, key) for item in value] if isinstance(value, list) else value


def _without_broken_reasoning(before: Message, after: Message) -> Message:
    """Removes reasoning blocks that changed: providers sign them and refuse changed ones."""
    if after == before:
        return before
    old, new = blocks_of(before), blocks_of(after)
    if not old or len(old) != len(new):
        return after
    kept = [block for was, block in zip(old, new, strict=True) if not (is_reasoning(block) and was != block)]
    return with_blocks(after, kept) if kept else {**after, "content": MARK}


def _redactor(patterns: list[str], *, strict: bool = False) -> Redactor:
    try:
        return Redactor(patterns, strict=strict)
    except ConfigError:
        # Its words quote the pattern, which may be the secret itself.
        raise InputError("the pattern is no RE2 expression, or it matches the empty text") from None
