"""Files that another tool moved out of its messages, brought back in as file blocks of the message.

Only files below the folder of its database are read: a database must not be able to name any other file.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lcm_plugin.types import Message

_REFERENCE = re.compile(r"\bfile_[0-9a-f]{16}\b")
_MAX_BYTES = 256 * 1024 * 1024


def attached(
    message: Message, files: Mapping[str, Mapping[str, Any]], folder: Path
) -> tuple[Message, list[str]]:
    """The message with the files that its texts refer to, and the ids of those that are gone."""
    if not files:
        return message, []
    wanted = [ref for ref in dict.fromkeys(_REFERENCE.findall(_texts(message))) if ref in files]
    found = {
        ref: data
        for ref in wanted
        if (data := _bytes(str(files[ref]["storage_uri"] or ""), folder)) is not None
    }
    missing = [ref for ref in wanted if ref not in found]
    if not found:
        return message, missing
    content = message["content"]
    blocks = list(content) if isinstance(content, list) else [{"type": "text", "text": content}]
    blocks += [_file_block(ref, files[ref], data) for ref, data in found.items()]
    return {**message, "content": blocks}, missing


def _file_block(ref: str, about: Mapping[str, Any], data: bytes) -> dict[str, Any]:
    mime = about["mime_type"] or "application/octet-stream"
    url = f"data:{mime};base64,{base64.b64encode(data).decode()}"
    return {"type": "file", "file": {"filename": about["file_name"] or ref, "file_data": url}}


def _bytes(uri: str, folder: Path) -> bytes | None:
    path = Path(uri.removeprefix("file://")).expanduser()
    try:
        real = (path if path.is_absolute() else folder / path).resolve(strict=True)
        if (
            not real.is_relative_to(folder.resolve())
            or not real.is_file()
            or real.stat().st_size > _MAX_BYTES
        ):
            return None
        return real.read_bytes()
    except (OSError, ValueError):
        return None


def _texts(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "\n".join(_texts(item) for item in value.values())
    return "\n".join(_texts(item) for item in value) if isinstance(value, list) else ""
