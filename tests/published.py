"""Token counts by tiktoken over the package's vocabulary, to compare with."""

from __future__ import annotations

from functools import cache

import tiktoken

from lcm_plugin.messages.encodings import ENCODING, PATTERN, vocabulary


@cache
def encoding() -> tiktoken.Encoding:
    """The encoding as tiktoken makes it of the packed file."""
    return tiktoken.Encoding(ENCODING, pat_str=PATTERN, mergeable_ranks=vocabulary(), special_tokens={})


def exact(text: str) -> int:
    """Tokens of a text; those of a special token's text are counted as of plain text."""
    return len(encoding().encode_ordinary(text))
