"""The token encoding that the package carries, and which models count with which encoding.

`o200k_base.bin` holds the vocabulary that OpenAI publishes as ``o200k_base.tiktoken`` (MIT licence, SHA-256
`PUBLISHED_SHA256`): zlib over how many tokens have 1, 2, … `LONGEST` bytes, four bytes each, then the tokens by length
and alphabet, then the lowest, the middle and the highest byte of their ranks. So it needs no network and no cache, and
`messages.merging` looks tokens up where they stand.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tiktoken

ENCODING = "o200k_base"
VOCABULARY_SIZE = 199_998
LONGEST = 128
"""Bytes of the longest token."""
PUBLISHED_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
"""Of the file that OpenAI publishes, as tiktoken names it."""

_PACKED_SHA256 = "0aa965009404c24b6107e0c365e1eb3797d166c062b12af3557d702bc75d8737"
# As in tiktoken's own table of encodings: which runs of characters are merged by themselves.
PATTERN = "|".join(
    [
        r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
        r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
        r"""\p{N}{1,3}""",
        r""" ?[^\s\p{L}\p{N}]+[\r\n/]*""",
        r"""\s*[\r\n]+""",
        r"""\s+(?!\S)""",
        r"""\s+""",
    ]
)
_ENCODING_OF = {
    "gpt-5": ENCODING,
    "gpt-4.5": ENCODING,
    "gpt-4.1": ENCODING,
    "gpt-4o": ENCODING,
    "chatgpt-4o": ENCODING,
    "gpt-oss": ENCODING,
    "o1": ENCODING,
    "o3": ENCODING,
    "o4-mini": ENCODING,
    "gpt-4": "cl100k_base",
    "gpt-3.5": "cl100k_base",
}
"""By the beginning of a model's name; the longest that fits decides. All other models count with their own."""


def encoding_of(model: str | None) -> str | None:
    """The encoding that a model counts with; None when it has one of its own, or is not known.

    A provider's prefix (``openai/gpt-4o``, ``us.azure/…``) does not matter.
    """
    name = (model or "").rsplit("/", 1)[-1].rsplit(":", 1)[-1].lower()
    fitting = [start for start in _ENCODING_OF if _begins(name, start)]
    return _ENCODING_OF[max(fitting, key=len)] if fitting else None


def packed() -> bytes:
    """The unpacked file. Raises `OSError` when it is damaged."""
    try:
        data = zlib.decompress(Path(__file__).with_name(f"{ENCODING}.bin").read_bytes())
    except zlib.error as error:
        raise OSError(_DAMAGED) from error
    if hashlib.sha256(data).hexdigest() != _PACKED_SHA256:
        raise OSError(_DAMAGED)
    return data


@dataclass(frozen=True, slots=True)
class Run:
    """Where the tokens of one length stand in the file: their first byte, the index of the first one, their number."""

    place: int
    first: int
    count: int


def runs(data: bytes) -> dict[int, Run]:
    """The tokens' places by length."""
    found, first = {}, 0
    place = 4 * LONGEST
    for length, count in enumerate(struct.unpack_from(f"<{LONGEST}I", data), 1):
        if count:
            found[length] = Run(place, first, count)
        place, first = place + length * count, first + count
    return found


def ranks_in(data: bytes) -> tuple[bytes, bytes, bytes]:
    """The lowest, middle and highest bytes of the ranks, in the order of the tokens in the file."""
    low, middle, high = (data[-size * VOCABULARY_SIZE :][:VOCABULARY_SIZE] for size in (3, 2, 1))
    return low, middle, high


def vocabulary() -> dict[bytes, int]:
    """The tokens of `ENCODING` and their ranks. Raises `OSError` when the file is damaged."""
    data = packed()
    tokens = (
        data[run.place + n * length : run.place + (n + 1) * length]
        for length, run in runs(data).items()
        for n in range(run.count)
    )
    ranks = (low | middle << 8 | high << 16 for low, middle, high in zip(*ranks_in(data), strict=True))
    return dict(zip(tokens, ranks, strict=True))


def load_tables() -> tiktoken.Encoding:
    """tiktoken's tables of `ENCODING`, made in 0.2 s. Raises `OSError` when the file is damaged."""
    import tiktoken

    tables = tiktoken.Encoding(ENCODING, pat_str=PATTERN, mergeable_ranks=vocabulary(), special_tokens={})
    # The compiled part has tables of its own; these only serve pickling, and cost 22 MB.
    tables._mergeable_ranks = {}
    give_memory_back()
    return tables


_DAMAGED = f"the package's token encoding ({ENCODING}.bin) is damaged: install lcm_plugin again"


def give_memory_back() -> None:
    """Returns to the system what was freed, which glibc keeps by itself."""
    import ctypes

    with suppress(OSError, AttributeError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def _begins(name: str, start: str) -> bool:
    return name == start or (name.startswith(start) and not name[len(start)].isalnum())
