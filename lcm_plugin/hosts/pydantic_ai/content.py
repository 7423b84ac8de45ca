"""What stands in a user's prompt or a tool's return, as content of a core message, and back.

Both sides are JSON values: the host's as its own adapter writes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

HOST = "pydantic_ai"
_TEXT_CONTENT = "text-content"
_MEDIA = frozenset(
    {"binary", "image-url", "audio-url", "video-url", "document-url", "uploaded-file", "cache-point"}
)


def prompt_to_core(content: Any) -> Any:
    """A user prompt: text stays text, items become blocks."""
    return [_to_block(item) for item in content] if isinstance(content, list) else content


def prompt_from_core(content: Any) -> Any:
    """The inverse of `prompt_to_core`, for content that the core may have changed."""
    if not isinstance(content, list):
        return content or ""
    return [_from_block(block) for block in content]


def return_to_core(content: Any) -> tuple[Any, str]:
    """A tool's return, and how it was written: ``text``, ``json``, ``items`` or, for one item alone, ``item``."""
    if isinstance(content, str):
        return content, "text"
    if _is_media(content):
        return [_to_block(content)], "item"
    if isinstance(content, list) and any(map(_is_media, content)):
        return [_to_block(item) for item in content], "items"
    return dumps(content), "json"


def return_from_core(content: Any, written: str) -> Any:
    """The inverse of `return_to_core`; what the core has shortened comes back as text."""
    if isinstance(content, list):
        items = [_from_block(block) for block in content]
        return items[0] if written == "item" and len(items) == 1 else items
    return _loads(content) if written == "json" else content


def dumps(value: Any) -> str:
    """A JSON value as text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def without_nones(value: Mapping[str, Any], *but: str) -> dict[str, Any]:
    """A record without some of its keys and without those that have no value."""
    return {key: item for key, item in value.items() if key not in but and item is not None}


def _to_block(item: Any) -> dict[str, Any]:
    if isinstance(item, str):
        return {"type": "text", "text": item}
    if isinstance(item, dict) and item.get("kind") == _TEXT_CONTENT:
        extra = without_nones(item, "kind", "content")
        return {"type": "text", "text": item["content"], HOST: {"kind": _TEXT_CONTENT, **extra}}
    if _is_media(item):
        return {"type": item["kind"], **without_nones(item, "kind")}
    return {"type": "text", "text": dumps(item), HOST: {"kind": "json"}}


def _from_block(block: Any) -> Any:
    if not isinstance(block, dict):
        return block
    if block.get("type") in _MEDIA:
        return {"kind": block["type"], **{key: item for key, item in block.items() if key != "type"}}
    extra, text = block.get(HOST, {}), block.get("text", "")
    if extra.get("kind") == "json":
        return _loads(text)
    return {**extra, "content": text} if extra else text


def _is_media(item: Any) -> bool:
    return isinstance(item, dict) and item.get("kind") in _MEDIA


def _loads(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text
