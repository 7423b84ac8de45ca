"""The bytes of a payload, read in pieces, so that a large text has no second copy in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cached_property

from lcm_plugin.characters import encode, encoded_pieces


class Content:
    """Bytes, or a text as UTF-8 with its lone surrogates kept."""

    def __init__(self, value: bytes | str) -> None:
        self.value = value

    def pieces(self) -> Iterator[bytes]:
        """All bytes in order; a text's a few megabytes at a time."""
        if isinstance(self.value, str):
            yield from encoded_pieces(self.value)
        else:
            yield self.value

    def whole(self) -> bytes:
        """All bytes at once."""
        return encode(self.value) if isinstance(self.value, str) else self.value

    @cached_property
    def _measured(self) -> tuple[str, int]:
        digest, size = hashlib.sha256(), 0
        for piece in self.pieces():
            digest.update(piece)
            size += len(piece)
        return digest.hexdigest(), size

    @property
    def sha256(self) -> str:
        """The digest of the bytes, in hex."""
        return self._measured[0]

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return self._measured[1]
