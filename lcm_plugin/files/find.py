"""Finds the payloads that move from a message into files.

Two kinds of value move: a text above the token threshold, and an inline base64 blob (an image block,
a data URL, a long base64 run inside a text). A payload names the slice of the string it replaces and
how to turn the file's bytes back into exactly that slice: base64 is decoded for the file only when
encoding it again gives the identical characters.
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lcm_plugin.characters import storable
from lcm_plugin.config import INSTRUCTION_FILES
from lcm_plugin.files.content import Content
from lcm_plugin.files.references import MARK, reference_id
from lcm_plugin.messages.blocks import Call
from lcm_plugin.messages.paths import join_path
from lcm_plugin.messages.sendable import parse_json
from lcm_plugin.types import Message

Steps = tuple[str | int, ...]

OWN_TOOL_PREFIX = "lcm_"
_CHARS_PER_TOKEN_MAX = 64
_BARE_MIN_CHARS = 4_096
_EMBEDDED_MIN_CHARS = 512
_DISTINCT_MIN = 32
_WHOLE_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?((?:;[\w=.+\"-]+)*);base64,")
_EMBEDDED = re.compile(
    rf"data:[\w.+-]+/[\w.+-]+(?:;[\w=.+-]+)*;base64,(?P<url>[A-Za-z0-9+/_-]{{{_EMBEDDED_MIN_CHARS},}}={{0,2}})"
    rf"|(?<![A-Za-z0-9+/_-])(?P<bare>[A-Za-z0-9+/_-]{{{_BARE_MIN_CHARS},}}={{0,2}})(?![A-Za-z0-9+/_=-])"
)
_BINARY_KEYS = frozenset(
    {"data", "file_data", "image", "base64", "b64_json", "bytes", "blob", "url", "image_url"}
)
_MIME_KEYS = ("media_type", "mime_type", "mimeType", "mediaType", "content_type")
_NAME_KEYS = ("filename", "file_name", "name", "title", "path")
_IDENTITY_KEYS = frozenset(
    {"role", "id", "tool_call_id", "tool_use_id", "call_id", "signature", "encrypted_content"}
)
_FORMAT_MIMES = {
    name: f"audio/{kind}"
    for name, kind in (("wav", "wav"), ("mp3", "mpeg"), ("flac", "flac"), ("ogg", "ogg"), ("pcm16", "pcm"))
}
_PATH_ARGUMENTS = ("path", "file_path", "filepath", "filename", "file", "uri")


@dataclass(frozen=True, slots=True)
class Payload:
    """One slice of one string of a message that moves to a file.

    ``path`` leads to the string ("content", "content.1.image_url.url"; a dot within a key is written
    ``\\.``), ``start`` and ``end`` are its slice, ``encoding`` says how `decode` makes that slice
    from the bytes: ``utf-8`` or ``base64`` with its variant.
    """

    path: str
    start: int
    end: int
    content: Content
    encoding: str
    mime: str
    name: str


def find_payloads(
    message: Message,
    count: Callable[[str], int],
    threshold_tokens: int,
    *,
    call: Call | None = None,
    exempt: Sequence[str] = INSTRUCTION_FILES,
) -> list[Payload]:
    """The payloads of a message, ordered by path and position; slices never overlap.

    ``call`` is the tool call that this message answers, when it does: results of this package's own
    tools never move, and the text of instruction files (``exempt``, name patterns) stays inline.
    """
    if _is_own_result(message, call):
        return []

    def moves(text: str) -> bool:
        # Last, since a call's arguments are read for it.
        return _is_large(text, count, threshold_tokens) and not _reads_instructions(call, exempt)

    found: list[Payload] = []
    for path, key, value, holder in _strings(message):
        found += _in_string(path, key, value, holder, moves)
    return found


def decode(data: bytes, encoding: str) -> str:
    """The exact characters of a payload's slice from its bytes."""
    name, _, wrap = encoding.partition(",")
    if name == "utf-8":
        return data.decode("utf-8", "surrogatepass")
    return _to_base64(data, name, wrap)


def encode_as(data: bytes, encoding: str) -> str:
    """Other bytes in a payload's own base64 variant and line breaks."""
    name, _, wrap = encoding.partition(",")
    return _to_base64(data, name, wrap)


def replace_slices(text: str, slices: Sequence[tuple[int, int, str]]) -> str:
    """The text with each (start, end, replacement) applied; slices are ascending and do not overlap."""
    pieces, done = [], 0
    for start, end, replacement in slices:
        pieces += [text[done:start], replacement]
        done = end
    return "".join([*pieces, text[done:]])


def _in_string(
    steps: Steps,
    key: str,
    value: str,
    holder: Mapping[str, Any],
    moves: Callable[[str], bool],
) -> list[Payload]:
    blob = _whole_blob(steps, key, value, holder)
    if blob is not None:
        return [blob]
    embedded = _embedded_blobs(steps, value)
    rest = replace_slices(value, [(item.start, item.end, "") for item in embedded]) if embedded else value
    if moves(rest) and reference_id(value) is None:
        mime = _holder_mime(holder) or ("application/json" if key == "arguments" else "")
        name = _holder_name(holder)
        return [Payload(join_path(steps), 0, len(value), Content(value), "utf-8", mime, name)]
    return embedded


def _is_large(text: str, count: Callable[[str], int], threshold: int) -> bool:
    if len(text) * (1 if text.isascii() else 4) <= threshold:
        return False
    return len(text) > threshold * _CHARS_PER_TOKEN_MAX or count(text) > threshold


def _whole_blob(steps: Steps, key: str, value: str, holder: Mapping[str, Any]) -> Payload | None:
    """The payload of a value that is nothing but a blob: a data URL, or a binary block's data."""
    url = _WHOLE_URL.match(value)
    if url is not None:
        start, mime = url.end(), url.group(1) or "text/plain"
    elif key in _BINARY_KEYS and (_holder_mime(holder) or holder.get("type") in ("base64", "image", "audio")):
        start, mime = 0, _holder_mime(holder)
    else:
        return None
    decoded = _from_base64(value[start:])
    if decoded is None:
        return None
    data, encoding = decoded
    name = _holder_name(holder)
    return Payload(join_path(steps), start, len(value), Content(data), encoding, mime, name)


def _embedded_blobs(steps: Steps, value: str) -> list[Payload]:
    if not _has_long_run(value):
        return []
    found = []
    for match in _EMBEDDED.finditer(value):
        group = "url" if match.group("url") else "bare"
        text = match.group(group)
        if group == "bare" and not _looks_encoded(text):
            continue
        decoded = _from_base64(text)
        if decoded is not None:
            data, encoding = decoded
            head = value[match.start() : match.start("url")] if group == "url" else ""
            mime = head.removeprefix("data:").partition(";")[0]
            found.append(Payload(join_path(steps), *match.span(group), Content(data), encoding, mime, ""))
    return found


def _has_long_run(value: str) -> bool:
    """Whether a blob may be in a text: one is ASCII without blanks, and looking for others is far cheaper than searching."""
    start, length, is_ascii, rfind = 0, len(value), value.isascii(), value.rfind
    while (end := start + _EMBEDDED_MIN_CHARS) <= length:
        if not is_ascii and not (window := value[start:end]).isascii():
            start += _ascii_tail(window)
            continue
        blank = rfind(" ", start, end)
        if blank < 0:
            blank = max(rfind("\n", start, end), rfind("\t", start, end), rfind("\r", start, end))
        if blank < 0:
            return True
        start = blank + 1
    return False


def _ascii_tail(text: str) -> int:
    """Where the ASCII characters at the end of a text begin that has others."""
    low, high = 0, len(text)
    while high - low > 1 and text[high - 1].isascii():
        middle = (low + high) // 2
        if text[middle:].isascii():
            high = middle
        else:
            low = middle
    return high


def _looks_encoded(text: str) -> bool:
    """Whether a run of letters is base64 of something rather than a word, a hex dump or a repeat."""
    return len(set(text[:_BARE_MIN_CHARS])) >= _DISTINCT_MIN


def _from_base64(text: str) -> tuple[bytes, str] | None:
    """Bytes and variant of a base64 text, or None when encoding again would not give it back."""
    wrap, flat = _unwrap(text)
    if not flat:
        return None
    name = "base64url" if "-" in flat or "_" in flat else "base64"
    if len(flat) % 4 and not flat.endswith("="):
        name += "-nopad"
    try:
        standard = flat.translate(_TO_STANDARD) if name.startswith("base64url") else flat
        data = binascii.a2b_base64(
            standard + "=" * (-len(flat) % 4 if name.endswith("nopad") else 0), strict_mode=True
        )
    except (binascii.Error, ValueError):
        return None
    encoding = f"{name},{wrap}" if wrap else name
    return (data, encoding) if decode(data, encoding) == text else None


_TO_STANDARD = str.maketrans("-_", "+/")
_BREAKS = {"lf": "\n", "crlf": "\r\n"}


def _unwrap(text: str) -> tuple[str, str]:
    """How a base64 text is broken into lines ("76lf", "64crlf.", "." for a final break), and it unbroken."""
    end = text.find("\n", 0, 1_024)
    if end <= 0:
        return "", text
    kind = "crlf" if text[end - 1] == "\r" else "lf"
    width = end - (kind == "crlf")
    final = "." if text.endswith(_BREAKS[kind]) else ""
    return f"{width}{kind}{final}", text.replace(_BREAKS[kind], "")


def _to_base64(data: bytes, name: str, wrap: str) -> str:
    flat = (base64.urlsafe_b64encode if name.startswith("base64url") else base64.b64encode)(data).decode(
        "ascii"
    )
    if name.endswith("-nopad"):
        flat = flat.rstrip("=")
    if not wrap:
        return flat
    match = re.fullmatch(r"(\d+)(lf|crlf)(\.?)", wrap)
    if match is None:
        raise ValueError(f"unknown base64 line breaks {wrap!r}")
    width, line_break = int(match.group(1)), _BREAKS[match.group(2)]
    lines = [flat[start : start + width] for start in range(0, len(flat), width)]
    return line_break.join(lines) + (line_break if match.group(3) else "")


def _strings(message: Message) -> Iterator[tuple[Steps, str, str, Mapping[str, Any]]]:
    """Every string value: the steps to it, its key, the string, and the mapping that holds it."""
    opened: list[tuple[Steps, str | None, Mapping[str, Any], Iterator[tuple[Any, Any]]]]
    opened = [((), None, message, iter(message.items()))]
    while opened:
        path, list_key, holder, waiting = opened[-1]
        for step, value in waiting:
            key = step if list_key is None else list_key
            if isinstance(value, str):
                if key not in _IDENTITY_KEYS:
                    yield (*path, step), key, value, holder
            elif isinstance(value, (dict, Mapping)):
                opened.append(((*path, step), None, value, iter(value.items())))
                break
            elif isinstance(value, (list, tuple)):
                opened.append(((*path, step), key, holder, iter(enumerate(value))))
                break
        else:
            opened.pop()


def _holder_mime(holder: Mapping[str, Any]) -> str:
    for key in _MIME_KEYS:
        if isinstance(holder.get(key), str):
            return _label(holder[key])
    return _FORMAT_MIMES.get(str(holder.get("format", "")), "")


def _holder_name(holder: Mapping[str, Any]) -> str:
    for key in _NAME_KEYS:
        if isinstance(holder.get(key), str):
            return _label(holder[key])
    return ""


def _label(text: str) -> str:
    """A name or type as any database takes it."""
    return storable(text[:200])


def _is_own_result(message: Message, call: Call | None) -> bool:
    if message.get("role") != "tool":
        return False
    names = [message.get("name"), call.name if call else None]
    return any(str(name).startswith(OWN_TOOL_PREFIX) for name in names if name)


def _reads_instructions(call: Call | None, exempt: Sequence[str]) -> bool:
    arguments = call.arguments if call else None
    if isinstance(arguments, str) and len(arguments) < 65_536:
        try:
            arguments = parse_json(arguments)
        except ValueError:
            return False
    if not isinstance(arguments, Mapping):
        return False
    paths = [str(arguments[key]) for key in _PATH_ARGUMENTS if isinstance(arguments.get(key), str)]
    return any(_matches(path, pattern) for path in paths for pattern in exempt)


def _matches(path: str, pattern: str) -> bool:
    subject = path if "/" in pattern else path.replace("\\", "/").rpartition("/")[2]
    return fnmatch.fnmatchcase(subject, pattern)


def mentions_reference(message: Message) -> bool:
    """Whether any string of a message may hold a reference."""
    for key, value in message.items():
        if isinstance(value, str):
            if MARK in value and key not in _IDENTITY_KEYS:
                return True
        elif value and any(MARK in inner for _, _, inner, _ in _strings({key: value})):
            return True
    return False
