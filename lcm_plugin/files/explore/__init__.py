"""Describes a payload without a model: its type, shape and samples.

`explore` reads bounded samples only, so that hostile input (zip bombs, entity bombs, deep nesting, a
hundred megabytes) costs bounded time and memory, and the same bytes always give the same summary.
The bytes decide what something is; its name and declared type only break ties.
"""

from __future__ import annotations

import codecs
import logging
from collections.abc import Callable

from lcm_plugin.characters import encode
from lcm_plugin.events import log_failure
from lcm_plugin.files.content import Content
from lcm_plugin.files.explore.archives import explore_opaque_archive, explore_tar, explore_zip, unpack_head
from lcm_plugin.files.explore.base import (
    HEAD_BYTES,
    SUMMARY_CHARS,
    TAIL_BYTES,
    Exploration,
    FileOutline,
    TextSample,
    join_bounded,
)
from lcm_plugin.files.explore.binary import explore_binary, explore_sqlite, explore_wav, looks_binary
from lcm_plugin.files.explore.code import explore_code, looks_like_code
from lcm_plugin.files.explore.images import explore_image
from lcm_plugin.files.explore.logs import explore_log, looks_like_log
from lcm_plugin.files.explore.markup import (
    explore_html,
    explore_markdown,
    explore_xml,
    looks_like_html,
    looks_like_markdown,
)
from lcm_plugin.files.explore.pdf import explore_pdf
from lcm_plugin.files.explore.structured import explore_json, explore_jsonl, explore_yaml, looks_like_yaml
from lcm_plugin.files.explore.tables import explore_sql, explore_table, guess_delimiter, looks_like_sql
from lcm_plugin.files.explore.text import explore_text, is_cut

__all__ = ["SUMMARY_CHARS", "UNEXPLORED", "Exploration", "explore"]

UNEXPLORED = "unexplored"
_log = logging.getLogger(__name__)
_TextExplorer = Callable[[TextSample], "FileOutline | None"]
_BINARY = (
    explore_image,
    explore_pdf,
    explore_zip,
    explore_tar,
    explore_sqlite,
    explore_wav,
    explore_opaque_archive,
)


def explore(data: bytes | Content, name: str = "", mime: str = "") -> Exploration:
    """Explores a payload. ``name`` and ``mime`` are the host's, if it gave any.

    A text of more than some megabytes is explored as text, whatever it begins with.
    """
    content = data if isinstance(data, Content) else Content(data)
    if not content.value:
        return Exploration(mime or "application/octet-stream", "empty", 0, "Empty.")
    try:
        if isinstance(content.value, str) and len(content.value) > HEAD_BYTES + TAIL_BYTES:
            return _explore_text(_sample_of_text(content.value, content.size, name, mime))
        return _explore(content.whole(), name, mime)
    except Exception as error:  # noqa: BLE001 - a fault in an explorer must not cost the message
        log_failure(_log, "could not explore a payload of %d bytes", content.size, error=error)
        return Exploration(
            mime or "application/octet-stream", UNEXPLORED, None, f"{content.size:,} bytes, not explored."
        )


def _explore(data: bytes, name: str, mime: str) -> Exploration:
    found = next((result for explorer in _BINARY if (result := explorer(data))), None) or _compressed(
        data, name
    )
    if found is None:
        encoding = _encoding(data)
        if encoding is None:
            found = explore_binary(data, mime)
        else:
            return _explore_text(_sample(data, encoding, name, mime))
    return Exploration(found.mime, found.kind, None, join_bounded(found.lines), found.cut)


def _explore_text(sample: TextSample) -> Exploration:
    found = next((result for explorer in _text_explorers(sample) if (result := explorer(sample))), None)
    found = found or explore_text(sample)
    cut = found.cut or is_cut(sample.head, sample.tail)
    lines = ["Cut before it came here; this is not the whole."] * cut + found.lines
    return Exploration(found.mime, found.kind, sample.line_count, join_bounded(lines), cut)


def _text_explorers(sample: TextSample) -> list[_TextExplorer]:
    """The explorers worth trying on a text, the most certain first."""
    by_extension: dict[str, _TextExplorer] = {
        "md": explore_markdown,
        "markdown": explore_markdown,
        "yaml": explore_yaml,
        "yml": explore_yaml,
        "csv": lambda text: explore_table(text),
        "tsv": lambda text: explore_table(text, "\t"),
        "sql": explore_sql,
        "log": explore_log,
    }
    tried: list[_TextExplorer] = [explore_json, explore_jsonl]
    if sample.extension in by_extension:
        tried.append(by_extension[sample.extension])
    if looks_like_html(sample):
        tried.append(explore_html)
    elif sample.head.lstrip("\ufeff \t\r\n")[:1] == "<":
        tried.append(explore_xml)
    tests: list[tuple[Callable[[TextSample], bool], _TextExplorer]] = [
        (lambda text: bool(text.extension) and looks_like_code(text), explore_code),
        (looks_like_log, explore_log),
        (looks_like_sql, explore_sql),
        (lambda text: guess_delimiter(text) is not None, lambda text: explore_table(text)),
        (looks_like_code, explore_code),
        (looks_like_markdown, explore_markdown),
        (looks_like_yaml, explore_yaml),
    ]
    return tried + [explorer for test, explorer in tests if test(sample)]


def _compressed(data: bytes, name: str) -> FileOutline | None:
    unpacked = unpack_head(data)
    if unpacked is None:
        return None
    kind, mime, head = unpacked
    if not head:
        return FileOutline(kind, mime, [f"{kind} data, {len(data):,} bytes, damaged or not readable."])
    inner = explore_tar(head)
    lines = inner.lines if inner else explore(head, name.rpartition(".")[0]).summary.split("\n")
    return FileOutline(
        kind, mime, [f"{kind} data, {len(data):,} bytes. Of its first {len(head):,} bytes unpacked:", *lines]
    )


def _encoding(data: bytes) -> str | None:
    """The text encoding of bytes, or None for binary data."""
    if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    return None if looks_binary(data) else "utf-8"


def _sample(data: bytes, encoding: str, name: str, mime: str) -> TextSample:
    head, tail = data[:HEAD_BYTES], b""
    if len(data) > HEAD_BYTES:
        tail = data[max(HEAD_BYTES, len(data) - TAIL_BYTES) :] if encoding == "utf-8" else b" "
    breaks = data.count(b"\n") + (not data.endswith((b"\n", b"\n\0")))
    return TextSample(
        head.decode(encoding, "replace"),
        tail.decode("utf-8", "replace"),
        len(data),
        max(breaks, 1),
        name,
        _bare_type(mime),
    )


def _sample_of_text(text: str, size: int, name: str, mime: str) -> TextSample:
    """As `_sample` of the text's bytes, without a copy of them all."""
    head, tail = encode(text[:HEAD_BYTES])[:HEAD_BYTES], encode(text[-TAIL_BYTES:])[-TAIL_BYTES:]
    breaks = text.count("\n") + (not text.endswith(("\n", "\n\0")))
    return TextSample(
        head.decode("utf-8", "replace"),
        tail.decode("utf-8", "replace"),
        size,
        max(breaks, 1),
        name,
        _bare_type(mime),
    )


def _bare_type(mime: str) -> str:
    """A media type without its parameters."""
    return mime.partition(";")[0].strip().lower()
