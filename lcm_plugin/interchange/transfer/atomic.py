"""Files that appear whole or not at all, readable by their owner alone."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from lcm_plugin.errors import InputError
from lcm_plugin.private_files import make_private_folder


@contextmanager
def whole_file(path: Path, *, overwrite: bool = False) -> Iterator[BinaryIO]:
    """A file to write to, which gets its name only when the block ends without an error.

    Raises `InputError` when there is one of that name already and ``overwrite`` is false, also when it came
    meanwhile; what is there stays as it is.
    """
    if path.is_dir() or (path.exists() and not overwrite):
        raise InputError(f"{path} exists already" if path.is_file() else f"{path} is no file to write to")
    try:
        make_private_folder(path.parent)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:80]}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if overwrite:
            os.replace(temporary, path)
        else:
            _name(temporary, path)
    except FileExistsError as error:
        raise InputError(f"{path} exists already") from error
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _name(temporary: str, path: Path) -> None:
    """Gives a file a name that nothing has yet; raises `FileExistsError`."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:
        # A file system without links: the name is taken first, then the file moved there.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.replace(temporary, path)
