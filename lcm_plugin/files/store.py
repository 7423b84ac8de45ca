"""A content-addressed folder for large payloads.

A file's name is the SHA-256 of its bytes, so equal bytes are stored once and a name proves its
content. Files appear whole or not at all (temporary name, fsync, rename) and are readable by their
owner alone. Every file is opened relative to its folder without following symlinks, so neither a
crafted uri nor a planted link reaches outside.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from lcm_plugin.errors import InputError, NotFound, StoreUnavailable
from lcm_plugin.files.content import Content
from lcm_plugin.private_files import make_private_folder

_URI = re.compile(r"([0-9a-f]{2})/(\1[0-9a-f]{62}(?:\.[a-z0-9]{1,16})?)", re.ASCII)
_SHARD = re.compile(r"[0-9a-f]{2}", re.ASCII)
_TEMPORARY = ".tmp-"
_BLOCK = 1 << 20


class FileFolder:
    """Payloads under ``root``; nothing is created before the first `put`. Thread-safe."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)

    def put(self, data: bytes | Content) -> str:
        """Stores bytes; returns their uri. Raises StoreUnavailable when the folder cannot be written."""
        content = data if isinstance(data, Content) else Content(data)
        digest = content.sha256
        try:
            with self._shard(digest[:2], create=True) as shard:
                name = self._intact(shard, digest, content.size)
                if name is None or not _wanted_again(shard, name):
                    name = digest
                    _write(shard, name, content)
        except OSError as error:
            raise StoreUnavailable(f"cannot store a payload in {self.root}: {error}") from error
        return f"{digest[:2]}/{name}"

    def get(self, uri: str) -> bytes:
        """All bytes of a payload.

        Raises InputError for a uri that is not one of this folder, NotFound when there is no such
        file, StoreUnavailable when it cannot be read or its bytes are not those of its name.
        """
        with self._open(uri) as handle:
            data = _read_all(handle)
        if hashlib.sha256(data).hexdigest() != _digest(uri):
            raise StoreUnavailable(
                f"payload {uri} in {self.root} is damaged: its bytes do not match its name"
            )
        return data

    def exists(self, uri: str) -> bool:
        """Whether the payload is there as a regular file."""
        try:
            with self._open(uri):
                return True
        except NotFound:
            return False

    def delete(self, uri: str) -> None:
        """Remove a payload; one that is not there is fine."""
        shard, name = _split(uri)
        try:
            with self._shard(shard) as folder:
                os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreUnavailable(f"cannot delete payload {uri} in {self.root}: {error}") from error

    def verify(self, uri: str, sha256: str) -> bool:
        """Whether the payload is there and its bytes have this digest."""
        try:
            with self._open(uri) as handle:
                return _digest_of(handle) == sha256.lower()
        except NotFound:
            return False

    def uris(self) -> Iterator[str]:
        """Every payload's uri, sorted."""
        for shard, names in self._listing():
            yield from (f"{shard}/{name}" for name in names if _URI.fullmatch(f"{shard}/{name}"))

    def modified(self, uri: str) -> float:
        """When a payload was written, in seconds since the epoch. Errors as in `get`."""
        with self._open(uri) as handle:
            return os.fstat(handle).st_mtime

    def leftovers(self, older_than: float = 3600.0) -> Iterator[str]:
        """Temporary files that a killed process left, older than so many seconds, as ``ab/.tmp-…``."""
        limit = time.time() - older_than
        for shard, names in self._listing():
            with self._shard(shard) as folder:
                old = [
                    name
                    for name in names
                    if name.startswith(_TEMPORARY) and os.stat(name, dir_fd=folder).st_mtime < limit
                ]
            yield from (f"{shard}/{name}" for name in old)

    def total_bytes(self) -> int:
        """Bytes of everything in the folder, leftovers of killed processes included."""
        total = 0
        for shard, names in self._listing():
            with contextlib.suppress(OSError), self._shard(shard) as folder:
                total += sum(os.stat(name, dir_fd=folder, follow_symlinks=False).st_size for name in names)
        return total

    def remove_leftovers(self, older_than: float = 3600.0) -> int:
        """Remove the `leftovers` and count them."""
        removed = 0
        for leftover in self.leftovers(older_than):
            shard, _, name = leftover.partition("/")
            with self._shard(shard) as folder:
                os.unlink(name, dir_fd=folder)
            removed += 1
        return removed

    def _listing(self) -> Iterator[tuple[str, list[str]]]:
        if not self.root.is_dir():
            return
        for shard in sorted(name for name in os.listdir(self.root) if _SHARD.fullmatch(name)):
            with contextlib.suppress(OSError), self._shard(shard) as folder:
                yield shard, sorted(os.listdir(folder))

    @contextlib.contextmanager
    def _shard(self, shard: str, create: bool = False) -> Iterator[int]:
        if create:
            make_private_folder(self.root)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        root = os.open(self.root, flags)
        try:
            if create:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(shard, 0o700, dir_fd=root)
                    os.fsync(root)
            folder = os.open(shard, flags | os.O_NOFOLLOW, dir_fd=root)
        finally:
            os.close(root)
        try:
            yield folder
        finally:
            os.close(folder)

    @contextlib.contextmanager
    def _open(self, uri: str) -> Iterator[int]:
        shard, name = _split(uri)
        try:
            with self._shard(shard) as folder:
                handle = _open_regular(folder, name)
        except FileNotFoundError as error:
            raise NotFound(f"there is no payload {uri} in {self.root}") from error
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise InputError(
                    f"payload {uri} in {self.root} is a link or no regular file; refused"
                ) from error
            raise StoreUnavailable(f"cannot read payload {uri} in {self.root}: {error}") from error
        try:
            yield handle
        finally:
            os.close(handle)

    def _intact(self, shard: int, digest: str, size: int) -> str | None:
        """The name under which these bytes are stored already, whatever its suffix."""
        for name in sorted(os.listdir(shard)):
            if name.partition(".")[0] != digest:
                continue
            with contextlib.suppress(OSError):
                handle = _open_regular(shard, name)
                try:
                    if os.fstat(handle).st_size == size and _digest_of(handle) == digest:
                        return name
                finally:
                    os.close(handle)
        return None


def _split(uri: str) -> tuple[str, str]:
    match = _URI.fullmatch(uri)
    if match is None:
        raise InputError(f"{uri!r} is not the uri of a payload (expected like ab/ab12….json)")
    return match.group(1), match.group(2)


def _digest(uri: str) -> str:
    return _split(uri)[1].partition(".")[0]


def _open_regular(folder: int, name: str) -> int:
    # O_NONBLOCK: a planted FIFO must not hang the reader before fstat can refuse it.
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.ELOOP, "not a regular file")
    return handle


def _wanted_again(folder: int, name: str) -> bool:
    """Renews a file's time, so that it is not taken for a stray; False if it was just deleted."""
    try:
        os.utime(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _read_all(handle: int) -> bytes:
    with open(handle, "rb", buffering=0, closefd=False) as file:
        return file.readall()


def _digest_of(handle: int) -> str:
    digest = hashlib.sha256()
    while block := os.read(handle, _BLOCK):
        digest.update(block)
    return digest.hexdigest()


def _write(folder: int, name: str, content: Content) -> None:
    temporary = f"{_TEMPORARY}{secrets.token_hex(8)}"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        try:
            for piece in content.pieces():
                view = memoryview(piece)
                while view:
                    view = view[os.write(handle, view) :]
            os.fsync(handle)
        finally:
            os.close(handle)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    os.fsync(folder)
