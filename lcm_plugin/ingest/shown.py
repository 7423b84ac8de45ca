"""A stored message in the form that a model is shown.

A text that moved to a file is shown as its reference. An image, a sound, a PDF or any other attachment of moderate
size that the host gave as a block of its own is shown itself for as long as its message stands raw in the context:
a model cannot see through a reference. Where its bytes are gone, and for larger attachments, a text block with
the reference takes the block's place, since no provider accepts a reference as file data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lcm_plugin.errors import LcmError
from lcm_plugin.files.references import find_reference
from lcm_plugin.messages.blocks import media_path
from lcm_plugin.messages.parts import rebuild
from lcm_plugin.messages.paths import get_at, join_path, put_at, split_path
from lcm_plugin.messages.table import MEDIA_PATHS
from lcm_plugin.store.records import Part, StoredMessage
from lcm_plugin.types import Message

_SHOWN_TYPES = ("image/", "audio/", "video/", "application/pdf")
WHOLE_BYTES = 100_000
"""An attachment of another type goes out whole up to this size: some 25,000 tokens of text."""
_LISTS = ("content", "output")


def shown_to_models(stored: StoredMessage, read_file: Callable[[Part], Any] | None = None) -> Message:
    """The message for a model; ``read_file`` gives the original value of a part that moved."""
    message = rebuild(stored)
    for part in stored.parts:
        place = media_place(message, part.path) if part.file_id else None
        if place is None:
            continue
        value = _media_value(part, read_file)
        if value is not None:
            put_at(message, part.path, value)
        else:
            put_at(message, place, text_block(get_at(message, place), part.text))
    return message


def holds_media(stored: StoredMessage) -> bool:
    """Whether a model is shown bytes that lie in files."""
    return any(part.file_id and _holds_shown(part) for part in stored.parts)


def holds_attachments(stored: StoredMessage) -> bool:
    """Whether some of these bytes are of a type that may as well be shown as a reference."""
    return any(part.file_id and _holds_shown(part) and not _is_media_type(part.text) for part in stored.parts)


def _holds_shown(part: Part) -> bool:
    steps = tuple(split_path(part.path))
    is_block_data = any(steps[-len(suffix) :] == suffix for suffix in MEDIA_PATHS)
    return _is_shown(part.text) if is_block_data else _is_media_type(part.text)


def is_shown_media(message: Message, path: str, stand_in: str) -> bool:
    """Whether models are shown the value at ``path`` itself rather than its stand-in."""
    return _is_shown(stand_in) and media_place(message, path) is not None


def media_place(message: Message, path: str) -> str | None:
    """The path of the media block whose data stands at ``path``, if it is one."""
    steps = split_path(path)
    for suffix in MEDIA_PATHS:
        block = steps[: -len(suffix)]
        if tuple(steps[-len(suffix) :]) != suffix or len(block) < 2 or block[-2] not in _LISTS:
            continue
        holder = get_at(message, join_path(block[:-1]))
        if isinstance(holder, list) and media_path(holder[int(block[-1])]) == suffix:
            return join_path(block)
    return None


def _media_value(part: Part, read_file: Callable[[Part], Any] | None) -> Any:
    if read_file is None or not _is_shown(part.text):
        return None
    try:
        return read_file(part)
    except LcmError:
        return None


def _is_shown(stand_in: str) -> bool:
    found = find_reference(stand_in)
    return found is not None and (found.size <= WHOLE_BYTES or found.mime.startswith(_SHOWN_TYPES))


def _is_media_type(stand_in: str) -> bool:
    found = find_reference(stand_in)
    return found is not None and found.mime.startswith(_SHOWN_TYPES)


def text_block(block: Any, stand_in: str) -> Message:
    """The block of words that takes a media block's place."""
    found = find_reference(stand_in)
    kind = "input_text" if str(block.get("type", "")).startswith("input_") else "text"
    return {"type": kind, "text": stand_in[found.start :] if found else stand_in}
