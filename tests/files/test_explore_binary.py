"""Images, documents, archives and other binary data, made here by real writers where there are any."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sqlite3
import struct
import tarfile
import wave
import zipfile
import zlib
from pathlib import Path

import pytest

from lcm_plugin.files.explore import explore
from lcm_plugin.files.explore.pdf import explore_pdf


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n"
        + header
        + chunk(b"IDAT", zlib.compress(b"\0" * (width * 4 + 1) * height))
        + chunk(b"IEND", b"")
    )


JPEG = (
    b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00\xff\xe1\x00\x08\xff\xc0\x00\x11ab"[
        :-2
    ]
    + b"\xff\xfe\x00\x06note\xff\xc2\x00\x11\x08"
    + struct.pack(">HH", 480, 640)
    + b"\x03\x01\x22\x00"
)
BMP = b"BM" + b"\0" * 12 + struct.pack("<Iii", 40, 30, -20) + b"\0" * 30
TIFF = b"II*\0" + struct.pack("<IHHHIIHHII", 8, 2, 256, 3, 1, 70, 257, 4, 1, 50)
ICO = b"\0\0\1\0\2\0" + bytes([16, 16]) + b"\0" * 14 + bytes([0, 0]) + b"\0" * 14
WEBP = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\x02\0\0\0" + (99).to_bytes(3, "little") + (49).to_bytes(3, "little")
AVIF = b"\0\0\0\x18ftypavif" + b"\0" * 20 + b"\0\0\0\x14ispe\0\0\0\0" + struct.pack(">II", 320, 200)
IMAGES = {
    "png": (png(12, 34), "12 x 34 pixels, 8 bit RGB with alpha"),
    "gif": (b"GIF89a" + struct.pack("<HH", 7, 9) + b"\0" * 10, "7 x 9 pixels"),
    "jpeg": (JPEG, "640 x 480 pixels, colour, progressive"),
    "bmp": (BMP, "30 x 20 pixels"),
    "tiff": (TIFF, "70 x 50 pixels"),
    "ico": (ICO, "256 x 256 pixels, 2 sizes"),
    "webp": (WEBP, "100 x 50 pixels, animated"),
    "avif": (AVIF, "320 x 200 pixels"),
}


@pytest.mark.parametrize("kind", IMAGES)
def test_an_image_tells_its_format_and_size(kind: str) -> None:
    data, told = IMAGES[kind]
    explored = explore(data)
    assert explored.kind == kind
    assert explored.mime.startswith("image/")
    assert explored.line_count is None
    assert told in explored.summary


@pytest.mark.parametrize("kind", IMAGES)
def test_an_image_cut_after_its_first_bytes_is_still_known(kind: str) -> None:
    for length in range(24, len(IMAGES[kind][0])):
        assert explore(IMAGES[kind][0][:length]).summary


def test_a_zip_lists_its_members_without_unpacking() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(50):
            archive.writestr(f"src/file{i}.py", "x = 1\n")
        archive.writestr("bomb.bin", b"\0" * 50_000_000)
    explored = explore(out.getvalue())
    assert explored.kind == "zip"
    for part in (
        "51 files",
        "50,000,300 bytes unpacked",
        "do not unpack",
        "py 50",
        "src/file0.py (6)",
        "11 more files",
    ):
        assert part in explored.summary


@pytest.mark.parametrize(
    ("member", "kind"),
    [("word/document.xml", "docx"), ("xl/workbook.xml", "xlsx"), ("META-INF/MANIFEST.MF", "jar")],
)
def test_documents_that_are_zips_are_named(member: str, kind: str) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(member, "<x/>")
    assert explore(out.getvalue()).kind == kind


def test_a_zip_cut_off_says_so() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.txt", "hello" * 100)
    explored = explore(out.getvalue()[:200])
    assert explored.truncated
    assert "cut off" in explored.summary


def tar_of(names: list[str], mode: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = 5
            archive.addfile(info, io.BytesIO(b"hello"))
    return out.getvalue()


LONG = "deep/" * 30 + "name.txt"


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_a_tar_lists_its_members_packed_or_not(mode: str) -> None:
    summary = explore(tar_of(["a/b.txt", LONG, "c.md"], mode)).summary
    assert "Tar archive: 3 files, 15 bytes" in summary
    assert "a/b.txt (5)" in summary
    assert "deep/deep/" in summary


def test_a_tar_whose_sizes_point_backwards_ends() -> None:
    data = bytearray(tar_of(["a.txt"], "w"))
    data[124:136] = b"-00000000001"
    assert "Tar archive" in explore(bytes(data)).summary


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_packed_text_is_looked_into(pack: object) -> None:
    data = pack(b'{"name": "inner", "n": 1}')  # type: ignore[operator]
    explored = explore(data)
    assert explored.kind in ("gzip", "bzip2", "xz")
    assert "JSON object of 2 keys" in explored.summary


def test_damaged_packed_data_is_told() -> None:
    assert "damaged" in explore(b"\x1f\x8b\x08\x00garbage").summary


def test_a_database_names_its_tables(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE people (id INTEGER, name TEXT)")
    connection.close()
    explored = explore(path.read_bytes())
    assert explored.kind == "sqlite"
    assert "Tables: people" in explored.summary


def test_sound_tells_its_length() -> None:
    out = io.BytesIO()
    with wave.open(out, "wb") as sound:
        sound.setnchannels(2)
        sound.setsampwidth(2)
        sound.setframerate(8_000)
        sound.writeframes(b"\0" * 4 * 12_000)
    assert explore(out.getvalue()).summary == "WAV audio: 1.5 s, 2 channels, 8,000 Hz."


def test_other_binary_data_shows_its_first_bytes_and_readable_runs() -> None:
    explored = explore(
        b"\x01\x02\x03\x04" * 20 + b"libexample.so.6\0" + b"\xff" * 50, mime="application/x-thing"
    )
    assert (explored.kind, explored.mime) == ("binary", "application/x-thing")
    assert "01 02 03 04" in explored.summary
    assert "libexample.so.6" in explored.summary


def pdf(pages: int, title: str, text: str) -> bytes:
    """A small PDF, written by hand: a catalogue, pages with one line of text each, and its information."""
    body = f"BT /F1 24 Tf 72 700 Td ({text}) Tj ET"
    kids = " ".join(f"{4 + 2 * i} 0 R" for i in range(pages))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {pages} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for i in range(pages):
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * i} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(body)} >>\nstream\n{body}\nendstream")
    objects.append(f"<< /Title ({title}) >>")
    out, offsets = "%PDF-1.4\n", []
    for number, item in enumerate(objects, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{item}\nendobj\n"
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    trailer = f"<< /Size {len(objects) + 1} /Root 1 0 R /Info {len(objects)} 0 R >>"
    return (
        out
        + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer\n{trailer}\nstartxref\n{len(out)}\n%%EOF"
    ).encode()


def test_a_pdf_tells_pages_title_and_text() -> None:
    pytest.importorskip("pypdf")
    explored = explore(pdf(3, "The report", "Hello from page"))
    assert (explored.kind, explored.mime) == ("pdf", "application/pdf")
    for part in ("3 pages", "Title: The report", "Text begins: Hello from page"):
        assert part in explored.summary


def test_a_pdf_is_described_without_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "")
    found = explore_pdf(pdf(3, "The report", "Hello"))
    assert found is not None
    assert found.lines[0].startswith("PDF document: at least 3 pages")
    assert "Title: The report" in found.lines


@pytest.mark.parametrize("data", [b"%PDF-1.7\n" + b"\xff" * 500, b"%PDF-", pdf(1, "x", "y")[:300]])
def test_a_damaged_pdf_is_told_as_far_as_it_can_be_seen(data: bytes) -> None:
    assert "PDF document" in explore(data).summary
