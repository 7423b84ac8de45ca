"""Which files hold a thread of Codex, and which lines of them are its history.

A thread has one file, until it is rewound: then a new file goes on from a place in an older one (``history_base``).
A fork is a thread of its own. Older versions copied what it goes on from into its file, with new times, below a second
``session_meta``; newer ones name the place with ``history_base`` here too.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from lcm_plugin.interchange.importers.json_files import Line, LineFile
from lcm_plugin.interchange.importers.packed import plain_name, unpacked
from lcm_plugin.interchange.importers.records import content_id
from lcm_plugin.messages.identity import told_time

ITEMS = frozenset({"message", "reasoning", "function_call", "function_call_output", "local_shell_call"})
_ROOTS = ("sessions", "archived_sessions")
_HEAD_LINES = 8


def taken_apart(value: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """A line's type and payload; a bare item is a response item, a bare header the session's."""
    kind, payload = value.get("type"), value.get("payload")
    if isinstance(payload, dict):
        return str(kind), payload
    if kind in ITEMS or (isinstance(kind, str) and kind.endswith(("_call", "_call_output"))):
        return "response_item", dict(value)
    if kind is None and "id" in value and "timestamp" in value:
        return "session_meta", dict(value)
    return str(kind or value.get("record_type") or ""), dict(value)


def header_lines(lines: LineFile) -> int | None:
    """How many first lines hold the settings of a session; None where lines of talk stand among them."""
    headers, talk = 0, 0
    for count, line in enumerate(islice(lines, _HEAD_LINES), 1):
        if not line.error and taken_apart(line.value)[0] == "session_meta":
            headers = count
        else:
            talk = talk or count
    return None if 0 < talk < headers else headers


@dataclass(slots=True)
class Rollout:
    """One file. ``thread`` is the id of its thread, ``copied_from`` that of the thread whose lines it copied.

    ``copies`` maps the numbers of copied lines to their first ids. Lines from ``end`` on are withdrawn.
    """

    path: Path
    lines: LineFile
    meta: dict[str, Any] = field(default_factory=dict)
    thread: str = ""
    copied_from: str = ""
    copies: dict[int, str] = field(default_factory=dict)
    end: int | None = None

    @property
    def base(self) -> Mapping[str, Any] | None:
        """The place in another file that this one goes on from."""
        base = self.meta.get("history_base")
        return base if isinstance(base, Mapping) else None

    def id_of(self, line: Line) -> str:
        """The id of a line, the same in every file that it was copied to."""
        return self.copies.get(line.number) or content_id(line.number, line.value)

    def is_withdrawn(self, line: Line, position: int) -> bool:
        """Whether the thread went on from a place before this line, which is the ``position``-th of the file."""
        ordinal = line.value.get("ordinal")
        return self.end is not None and (ordinal if isinstance(ordinal, int) else position) >= self.end


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread: the files that its history runs through, oldest first, and its files that it left.

    The files of ``chain`` that have another ``thread`` are those of the threads that it was forked from.
    """

    chain: tuple[Rollout, ...]
    left: tuple[Rollout, ...]

    @property
    def newest(self) -> Rollout:
        """The file that is written to."""
        return self.chain[-1]

    @property
    def forked_from(self) -> tuple[str, ...]:
        """The thread that this one began as a copy of, if any."""
        others = [one.thread for one in self.chain if one.thread != self.newest.thread]
        own = next(one for one in self.chain if one.thread == self.newest.thread)
        named = str(own.meta.get("forked_from_id") or "")
        found = others[-1] if others else own.copied_from or named
        return (found,) if found else ()


def open_thread(path: Path, stack: ExitStack) -> Thread:
    """The thread that a file belongs to. The files stay open as long as the stack."""
    given = _opened(path, stack)
    others: list[Rollout] = []
    if given.base is not None or given.meta.get("history_mode") == "paginated":
        near = _files_named(path, given.thread)
        others = [_opened(one, stack) for one in near if one.resolve() != path.resolve()]
        others = [one for one in others if one.thread == given.thread]
    newest = max([given, *others], key=lambda one: (told_time(one.meta) or 0, one.path.name))
    chain, seen = [newest], {newest.path.resolve()}
    while (base := chain[0].base) is not None:
        before = _base_file(base, chain[0], [given, *others], stack)
        if before is None or before.path.resolve() in seen:
            break
        end = base.get("end_ordinal_exclusive")
        before.end = end if isinstance(end, int) else None
        seen.add(before.path.resolve())
        chain.insert(0, before)
    _find_copies(chain[0], stack, {chain[0].thread})
    left = [one for one in [given, *others] if one.path.resolve() not in seen]
    return Thread(tuple(chain), tuple(left))


def files_forked_from(path: Path) -> list[Path]:
    """The files of the threads that a file's thread was forked from, oldest first."""
    with ExitStack() as stack:
        thread = open_thread(path, stack)
        return [one.path for one in thread.chain if one.thread != thread.newest.thread]


def _opened(path: Path, stack: ExitStack) -> Rollout:
    rollout = Rollout(path, stack.enter_context(LineFile(stack.enter_context(unpacked(path)))))
    for line in islice(rollout.lines, _HEAD_LINES):
        kind, payload = taken_apart(line.value)
        if kind != "session_meta" or line.error:
            continue
        if not rollout.meta:
            rollout.meta = payload
            rollout.thread = str(payload.get("id") or payload.get("session_id") or "")
        elif (other := str(payload.get("id") or "")) not in ("", rollout.thread):
            rollout.copied_from = other
            break
    rollout.thread = rollout.thread or Path(plain_name(path)).stem
    return rollout


def _base_file(
    base: Mapping[str, Any], rollout: Rollout, known: list[Rollout], stack: ExitStack
) -> Rollout | None:
    """The file that a place is in: its name ends with the id of the place, which is no thread's after a rewind."""
    named = str(base.get("thread_id") or base.get("rollout_id") or "")
    for path in _files_named(rollout.path, named):
        if Path(plain_name(path)).stem.endswith((f"-{named}", f"_{named}")):
            found = next((one for one in known if one.path.resolve() == path.resolve()), None)
            return found or _opened(path, stack)
    return None


def _files_named(path: Path, name: str) -> list[Path]:
    """The rollouts whose names hold an id, in all of Codex's folders when the file lies in one of them."""
    if not name:
        return []
    home = next((folder.parent for folder in path.resolve().parents if folder.name in _ROOTS), None)
    folders = [home / root for root in _ROOTS] if home else [path.parent]
    pattern = f"rollout-*{glob.escape(name)}*.jsonl*"
    return sorted(found for folder in folders for found in folder.rglob(pattern) if found.is_file())


def _find_copies(rollout: Rollout, stack: ExitStack, seen: set[str]) -> None:
    """Finds the lines of an older fork that are copies, by the file that they were copied from."""
    origin = rollout.copied_from
    if not origin or origin in seen:
        return
    paths = [path for path in _files_named(rollout.path, origin) if path.resolve() != rollout.path.resolve()]
    first = next((one for path in paths if (one := _opened(path, stack)).thread == origin), None)
    if first is None:
        return
    _find_copies(first, stack, seen | {origin})
    rollout.copies = dict(_shared(rollout, first))


def _shared(fork: Rollout, origin: Rollout) -> Iterator[tuple[int, str]]:
    """The copied lines of a fork with their first ids: those that repeat the origin's lines without a gap.

    A copy has a new time, and events of the origin may be missing. A last user's message is no copy: the fork began
    with the same words.
    """
    began = told_time(fork.meta)
    found: list[tuple[int, str]] = []
    asked_at: int | None = None
    theirs = _comparable(origin)
    for line, kind, payload in _comparable(fork):
        same = next(
            (other for other in theirs if other[1:] == (kind, payload) or other[1] != "event_msg"), None
        )
        if same is None or same[1:] != (kind, payload) or _is_later(same[0], line, began):
            break
        if kind == "response_item":
            asked_at = len(found) if payload.get("role") == "user" else None
        found.append((line.number, origin.id_of(same[0])))
    return iter(found[:asked_at])


def _is_later(original: Line, copy: Line, began: int | None) -> bool:
    """Whether a line was written when the fork was there already, so that it is no original of its copies."""
    at = told_time(original.value)
    return at is not None and began is not None and at > began and at != told_time(copy.value)


def _comparable(rollout: Rollout) -> Iterator[tuple[Line, str, dict[str, Any]]]:
    for line in rollout.lines:
        kind, payload = taken_apart(line.value)
        if not line.error and kind != "session_meta":
            yield line, kind, payload
