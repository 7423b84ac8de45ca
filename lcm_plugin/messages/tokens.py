"""Counting tokens with the encoding that the package carries (`messages.encodings`).

Texts are counted in slices, since byte-pair merging of one long run without spaces is quadratic. A
Chinese, Japanese or Korean character never counts less than one token: the context may go to any
provider, and vocabularies differ most there.
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64decode
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from lcm_plugin.characters import encode
from lcm_plugin.lru import LruCache
from lcm_plugin.messages.blocks import kind_of
from lcm_plugin.messages.merging import COUNTS
from lcm_plugin.messages.table import Kind
from lcm_plugin.types import HOST_DATA

IMAGE_TOKENS = 1_600
MESSAGE_OVERHEAD = 4
_SLICE = 4_096
_NAMED = frozenset({"type", "name"})
_LONGEST_NAME = 64
_DATA_URL = re.compile(r"data:[\w.+-]+/[\w.+-]+(?:;[\w=.+-]+)*;base64,")
_BINARY_KEYS = frozenset({"data", "image", "base64", "bytes", "file_data", "image_url", "url", "source"})
_BINARY_MIN_CHARS = 4_096
_SNIFFED = 4_096
_LONG_TEXTS = 1_024
_ARCHIVE = b"PK\x03\x04"
_BYTES_PER_TOKEN = 4
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]")


class TokenCounter:
    """Counts texts and messages. Thread-safe; the encoding is loaded at the first count.

    A long text is counted once: hosts hand the same one over at every call.
    """

    def __init__(self) -> None:
        self._long: LruCache[bytes, int] = LruCache(_LONG_TEXTS)

    def text(self, text: str) -> int:
        """Tokens of a text; special-token text counts as plain text."""
        if len(text) <= _SLICE:
            return _tokens(text, (text,)) if text else 0
        name = hashlib.blake2b(encode(text), digest_size=16).digest()
        known = self._long.get(name)
        return self._long.put_new(name, _tokens(text, _slices(text))) if known is None else known

    def message(self, message: Mapping[str, Any]) -> int:
        """Tokens of a message: content, calls and keys that reach a model, plus a fixed overhead."""
        return MESSAGE_OVERHEAD + sum(
            [self.value(value) for key, value in message.items() if key not in ("role", HOST_DATA)]
        )

    def anything(self, value: Any) -> int:
        """Tokens of a text, a message, a list of messages or any JSON value."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping) and "role" in value:
            return self.message(value)
        if isinstance(value, (list, tuple)) and all(
            isinstance(item, Mapping) and "role" in item for item in value
        ):
            return sum(self.message(item) for item in value)
        return self.value(value)

    def value(self, value: Any, key: str = "") -> int:
        """Tokens of any JSON-like value, an image or other binary at a flat price."""
        if value is None or isinstance(value, bool):
            return 0
        if isinstance(value, str):
            if key in _NAMED and len(value) <= _LONGEST_NAME:
                return _of_name(value)
            return self._binary(value) if _is_binary(key, value) else self.text(value)
        if isinstance(value, (dict, Mapping)):
            return sum(1 + _of_name(str(name)) + self.value(item, str(name)) for name, item in value.items())
        if isinstance(value, (list, tuple)):
            return sum(1 + self.value(item, key) for item in value)
        return self.text(json.dumps(value, default=str))

    def _binary(self, value: str) -> int:
        """A flat price for an image; an attached text at what its words cost, an archive such as docx by its size."""
        data = value[value.find(",") + 1 :] if _DATA_URL.match(value) else value
        head = _decoded(data[:_SNIFFED])
        if head.startswith(_ARCHIVE):
            return max(IMAGE_TOKENS, len(data) * 3 // 4 // _BYTES_PER_TOKEN)
        if not _is_text(head):
            return IMAGE_TOKENS
        return self.text(_decoded(data).decode("utf-8", "replace"))


def _tokens(text: str, slices: Iterable[str]) -> int:
    counted = sum(map(COUNTS.of, slices))
    return counted if text.isascii() else max(counted, len(_CJK.findall(text)))


def _decoded(data: str) -> bytes:
    """The bytes of a base64 text, as far as it is one."""
    try:
        return b64decode(data[: len(data) // 4 * 4], altchars=b"-_" if "-" in data or "_" in data else None)
    except ValueError:
        return b""


def _is_text(head: bytes) -> bool:
    """Whether bytes begin as a text does; the last character may be cut."""
    if not head or b"\x00" in head:
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.start >= len(head) - 3
    return True


def files_in(messages: Iterable[Mapping[str, Any]]) -> int:
    """How many images and other files some messages hold, whose price only the provider knows."""
    contents = [content for message in messages if type(content := message.get("content")) is not str]
    return sum(
        kind_of(block) is Kind.MEDIA
        for content in contents
        if isinstance(content, (list, tuple))
        for block in content
        if isinstance(block, Mapping)
    )


def _is_binary(key: str, value: str) -> bool:
    if value.startswith("data:") and _DATA_URL.match(value):
        return True
    return key in _BINARY_KEYS and len(value) >= _BINARY_MIN_CHARS and " " not in value[:_BINARY_MIN_CHARS]


@lru_cache(maxsize=4_096)
def _of_name(name: str) -> int:
    """Tokens of a name in a message: a key, a type, a tool, of which there are few."""
    return _tokens(name, _slices(name))


def _slices(text: str) -> list[str]:
    pieces, start = [], 0
    while start < len(text):
        end = min(start + _SLICE, len(text))
        if end < len(text):
            space = text.rfind(" ", start + _SLICE // 2, end)
            end = space if space > start else end
        pieces.append(text[start:end])
        start = end
    return pieces
