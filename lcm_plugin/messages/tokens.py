"""Counting tokens: exactly where an encoding can be loaded, from above where none can.

tiktoken reads its encodings offline from the files that litellm ships; they are found without
importing litellm. Texts are counted in slices, since byte-pair merging of one long run without
spaces is quadratic. A Chinese, Japanese or Korean character never counts less than one token: the
context may go to any provider, and vocabularies differ most there.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lcm_plugin.types import HOST_DATA

ENCODING = "o200k_base"
IMAGE_TOKENS = 1_600
MESSAGE_OVERHEAD = 4
_SLICE = 4_096
_DATA_URL = re.compile(r"data:[\w.+-]+/[\w.+-]+(?:;[\w=.+-]+)*;base64,")
_BINARY_KEYS = frozenset({"data", "image", "base64", "bytes", "file_data", "image_url", "url", "source"})
_BINARY_MIN_CHARS = 4_096
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]")


class TokenCounter:
    """Counts texts and messages. Thread-safe; the encoding is loaded at the first count."""

    def __init__(self, encoding: str = ENCODING) -> None:
        self._encoding = encoding

    @property
    def exact(self) -> bool:
        """Whether a real encoding counts, or the upper-bound estimate."""
        return _load_encoder(self._encoding) is not None

    def text(self, text: str) -> int:
        """Tokens of a text; special-token text counts as plain text."""
        if not text:
            return 0
        encoder = _load_encoder(self._encoding)
        if encoder is None:
            return estimate(text)
        counted = encoder(text) if len(text) <= _SLICE else sum(map(encoder, _slices(text)))
        return counted if text.isascii() else max(counted, len(_CJK.findall(text)))

    def message(self, message: Mapping[str, Any]) -> int:
        """Tokens of a message: content, calls and keys that reach a model, plus a fixed overhead."""
        return MESSAGE_OVERHEAD + sum(
            self.value(value) for key, value in message.items() if key not in ("role", HOST_DATA)
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
            return IMAGE_TOKENS if _is_binary(key, value) else self.text(value)
        if isinstance(value, Mapping):
            return sum(1 + self.text(str(name)) + self.value(item, str(name)) for name, item in value.items())
        if isinstance(value, (list, tuple)):
            return sum(1 + self.value(item, key) for item in value)
        return self.text(json.dumps(value, default=str))


def estimate(text: str) -> int:
    """An upper bound of a text's tokens that needs no encoding.

    Every word costs a token per two letters, every other sign one, and every character outside
    ASCII its length in UTF-8 bytes (CJK three, emoji four).
    """
    total = 0
    for run in _RUNS.finditer(text):
        piece = run.group()
        if run.lastgroup == "word":
            total += (len(piece) + 1) // 2
        elif run.lastgroup == "space":
            total += (len(piece) + 3) // 4
        elif run.lastgroup == "wide":
            total += len(piece.encode("utf-8", "replace"))
        else:
            total += len(piece)
    return total


_RUNS = re.compile(r"(?P<word>[A-Za-z]+)|(?P<space>[ \t\r\n]+)|(?P<wide>[^\x00-\x7f]+)|(?P<sign>[\x00-\x7f])")


def _is_binary(key: str, value: str) -> bool:
    if _DATA_URL.match(value):
        return True
    return key in _BINARY_KEYS and len(value) >= _BINARY_MIN_CHARS and " " not in value[:_BINARY_MIN_CHARS]


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


@cache
def _load_encoder(name: str) -> Callable[[str], int] | None:
    """A function that counts, or None when the encoding is not on this machine."""
    import tiktoken

    folder = _offline_folder()
    if folder is None and "TIKTOKEN_CACHE_DIR" not in os.environ:
        return None
    before = os.environ.get("TIKTOKEN_CACHE_DIR")
    if before is None:
        os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
    try:
        encoding = tiktoken.get_encoding(name)
    except Exception:  # noqa: BLE001 - no file and no network: whatever tiktoken raises then
        return None
    finally:
        if before is None:
            del os.environ["TIKTOKEN_CACHE_DIR"]

    def count(text: str) -> int:
        try:
            return len(encoding.encode_ordinary(text))
        except UnicodeEncodeError:
            return len(encoding.encode_ordinary(text.encode("utf-8", "replace").decode()))

    return count


def _offline_folder() -> Path | None:
    spec = find_spec("litellm")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(place) / "litellm_core_utils" / "tokenizers"
        if folder.is_dir():
            return folder
    return None
