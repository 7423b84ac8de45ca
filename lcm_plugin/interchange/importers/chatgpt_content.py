"""The content of ChatGPT's messages: text, code, results, images, thoughts."""

from __future__ import annotations

import base64
import mimetypes
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_MAX_ASSET_BYTES = 64 * 1024 * 1024
_POINTERS = ("file-service://", "sediment://")


class Assets:
    """Images and files that lie in an export beside its conversations."""

    def __init__(self, archive: zipfile.ZipFile | None = None) -> None:
        self._archive = archive
        self._members = {Path(info.filename).name: info for info in archive.infolist()} if archive else {}

    def data_url(self, pointer: str) -> str | None:
        """A file's bytes as a data URL; None when the export does not hold it."""
        name = next((pointer.removeprefix(head) for head in _POINTERS if pointer.startswith(head)), "")
        found = next((info for file, info in self._members.items() if name and file.startswith(name)), None)
        if self._archive is None or found is None or found.file_size > _MAX_ASSET_BYTES:
            return None
        mime = mimetypes.guess_type(found.filename)[0] or "application/octet-stream"
        return f"data:{mime};base64,{base64.b64encode(self._archive.read(found)).decode()}"


def is_call(message: Mapping[str, Any]) -> bool:
    """Whether an assistant's message goes to a tool and not to the user."""
    return message.get("recipient") not in (None, "all")


def content_of(content: Any, assets: Assets) -> tuple[Any, str, dict[str, Any]]:
    """A message's content, its reasoning, and the source's content where these do not say all of it.

    Content of an unknown type comes back as one block of the type ``agent``.
    """
    if not isinstance(content, dict):
        return ("" if content is None else content), "", {}
    kind, parts = content.get("content_type"), content.get("parts")
    if kind in ("thoughts", "reasoning_recap"):
        return "", _reasoning(content), content
    if isinstance(parts, list):
        if all(isinstance(part, str) for part in parts):
            text = "\n".join(parts)
            more = {key: value for key, value in content.items() if key not in ("content_type", "parts")}
            return text, "", content if more or len(parts) > 1 else {}
        return [_block(part, assets) for part in parts], "", content
    for key in ("text", "result", "user_instructions"):
        if isinstance(content.get(key), str):
            more = {name: value for name, value in content.items() if name != key}
            return content[key], "", more
    return [{"type": "agent", "content": content}], "", {}


def _reasoning(content: Mapping[str, Any]) -> str:
    thoughts = content.get("thoughts")
    if not isinstance(thoughts, list):
        return str(content.get("content") or "")
    lines = [
        "\n".join(str(thought[key]) for key in ("summary", "content") if thought.get(key))
        for thought in thoughts
        if isinstance(thought, dict)
    ]
    return "\n\n".join(lines)


def _block(part: Any, assets: Assets) -> Any:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, dict):
        return {"type": "text", "text": f"[{type(part).__name__}]"}
    pointer = part.get("asset_pointer")
    if isinstance(pointer, str):
        url = assets.data_url(pointer)
        kind = str(part.get("content_type", ""))
        if url is not None and "image" in kind:
            return {"type": "image_url", "image_url": {"url": url}}
        if url is not None:
            return {"type": "file", "file": {"file_data": url, "filename": pointer}}
        return {"type": "text", "text": f"[{kind.replace('_', ' ')}: {pointer}]"}
    text = part.get("text")
    return {
        "type": "text",
        "text": text if isinstance(text, str) else f"[{part.get('content_type', 'part')}]",
    }
