"""Compressed files, as Codex keeps its older rollouts: unpacked into a place that is gone afterwards."""

from __future__ import annotations

import gzip
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lcm_plugin.errors import InputError

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_SUFFIXES = frozenset({".gz", ".zst"})
_PIECE = 64 * 1024


def plain_name(path: Path) -> str:
    """A file's name without the suffix of its compression."""
    return path.stem if path.suffix.lower() in _SUFFIXES else path.name


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """The file itself; for a gzip or Zstandard file its contents, under its name without that suffix.

    Memory is bounded; the contents take their size on disk. Raises `InputError` for contents that cannot be unpacked.
    """
    head = _head(path)
    if not head.startswith((_GZIP, _ZSTD)):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="lcm-import-") as folder:
        plain = Path(folder) / plain_name(path)
        pieces = _gzip_pieces(path) if head.startswith(_GZIP) else _zstd_pieces(path)
        with plain.open("wb") as file:
            file.writelines(pieces)
        yield plain


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(4)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error


def _gzip_pieces(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path, "rb") as packed:
            while piece := packed.read(_PIECE):
                yield piece
    except (EOFError, OSError) as error:
        raise InputError(f"{path}: cannot be unpacked: {error}") from error


def _zstd_pieces(path: Path) -> Iterator[bytes]:
    """The contents of all frames. A file object of the package takes a frame that ends early for a whole one."""
    frame = _new_frame(path)
    with path.open("rb") as packed:
        while data := packed.read(_PIECE):
            while data:
                if frame.eof:
                    frame = _new_frame(path)
                try:
                    yield frame.decompress(data)
                except Exception as error:  # the two modules have no error class in common
                    raise InputError(f"{path}: cannot be unpacked: {error}") from error
                data = frame.unused_data
    if not frame.eof:
        raise InputError(f"{path}: cannot be unpacked: it ends in the middle")


def unpacked_bytes(data: bytes, place: Path) -> bytes:
    """The contents of one Zstandard frame; ``place`` names it in errors. Raises `InputError`."""
    try:
        return bytes(_new_frame(place).decompress(data))
    except InputError:
        raise
    except Exception as error:  # the two modules have no error class in common
        raise InputError(f"{place}: cannot be unpacked: {error}") from error


def _new_frame(path: Path) -> Any:
    """An unpacker of one frame, of Python's own module (from 3.14 on) or of the package."""
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd

            return zstd.ZstdDecompressor()
        import zstandard
    except ImportError:
        raise InputError(
            f"{path} is compressed with Zstandard: pip install 'lcm_plugin[zstd]' to read it, or unpack it with zstd -d"
        ) from None
    return zstandard.ZstdDecompressor().decompressobj()
