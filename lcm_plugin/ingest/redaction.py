"""Removing secrets before anything is stored.

Patterns are RE2 expressions, whose matching time is linear, so no pattern can hang a turn. What
matches becomes ``[REDACTED]``; a named group ``(?P<secret>…)`` narrows that to the group. A reference
to a secret in code, such as ``os.environ["API_KEY"]``, is not a secret and stays.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import re2

from lcm_plugin.errors import ConfigError
from lcm_plugin.messages.sendable import parse_json
from lcm_plugin.types import Message

MARK = "[REDACTED]"
_NAME = r"[A-Za-z_][\w.-]*"
_KEY = rf"""["'`]?{_NAME}["'`]?"""
_SUBSCRIPT = rf"\s*[\[(]\s*{_KEY}\s*[\])]?"
_CODE_REFERENCE = re2.compile(
    r"""(?:^|[\s"'`=:,;(\[{])("""
    + "|".join(
        [
            rf"os\.environ(?:\.(?:get|pop|setdefault))?{_SUBSCRIPT}",
            rf"(?:os\.|System\.)?(?:getenv|Getenv|LookupEnv){_SUBSCRIPT}",
            rf"(?:std::)?env(?:::var|\.fetch|\.get)?!?{_SUBSCRIPT}",
            rf"(?:ENV|\$_ENV)(?:\.fetch)?{_SUBSCRIPT}",
            rf"(?:process|import\.meta)\.env(?:\.{_NAME}|\s*\[\s*{_KEY}\s*\])",
            rf"Deno\.env\.get{_SUBSCRIPT}",
            r"\$env:\w+",
            r"\$\{\w+\}",
            r"\$?\{\{\s*[\w.-]+\s*\}\}",
            r"\$[A-Z_][A-Z0-9_]*\b",
            r"%[A-Z_][A-Z0-9_]*%",
        ]
    )
    + ")"
)
_QUOTES = r"""[\s"'`,;()\[\]{}]*"""
_LABEL = re2.compile(
    rf"""{_QUOTES}(?:[\w.\-\[\]"'` ]{{0,80}}[:=]+>?{_QUOTES})?(?:(?i:bearer|basic|token) )?{_QUOTES}"""
)
_DATA_URL = re.compile(r"data:[\w.+/-]+(?:;[\w=.+-]+)*;base64,[A-Za-z0-9+/=_-]*")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_IDENTITY_KEYS = frozenset({"role", "type", "id", "tool_call_id", "tool_use_id", "call_id"})
_SEALED_KEYS = frozenset({"signature", "thought_signature", "thoughtSignature", "encrypted_content"})
_UNTOUCHED_KEYS = _IDENTITY_KEYS | _SEALED_KEYS
_PLAIN_KEY = re.compile(r"[A-Za-z_]{1,40}")
_JSON_KEYS = frozenset({"arguments"})


class Redactor:
    """Applies ``patterns`` in their order. Immutable and thread-safe."""

    def __init__(self, patterns: Sequence[str], *, strict: bool = False) -> None:
        """``strict`` spares neither references in code nor keys that are plain words.

        Raises ConfigError naming the pattern that RE2 cannot compile or that matches nothing at all.
        """
        self._strict = strict
        self._patterns = tuple(_compile(index, pattern) for index, pattern in enumerate(patterns))

    @property
    def active(self) -> bool:
        """Whether there is any pattern."""
        return bool(self._patterns)

    def text(self, text: str) -> str:
        """The text without what matches."""
        for pattern in self._patterns:
            text = _apply(pattern, text, self._strict)
        return text

    def message(self, message: Message) -> Message:
        """The message without what matches in any of its texts; ids, roles and types stay."""
        if not self.active:
            return message
        return self._mapping(message)

    def _value(self, value: Any, key: str = "") -> Any:
        if isinstance(value, str):
            return self._arguments(value) if key in _JSON_KEYS else self.text(value)
        if isinstance(value, dict):
            return self._mapping(value)
        if isinstance(value, (list, tuple)):
            return [self._value(item, key) for item in value]
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return value if self.text(str(value)) == str(value) else MARK
        return value

    def _mapping(self, value: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, item in value.items():
            untouched = isinstance(item, str) and (key in _UNTOUCHED_KEYS or _DATA_URL.fullmatch(item))
            result[self._key(key, result)] = item if untouched else self._member(key, item)
        return result

    def _key(self, key: str, taken: dict[str, Any]) -> str:
        """The key, redacted unless it is a plain word: ``password`` is a label, ``sk-1a2b`` is not."""
        is_label = not self._strict and _PLAIN_KEY.fullmatch(key)
        redacted, number = key if is_label else self.text(key), 1
        unique = redacted
        while unique in taken:
            number += 1
            unique = f"{redacted} {number}"
        return unique

    def _member(self, key: str, item: Any) -> Any:
        redacted = self._value(item, key)
        if isinstance(redacted, str) and redacted == item and self._labelled(key, item):
            return MARK
        return redacted

    def _labelled(self, key: str, item: str) -> bool:
        """Whether a pattern over ``key: value`` text covers this member's value."""
        if len(item) > 4_096:
            return False
        return any(
            self.text(form) != form and item not in self.text(form) for form in _forms(key, item) if item
        )

    def _arguments(self, raw: str) -> str:
        """A call's arguments stay valid JSON when they were."""
        try:
            parsed = parse_json(raw)
        except ValueError:
            return self.text(raw)
        redacted = self._value(parsed)
        if redacted != parsed:
            raw = json.dumps(redacted, ensure_ascii=False)
        text = self.text(raw)
        if text == raw:
            return raw
        try:
            json.loads(text)
        except ValueError:
            return json.dumps({"redacted": MARK})
        return text


def _forms(key: str, item: str) -> tuple[str, str]:
    return f"{key}={item}", f'"{key}": "{item}"'


def _compile(index: int, pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else error
        raise ConfigError(
            f"redactPatterns[{index}] = {pattern!r} is not an RE2 expression: {reason}"
        ) from error
    if compiled.fullmatch("") is not None:
        raise ConfigError(
            f"redactPatterns[{index}] = {pattern!r} matches the empty text; it would redact nothing"
        )
    return compiled


def _apply(pattern: Any, text: str, strict: bool) -> str:
    searched = _searchable(text)
    pieces: list[str] = []
    done = 0
    references: list[tuple[int, int]] | None = None
    for match in pattern.finditer(searched):
        start, end = match.span(pattern.groupindex.get("secret", 0))
        if start < done or end <= start:
            continue
        if references is None:
            references = [] if strict else [found.span(1) for found in _CODE_REFERENCE.finditer(searched)]
        pieces += [text[done:start], _hide(text, start, end, references)]
        done = end
    return "".join([*pieces, text[done:]]) if pieces else text


def _hide(text: str, start: int, end: int, references: list[tuple[int, int]]) -> str:
    """The matched range with everything hidden but code references and the labels before them."""
    shown: list[str] = []
    position = start
    for low, high in references[bisect_left(references, start, key=lambda span: span[1]) :]:
        if low >= end:
            # A label that stops short of the reference it belongs to: ``token :=`` os.Getenv("TOKEN").
            if (
                position == start
                and not text[end:low].strip()
                and _LABEL.fullmatch(_searchable(text[start:end]))
            ):
                return text[start:end]
            break
        low, high = max(low, start), min(high, end)
        shown += [_hide_rest(text[position:low]), text[low:high]]
        position = high
    return "".join([*shown, _hide_rest(text[position:end])]) if shown else MARK


def _hide_rest(piece: str) -> str:
    return piece if _LABEL.fullmatch(_searchable(piece)) else MARK


def _searchable(text: str) -> str:
    """The text with lone surrogates, which RE2 refuses, replaced one for one."""
    return _SURROGATE.sub("\ufffd", text)
