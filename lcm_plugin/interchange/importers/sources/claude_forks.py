"""Finds the sessions of Claude Code that begin with the same records.

``--fork-session`` copies a session's records into a new file, under the same ids, and does not say where they are from;
files whose records do say so are left aside here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import takewhile
from pathlib import Path

from lcm_plugin.interchange.importers.json_files import LineFile

_HEAD_BYTES = 1_000_000


def sessions_that_begin_alike(path: Path, ids: Sequence[str]) -> dict[str, int]:
    """The other sessions of a folder that begin with a file's first record, and how many records each has in common."""
    found = {}
    for other in sorted(path.parent.glob("*.jsonl")):
        if other.name != path.name and _first_id(other, other.stat().st_mtime_ns) == ids[0]:
            pairs = zip(ids, _ids(other), strict=False)
            found[other.stem] = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return found


@lru_cache(maxsize=8_192)
def _first_id(path: Path, changed_at: int) -> str:
    """The id of a log's first record that has one."""
    return next(_ids(path, _HEAD_BYTES), "")


def _ids(path: Path, most_bytes: int | None = None) -> Iterator[str]:
    with LineFile(path) as lines:
        for line in lines:
            if most_bytes is not None and line.offset > most_bytes:
                return
            uuid = line.value.get("uuid")
            if "forkedFrom" in line.value:
                return
            if isinstance(uuid, str) and uuid:
                yield uuid
