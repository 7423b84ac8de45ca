"""Where a search goes on: an opaque text that belongs to one search.

It holds the newest rows that existed at the first page, so that pages neither overlap nor shift while
messages arrive.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lcm_plugin.errors import InputError

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Cursor:
    """``newest``: the highest row id per kind at the first page. ``position``: where each kind goes on."""

    search: str
    newest: Mapping[str, int]
    position: Mapping[str, int]

    def encode(self) -> str:
        """The cursor as a text."""
        raw = json.dumps(
            [_VERSION, self.search, dict(self.newest), dict(self.position)], separators=(",", ":")
        )
        return base64.urlsafe_b64encode(raw.encode()).decode().rstrip("=")


def fingerprint(search: Mapping[str, Any]) -> str:
    """A short hash of what a search asks for."""
    raw = json.dumps(search, sort_keys=True, default=str).encode("utf-8", "surrogatepass")
    return hashlib.sha256(raw).hexdigest()[:16]


def decode(text: str, search: str) -> Cursor:
    """The cursor of a text; raises `InputError` when it is none or belongs to another search."""
    try:
        raw = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        version, owner, newest, position = raw
        cursor = Cursor(
            str(owner),
            {str(kind): int(value) for kind, value in newest.items()},
            {str(kind): int(value) for kind, value in position.items()},
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError("cursor is not one that lcm_grep returned") from error
    if version != _VERSION or owner != search:
        raise InputError("cursor belongs to another search; repeat its arguments or leave the cursor out")
    return cursor
