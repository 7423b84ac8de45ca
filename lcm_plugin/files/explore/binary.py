"""Other binary data: recognised by its first bytes, described by its header."""

from __future__ import annotations

import re
import struct

from lcm_plugin.files.explore.base import FileOutline, listed, one_line

_SCAN = 8 << 20
_PRINTABLE = re.compile(rb"[\x20-\x7e]{6,120}")
_MAGIC: tuple[tuple[int, bytes, str, str, str], ...] = (
    (0, b"ID3", "mp3", "audio/mpeg", "MP3 audio"),
    (0, b"\xff\xfb", "mp3", "audio/mpeg", "MP3 audio"),
    (0, b"OggS", "ogg", "audio/ogg", "Ogg audio or video"),
    (0, b"fLaC", "flac", "audio/flac", "FLAC audio"),
    (4, b"ftyp", "mp4", "video/mp4", "MP4 audio or video"),
    (0, b"\x1a\x45\xdf\xa3", "matroska", "video/x-matroska", "Matroska or WebM video"),
    (0, b"\x7fELF", "elf", "application/x-elf", "ELF program or library"),
    (0, b"MZ", "exe", "application/vnd.microsoft.portable-executable", "Windows program or library"),
    (0, b"\xca\xfe\xba\xbe", "class", "application/java-vm", "Java class or universal program"),
    (0, b"\0asm", "wasm", "application/wasm", "WebAssembly module"),
    (0, b"PAR1", "parquet", "application/vnd.apache.parquet", "Parquet table"),
    (0, b"ARROW1", "arrow", "application/vnd.apache.arrow.file", "Arrow table"),
    (0, b"wOF2", "woff2", "font/woff2", "WOFF2 font"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "ole", "application/x-ole-storage", "Old Office document"),
)


def explore_sqlite(data: bytes) -> FileOutline | None:
    """A SQLite database: page size, pages, and the tables its first pages define."""
    if not data.startswith(b"SQLite format 3\0") or len(data) < 100:
        return None
    page = struct.unpack(">H", data[16:18])[0]
    page = 65_536 if page == 1 else page
    pages = struct.unpack(">I", data[28:32])[0]
    tables = re.findall(
        rb"CREATE (?:VIRTUAL )?TABLE (?:IF NOT EXISTS )?[\"'`\[]?(\w{1,80})", data[: 256 << 10], re.ASCII
    )
    names = sorted({name.decode("ascii", "replace") for name in tables})
    lines = [f"SQLite database: {pages:,} pages of {page:,} bytes."]
    return FileOutline(
        "sqlite", "application/vnd.sqlite3", lines + ([f"Tables: {listed(names, 40)}"] if names else [])
    )


def explore_wav(data: bytes) -> FileOutline | None:
    """WAV audio: rate, channels and length."""
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        return None
    form = data.find(b"fmt ", 12, 4_096)
    if form < 0 or len(data) < form + 24:
        return FileOutline("wav", "audio/wav", ["WAV audio with a damaged header."])
    channels, rate, per_second = struct.unpack("<HII", data[form + 10 : form + 20])
    body = data.find(b"data", 12, 65_536)
    size = struct.unpack("<I", data[body + 4 : body + 8])[0] if 0 <= body <= len(data) - 8 else len(data)
    seconds = min(size, len(data)) / per_second if per_second else 0.0
    return FileOutline("wav", "audio/wav", [f"WAV audio: {seconds:.1f} s, {channels} channels, {rate:,} Hz."])


def explore_binary(data: bytes, mime: str) -> FileOutline:
    """Any other binary data: its kind when the first bytes tell, and some of the text in it."""
    for offset, magic, kind, known, title in _MAGIC:
        if data[offset : offset + len(magic)] == magic:
            return FileOutline(kind, known, [f"{title}, {len(data):,} bytes.", *_strings(data)])
    lines = [f"Binary data, {len(data):,} bytes. First bytes: {data[:16].hex(' ')}", *_strings(data)]
    return FileOutline("binary", mime or "application/octet-stream", lines)


def _strings(data: bytes) -> list[str]:
    """Readable runs near the start, which often name the program or the format."""
    runs = [match.decode("ascii") for match in _PRINTABLE.findall(data[: 64 << 10])[:12]]
    return [f"Readable: {one_line(' | '.join(runs), 300)}"] if runs else []


def looks_binary(data: bytes) -> bool:
    """Whether bytes are no text: NUL or control bytes, or hardly any valid UTF-8."""
    head = data[:8_192]
    if not head:
        return False
    controls = len(head.translate(None, _TEXT_BYTES))
    if controls > 0.05 * len(head):
        return True
    broken = head.decode("utf-8", "replace").count("\ufffd") - head.count(b"\xef\xbf\xbd")
    return broken > 0.3 * len(head)


_TEXT_BYTES = bytes([7, 8, 9, 10, 12, 13, 27, *range(32, 256)])
