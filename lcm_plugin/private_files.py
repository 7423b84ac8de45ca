"""Folders and files that only their owner may enter and read, whatever the umask is."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO


def make_private_folder(path: Path) -> None:
    """Makes a folder and each missing one above it, all of mode 0700; those that exist stay as they are.

    `Path.mkdir` gives its mode to the last folder only. Raises `OSError`, also when the path is no folder.
    """
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
        if path == path.parent:
            break
    for folder in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        if not folder.is_dir():
            raise NotADirectoryError(20, "not a folder", str(folder))


def write_private_file(path: Path) -> BinaryIO:
    """A file opened for writing, of mode 0600 from the beginning when it is new; its old content goes."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb")
