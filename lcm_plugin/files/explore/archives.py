"""Archives and compressed files: their members and, in bounded measure, their content.

Nothing is unpacked beyond `_UNPACKED` bytes, whatever an archive declares, and headers are read here
rather than by `tarfile`, some versions of which loop on crafted ones.
"""

from __future__ import annotations

import bz2
import io
import lzma
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator

from lcm_plugin.files.explore.base import FileOutline, listed, one_line
from lcm_plugin.text import plural

_UNPACKED = 1 << 20
_DIRECTORY_MAX = 4 << 20
_MEMBERS = 5_000
_LZMA_MEMORY = 64 << 20
_OFFICE = {
    "word/document.xml": (
        "docx",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "Word document",
    ),
    "xl/workbook.xml": (
        "xlsx",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "Excel workbook",
    ),
    "ppt/presentation.xml": (
        "pptx",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "PowerPoint presentation",
    ),
    "META-INF/MANIFEST.MF": ("jar", "application/java-archive", "Java archive"),
    "META-INF/container.xml": ("epub", "application/epub+zip", "EPUB book"),
    "AndroidManifest.xml": ("apk", "application/vnd.android.package-archive", "Android package"),
    "content.xml": ("odf", "application/vnd.oasis.opendocument", "OpenDocument file"),
}


def explore_zip(data: bytes) -> FileOutline | None:
    """A ZIP archive's members and sizes, from its directory alone."""
    if not data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return None
    end = data.rfind(b"PK\x05\x06", max(0, len(data) - 66_000))
    if end < 0 or len(data) < end + 22:
        return FileOutline("zip", "application/zip", ["ZIP archive, cut off: it has no directory."], cut=True)
    declared, size = struct.unpack("<HI", data[end + 10 : end + 16])
    if size > _DIRECTORY_MAX:
        return FileOutline(
            "zip",
            "application/zip",
            [f"ZIP archive, {declared:,} or more members; directory too large to list."],
        )
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, struct.error, ValueError, NotImplementedError, OSError, IndexError):
        return FileOutline("zip", "application/zip", ["ZIP archive with a damaged directory."])
    names = {member.filename for member in members}
    kind, mime, title = next(
        (found for mark, found in _OFFICE.items() if mark in names), ("zip", "application/zip", "ZIP archive")
    )
    entries = [(member.filename, member.file_size) for member in members if not member.is_dir()]
    unpacked = sum(length for _, length in entries)
    note = " An unusual ratio: do not unpack without limits." if unpacked > 200 * max(len(data), 1) else ""
    locked = " Encrypted." if any(member.flag_bits & 1 for member in members) else ""
    lines = [
        f"{title}: {plural(len(entries), 'file')}, {unpacked:,} bytes unpacked.{locked}{note}",
        *_listing(entries),
    ]
    return FileOutline(kind, mime, lines)


def explore_tar(data: bytes) -> FileOutline | None:
    """A tar archive's members and sizes."""
    if data[257:262] != b"ustar":
        return None
    entries = list(_tar_members(data))
    more = " or more" if len(entries) >= _MEMBERS else ""
    total = sum(size for _, size in entries)
    return FileOutline(
        "tar",
        "application/x-tar",
        [f"Tar archive: {len(entries):,}{more} files, {total:,} bytes.", *_listing(entries)],
    )


def _tar_members(data: bytes) -> Iterator[tuple[str, int]]:
    position, long_name, found = 0, "", 0
    while position + 512 <= len(data) and found < _MEMBERS:
        header = data[position : position + 512]
        if not header.strip(b"\0"):
            return
        try:
            size = int(header[124:136].strip(b" \0") or b"0", 8)
        except ValueError:
            return
        kind = header[156:157]
        body = data[position + 512 : position + 512 + min(size, 4_096)]
        if kind == b"L":
            long_name = body.rstrip(b"\0").decode("utf-8", "replace")
        elif kind in (b"0", b"\0", b"7"):
            name = header[:100].rstrip(b"\0").decode("utf-8", "replace")
            prefix = (
                header[345:500].rstrip(b"\0").decode("utf-8", "replace") if header[263:265] == b"00" else ""
            )
            yield long_name or (f"{prefix}/{name}" if prefix else name), size
            long_name, found = "", found + 1
        elif kind not in (b"x", b"g"):
            long_name = ""
        if size < 0:
            return
        position += 512 + (size + 511) // 512 * 512


def _listing(entries: list[tuple[str, int]]) -> list[str]:
    lines = []
    kinds = Counter(
        name.rpartition(".")[2].lower() if "." in name.rpartition("/")[2] else "no extension"
        for name, _ in entries
    )
    if len(entries) > 3:
        lines.append(
            f"Kinds: {listed([f'{one_line(kind, 20)} {count:,}' for kind, count in kinds.most_common()], 10)}"
        )
    lines += [f"- {one_line(name, 120)} ({size:,})" for name, size in entries[:40]]
    return lines + ([f"- … {plural(len(entries) - 40, 'more file')}"] if len(entries) > 40 else [])


_COMPRESSED = {
    b"\x1f\x8b": ("gzip", "application/gzip"),
    b"BZh": ("bzip2", "application/x-bzip2"),
    b"\xfd7zXZ\0": ("xz", "application/x-xz"),
}
_LISTED_ONLY = {
    b"7z\xbc\xaf\x27\x1c": ("7z", "application/x-7z-compressed", "7-Zip archive"),
    b"Rar!\x1a\x07": ("rar", "application/vnd.rar", "RAR archive"),
    b"\x28\xb5\x2f\xfd": ("zstd", "application/zstd", "Zstandard data"),
}


def explore_opaque_archive(data: bytes) -> FileOutline | None:
    """An archive of a kind that nothing here can list."""
    for magic, (kind, mime, title) in _LISTED_ONLY.items():
        if data.startswith(magic):
            return FileOutline(kind, mime, [f"{title}, not listed."])
    return None


def unpack_head(data: bytes) -> tuple[str, str, bytes] | None:
    """Kind, type and the first unpacked bytes of a compressed file; None when it is none."""
    for magic, (kind, mime) in _COMPRESSED.items():
        if data.startswith(magic):
            return kind, mime, _inflate(kind, data)
    return None


def _inflate(kind: str, data: bytes) -> bytes:
    try:
        if kind == "gzip":
            return zlib.decompressobj(wbits=31).decompress(data, _UNPACKED)
        if kind == "bzip2":
            return bz2.BZ2Decompressor().decompress(data, _UNPACKED)
        return lzma.LZMADecompressor(memlimit=_LZMA_MEMORY).decompress(data, _UNPACKED)
    except (zlib.error, OSError, ValueError, lzma.LZMAError, EOFError):
        return b""
