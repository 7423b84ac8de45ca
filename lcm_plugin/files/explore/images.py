"""Image formats and their size in pixels, read from the first bytes of the file alone."""

from __future__ import annotations

import struct
from collections.abc import Callable

from lcm_plugin.files.explore.base import FileOutline

_MAX_SEGMENTS = 2_000


def explore_image(data: bytes) -> FileOutline | None:
    """Format, pixel size and other facts of the header; None for anything but an image."""
    for matches, reader in _READERS:
        if matches(data):
            try:
                return reader(data)
            except (struct.error, IndexError, ValueError):
                kind = reader.__name__.removeprefix("_")
                return FileOutline(kind, f"image/{kind}", [f"{kind.upper()} image with a damaged header."])
    return None


def _image(kind: str, mime: str, width: int, height: int, *notes: str) -> FileOutline:
    parts = [f"{kind.upper()} image, {width:,} x {height:,} pixels", *(note for note in notes if note)]
    return FileOutline(kind, mime, [", ".join(parts) + "."])


_PNG_COLOURS = {0: "grey", 2: "RGB", 3: "palette", 4: "grey with alpha", 6: "RGB with alpha"}


def _png(data: bytes) -> FileOutline:
    width, height, depth, colour = struct.unpack(">IIBB", data[16:26])
    animated = "animated" if b"acTL" in data[:4_096] else ""
    return _image(
        "png", "image/png", width, height, f"{depth} bit {_PNG_COLOURS.get(colour, '')}".strip(), animated
    )


def _gif(data: bytes) -> FileOutline:
    width, height = struct.unpack("<HH", data[6:10])
    return _image("gif", "image/gif", width, height, data[:6].decode("ascii"))


def _jpeg(data: bytes) -> FileOutline:
    position = 2
    for _ in range(_MAX_SEGMENTS):
        while data[position] != 0xFF:
            position += 1
        while data[position] == 0xFF:
            position += 1
        marker = data[position]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width, components = struct.unpack(">HHB", data[position + 4 : position + 9])
            colour = {1: "grey", 3: "colour", 4: "CMYK"}.get(components, "")
            return _image(
                "jpeg", "image/jpeg", width, height, colour, "progressive" if marker == 0xC2 else ""
            )
        if 0xD0 <= marker <= 0xD8 or marker == 0x01:
            position += 1
        else:
            position += 1 + max(struct.unpack(">H", data[position + 1 : position + 3])[0], 2)
    raise ValueError("no frame header")


def _webp(data: bytes) -> FileOutline:
    kind = data[12:16]
    if kind == b"VP8X":
        width = 1 + int.from_bytes(data[24:27], "little")
        height = 1 + int.from_bytes(data[27:30], "little")
        return _image("webp", "image/webp", width, height, "animated" if data[20] & 2 else "")
    if kind == b"VP8L":
        bits = struct.unpack("<I", data[21:25])[0]
        return _image("webp", "image/webp", 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF), "lossless")
    width, height = struct.unpack("<HH", data[26:30])
    return _image("webp", "image/webp", width & 0x3FFF, height & 0x3FFF)


def _bmp(data: bytes) -> FileOutline:
    if struct.unpack("<I", data[14:18])[0] == 12:
        width, height = struct.unpack("<HH", data[18:22])
    else:
        width, height = struct.unpack("<ii", data[18:26])
    return _image("bmp", "image/bmp", width, abs(height))


def _tiff(data: bytes) -> FileOutline:
    order = "<" if data[:2] == b"II" else ">"
    offset = struct.unpack(order + "I", data[4:8])[0]
    values = {}
    for index in range(min(struct.unpack(order + "H", data[offset : offset + 2])[0], 200)):
        entry = data[offset + 2 + 12 * index : offset + 14 + 12 * index]
        tag, kind = struct.unpack(order + "HH", entry[:4])
        values[tag] = struct.unpack(
            order + ("H" if kind == 3 else "I"), entry[8:10] if kind == 3 else entry[8:12]
        )[0]
    if 256 not in values or 257 not in values:
        raise ValueError("no size")
    return _image("tiff", "image/tiff", values[256], values[257])


def _ico(data: bytes) -> FileOutline:
    count = struct.unpack("<H", data[4:6])[0]
    sizes = [(data[6 + 16 * index] or 256, data[7 + 16 * index] or 256) for index in range(min(count, 64))]
    width, height = max(sizes)
    return _image("ico", "image/vnd.microsoft.icon", width, height, f"{count} sizes" if count > 1 else "")


def _heif(data: bytes) -> FileOutline:
    """AVIF and HEIC: the largest image spatial extents property among the first boxes."""
    kind = "avif" if data[8:12] in (b"avif", b"avis") else "heic"
    best, position = (0, 0), data.find(b"ispe", 0, 65_536)
    while position >= 0:
        width, height = struct.unpack(">II", data[position + 8 : position + 16])
        best = max(best, (width, height), key=lambda size: size[0] * size[1])
        position = data.find(b"ispe", position + 4, 65_536)
    return _image(kind, f"image/{kind}", *best)


_BMP_HEADERS = {size.to_bytes(4, "little") for size in (12, 40, 52, 56, 64, 108, 124)}
_HEIF_BRANDS = {b"avif", b"avis", b"heic", b"heix", b"mif1", b"hevc"}
_Matcher = Callable[[bytes], bool]
_READERS: tuple[tuple[_Matcher, Callable[[bytes], FileOutline]], ...] = (
    (lambda data: data.startswith(b"\x89PNG\r\n\x1a\n"), _png),
    (lambda data: data.startswith((b"GIF87a", b"GIF89a")), _gif),
    (lambda data: data.startswith(b"\xff\xd8\xff"), _jpeg),
    (lambda data: data[:4] == b"RIFF" and data[8:12] == b"WEBP", _webp),
    (lambda data: data.startswith(b"BM") and data[14:18] in _BMP_HEADERS, _bmp),
    (lambda data: data.startswith((b"II*\0", b"MM\0*")), _tiff),
    (lambda data: data.startswith(b"\0\0\1\0") and len(data) > 22 and 0 < data[4] < 64, _ico),
    (lambda data: data[4:8] == b"ftyp" and data[8:12] in _HEIF_BRANDS, _heif),
)
