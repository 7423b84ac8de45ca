"""Reading on in a log that grew: whether the new lines simply go on from those before, and where they end.

A log of 6,000 records takes half a second to read; what a turn adds takes milliseconds. Only lines that go on where the log
stood can be read alone. A rewind, a compaction, a roll-back or a result without its call changes what came before: then
the whole log is read again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lcm_plugin.interchange.importers.json_files import LineFile, View, viewing
from lcm_plugin.interchange.importers.sources.codex_threads import header_lines
from lcm_plugin.messages.blocks import calls_answered, calls_made


@dataclass(frozen=True, slots=True)
class Position:
    """Where a log was read to: behind its last whole line. ``newest`` is the id of its newest record with one."""

    offset: int = 0
    lines: int = 0
    newest: str = ""


@dataclass(frozen=True, slots=True)
class Tail:
    """What a log gained: where it ends now, and how it can be read."""

    end: Position
    plain: bool
    view: View

    def reading(self, path: Path) -> AbstractContextManager[None]:
        """While it is open, readers of the log see its first lines and the new ones only, if these can be read alone."""
        return viewing(path, self.view) if self.plain else nullcontext()


def tail_of(path: Path, format_name: str, begin: Position) -> Tail:
    """What a log gained since a position. Raises `InputError` for a file that cannot be read."""
    head = _head_of(path, format_name)
    state = _Checked(begin.newest)
    check = _CHECKS.get(format_name, _never)
    offset, lines, plain = begin.offset, begin.lines, head is not None and begin.lines > head
    with viewing(path, View(0, begin.offset, begin.lines, None)), LineFile(path) as new:
        for line in new:
            if line.end < 0:
                break
            offset, lines = line.end, line.number
            plain = check(line.value, state) and plain
    return Tail(
        Position(offset, lines, state.newest),
        plain,
        View(head or 0, begin.offset, begin.lines, offset),
    )


def _head_of(path: Path, format_name: str) -> int | None:
    """How many first lines a reader needs beside the new ones; None where these say what was taken back later."""
    if format_name != "codex":
        return 0
    with LineFile(path) as lines:
        return header_lines(lines)


@dataclass(slots=True)
class _Checked:
    """The ids and calls of the new lines so far."""

    newest: str
    ids: set[str] = field(default_factory=set)
    calls: set[str] = field(default_factory=set)


def _of_claude_code(record: Mapping[str, Any], state: _Checked) -> bool:
    uuid = record.get("uuid")
    if not isinstance(uuid, str) or not uuid:
        return record.get("reason") != "absorbed_mid_turn"
    parent = record.get("parentUuid")
    goes_on = isinstance(parent, str) and (parent == state.newest or parent in state.ids)
    message = record.get("message")
    if isinstance(message, dict):
        goes_on = goes_on and state.calls.issuperset(calls_answered(message))
        state.calls.update(calls_made(message))
    state.newest = uuid
    state.ids.add(uuid)
    changes = record.get("isCompactSummary") or record.get("isSidechain") or "forkedFrom" in record
    return goes_on and not changes and record.get("subtype") != "compact_boundary"


def _of_codex(record: Mapping[str, Any], state: _Checked) -> bool:
    payload = record.get("payload")
    kind = payload.get("type") if isinstance(payload, dict) else None
    return record.get("type") not in ("session_meta", "compacted") and kind != "thread_rolled_back"


def _never(record: Mapping[str, Any], state: _Checked) -> bool:
    return False


_CHECKS: dict[str, Callable[[Mapping[str, Any], _Checked], bool]] = {
    "claude-code": _of_claude_code,
    "codex": _of_codex,
}
