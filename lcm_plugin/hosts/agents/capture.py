"""Stores what the agents' live logs say, with the importers' readers: each message once, at the event that ends it.

A log is read when it grew. An answer may be written a moment after the event that ends it, so the reader waits for it,
and reads on at the next event when it does not come. Where each log was read to is kept in the database: a session that
ended between an answer and its last event is read to its end by the next session that starts.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

from lcm_plugin.engine import Engine
from lcm_plugin.errors import LcmError
from lcm_plugin.events import log_failure, logger
from lcm_plugin.forks import FreshLocks, join
from lcm_plugin.interchange.importers.formats import FORMATS, Format
from lcm_plugin.interchange.importers.importing import SourceFile, load
from lcm_plugin.interchange.importers.json_files import decode_object
from lcm_plugin.interchange.importers.sources.codex_threads import files_forked_from
from lcm_plugin.interchange.importers.tails import Position, tail_of
from lcm_plugin.messages.merging import COUNTS
from lcm_plugin.recall.catchup import index_all
from lcm_plugin.sessions.names import give_names

INDEX_SECONDS = 1.0
_POLL_SECONDS = 0.01
_TAIL_BYTES = 1 << 18
_MOST_LOGS = 200


_START = Position()


@dataclass(frozen=True, slots=True)
class Place:
    """How far a log was read: its size and inode then, when (ms), and where its last whole line ended."""

    size: int = 0
    inode: int = 0
    at: int = 0
    position: Position = _START

    def as_list(self) -> list[int | str]:
        """For the database."""
        return [self.size, self.inode, self.at, *astuple(self.position)]


class Capture(FreshLocks):
    """Reads logs of one host into one database. Thread-safe; one log at a time."""

    def __init__(self, engine: Engine, host: str) -> None:
        self._engine = engine
        self._format: Format = FORMATS[host]
        self._lock = threading.Lock()
        self._guard = f"agents:{host}"
        self._places: dict[str, Place] | None = None
        # How large a log was when its last turn ended: the next answer stands behind.
        self._turns: dict[Path, int] = {}
        join(self)

    def store(self, logs: Iterable[Path], last: str = "", seconds: float = 0.0, *, project: str = "") -> int:
        """Stores what is new in logs and in those of their sub-agents; returns how many rows.

        ``last`` is the answer that the first log must end with; it is waited for so many seconds. ``project`` is the
        folder that the host works in, for logs that do not name it.
        """
        stored = 0
        with self._lock:
            for number, log in enumerate(logs):
                if number == 0 and last:
                    self._wait_for(log, last, seconds)
                for path in (*self._before(log), log, *_of_sub_agents(log)):
                    stored += self._read(path, project)
            if stored:
                index_all(self._engine.store, self._engine.events, INDEX_SECONDS)
        return stored

    def warm_up(self) -> None:
        """Loads what the first message would wait for."""
        COUNTS.get_ready()
        self._known()

    def finish(self) -> int:
        """Reads to their ends the logs that this host's sessions were reading when they ended."""
        with self._lock:
            return sum(self._read(Path(name)) for name in list(self._known()))

    def unread(self, log: Path) -> bool:
        """Whether a log has grown since it was read."""
        with self._lock:
            return self._grew(log) is not None

    def _known(self) -> dict[str, Place]:
        if self._places is None:
            with self._engine.store.read() as reader:
                self._places = places(reader.guard(self._guard))
        return self._places

    def _before(self, log: Path) -> list[Path]:
        """What a fork goes on from: stored first, each message is stored once, in the session that it was said in."""
        if self._format.name != "codex" or str(log) in self._known() or not log.exists():
            return []
        with contextlib.suppress(LcmError, OSError):
            return files_forked_from(log)
        return []

    def _grew(self, path: Path) -> Place | None:
        """Where a log stands now, when that is not where it was read to."""
        try:
            found = path.stat()
        except OSError:
            return None
        before = self._known().get(str(path), Place())
        if (found.st_size, found.st_ino) == (before.size, before.inode) or not found.st_size:
            return None
        grew = found.st_ino == before.inode and found.st_size >= before.position.offset
        begin = before.position if grew else _START
        return Place(found.st_size, found.st_ino, self._engine.clock(), begin)

    def _read(self, path: Path, project: str = "") -> int:
        place = self._grew(path)
        if place is None:
            return 0
        try:
            tail = tail_of(path, self._format.name, place.position)
            with tail.reading(path):
                report = load(self._engine, SourceFile(path, self._format))
        except LcmError as error:
            log_failure(logger, "the log %s could not be read", path, error=error)
            return 0
        self._note(path, replace(place, position=tail.end))
        if project:
            self._name_project([one.conversation_id for one in report.conversations], project)
        return report.total("new")

    def _name_project(self, stored: Iterable[int | None], project: str) -> None:
        with self._engine.store.read() as reader:
            rows = [reader.conversation(number) for number in stored if number is not None]
        nameless = [row for row in rows if row is not None and not Path(row.project).is_absolute()]
        if nameless:
            with self._engine.store.write() as writer:
                for row in nameless:
                    give_names(writer, row, {"project": project})

    def _note(self, path: Path, place: Place) -> None:
        """Keeps how far a log was read, beside what other processes noted meanwhile."""
        with self._engine.store.write() as writer:
            known = places(writer.guard(self._guard))
            known[str(path)] = place
            newest = sorted(known.items(), key=lambda pair: pair[1].at)[-_MOST_LOGS:]
            state: dict[str, Any] = {
                name: one.as_list() for name, one in newest if name == str(path) or _exists(name)
            }
            writer.save_guard(self._guard, {"logs": state})
            self._places = places({"logs": state})

    def _wait_for(self, log: Path, last: str, seconds: float) -> None:
        begin = max(self._turns.get(log, 0), _size(log) - _TAIL_BYTES)
        _until(lambda: _holds_answer(log, begin, last), seconds)
        self._turns[log] = _size(log)


def places(state: Any) -> dict[str, Place]:
    """How far each log was read, by what is kept in the database."""
    logs = state.get("logs", {}) if isinstance(state, dict) else {}
    return {
        name: Place(size, inode, at, Position(offset, lines, newest))
        for name, (size, inode, at, offset, lines, newest) in logs.items()
    }


def _of_sub_agents(log: Path) -> list[Path]:
    """The logs of a session's sub-agents, which lie in a folder of its name.

    Claude Code's log is called as that folder is, Gemini CLI's ends with the first eight characters of it.
    """
    folder = log.with_suffix("") / "subagents"
    if folder.is_dir():
        return sorted(folder.glob("agent-*.jsonl"))
    short = log.stem.rpartition("-")[2] if log.stem.startswith("session-") else ""
    return sorted(log.parent.glob(f"{short}*/*.jsonl")) if short else []


def _holds_answer(log: Path, begin: int, last: str) -> bool:
    """Whether an assistant's record behind an offset ends with a text."""
    return any(_is_answer(record, last.strip()) for record in _records(log, begin))


def _records(log: Path, begin: int) -> Iterator[dict[str, Any]]:
    try:
        with log.open("rb") as file:
            file.seek(max(0, begin))
            lines = file.read().splitlines()
    except OSError:
        return
    for line in reversed(lines):
        record, error = decode_object(line)
        if not error:
            yield record


def _is_answer(record: dict[str, Any], last: str) -> bool:
    message = record.get("message", record.get("payload"))
    if not isinstance(message, dict) or message.get("role") != "assistant":
        return False
    content = message.get("content")
    blocks = content if isinstance(content, list) else [{"text": content}]
    return any(isinstance(one, dict) and str(one.get("text", "")).strip().endswith(last) for one in blocks)


def _until(done: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not done() and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _exists(name: str) -> bool:
    return Path(name).exists()
