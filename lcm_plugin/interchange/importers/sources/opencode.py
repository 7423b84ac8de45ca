"""opencode's sessions: ``~/.local/share/opencode/opencode.db``, the files of older versions, and ``opencode export``.

A message has parts: text, reasoning, tools with their results, files, and marks of steps. Each step of an answer is a row
with its calls, and each result one. A compaction is a user's message with a part of that name, and an answer marked
``summary``. ``revert`` names the first message that was taken back. A fork is a session whose messages are copies under
new ids and with their old times.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from lcm_plugin.errors import InputError
from lcm_plugin.interchange.importers.json_files import json_objects
from lcm_plugin.interchange.importers.records import (
    Broken,
    Entry,
    ImportedCompaction,
    Record,
    SourceConversation,
    aside,
    rest_of,
)
from lcm_plugin.messages.identity import told_time
from lcm_plugin.messages.markup import holds_added
from lcm_plugin.store.foreign import ForeignDatabase, is_sqlite

NAME = "opencode"
_SESSION = ("id", "project_id", "parent_id", "directory", "title", "version", "time_created", "revert")
_PART_TYPES = {
    "step-start": "step_start",
    "step-finish": "step_finish",
    "snapshot": "snapshot",
    "patch": "patch",
    "agent": "agent",
    "subtask": "subtask",
    "compaction": "compaction",
    "retry": "retry",
}
_DONE = frozenset({"completed", "error"})
_Parts: TypeAlias = list[Mapping[str, Any]]
_Message: TypeAlias = tuple[Mapping[str, Any], _Parts]
_FORKED = " (fork #"


def recognises_database(database: ForeignDatabase) -> bool:
    """Whether a database is opencode's."""
    return database.has("message", "session_id", "data") and database.has("part", "message_id", "data")


def recognises(first: Any, path: Path) -> bool:
    """Whether a file whose first value is this is an export, or a session of an older version."""
    if not isinstance(first, dict):
        return False
    info = first.get("info")
    if isinstance(info, dict) and isinstance(first.get("messages"), list):
        return str(info.get("id", "")).startswith("ses")
    return str(first.get("id", "")).startswith("ses_") and "projectID" in first


def belongs_to_session(path: Path) -> bool:
    """Whether a file is read with its session: a message or a part of an older version."""
    return path.suffix == ".json" and path.name.startswith(("msg_", "prt_"))


@dataclass(frozen=True, slots=True)
class _Session:
    """A session's data, and how its messages are read."""

    name: str
    parent: str
    title: str
    started_at: int | None
    about: Mapping[str, Any]
    revert: str
    messages: Callable[[], Iterator[_Message]]


def read(path: Path) -> Iterator[Record]:
    """The records of a database, an export, or a session's file."""
    if not is_sqlite(path):
        yield from _from_json(path)
        return
    with ForeignDatabase(path) as database:
        rows = list(database.rows("session", _SESSION, order=("time_created", "id")))
        sessions = [_of_row(row, database) for row in rows]
        for session in sessions:
            yield from _session(session, sessions)


def read_newest(path: Path) -> Iterator[Record]:
    """The records of the session of a database in which something happened last."""
    with ForeignDatabase(path) as database:
        rows = list(database.rows("session", (*_SESSION, "time_updated"), order=("time_updated",)))
        for row in rows[-1:]:
            yield from _session(_of_row(row, database), ())


def _of_row(row: Mapping[str, Any], database: ForeignDatabase) -> _Session:
    name = str(row["id"])
    revert = _decoded(row["revert"])

    def messages() -> Iterator[_Message]:
        columns, where = ("id", "data", "time_created"), {"session_id": name}
        for message in database.rows("message", columns, order=("time_created", "id"), where=where):
            found = database.rows("part", ("id", "data"), order=("id",), where={"message_id": message["id"]})
            parts: _Parts = [{**_decoded(part["data"]), "id": part["id"]} for part in found]
            yield {**_decoded(message["data"]), "id": message["id"]}, parts

    return _Session(
        name,
        str(row["parent_id"] or ""),
        str(row["title"] or ""),
        told_time({"time": row["time_created"]}),
        {"cwd": row["directory"], "project": row["project_id"], "version": row["version"]},
        str(revert.get("messageID") or ""),
        messages,
    )


def _decoded(text: Any) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except (TypeError, ValueError, RecursionError):
        return {"type": "damaged", "data": str(text)}
    return value if isinstance(value, dict) else {}


def _from_json(path: Path) -> Iterator[Record]:
    for line in json_objects(path):
        if line.error:
            yield Broken(line.number, line.error)
            continue
        info = line.value.get("info", line.value)
        times = info.get("time") if isinstance(info.get("time"), dict) else {}
        revert = info.get("revert")

        def messages(
            value: Mapping[str, Any] = line.value, name: str = str(info.get("id"))
        ) -> Iterator[_Message]:
            if isinstance(listed := value.get("messages"), list):
                for one in listed:
                    if isinstance(one, dict) and isinstance(one.get("info"), dict):
                        yield one["info"], [part for part in one.get("parts") or [] if isinstance(part, dict)]
                return
            yield from _stored(path, name)

        session = _Session(
            str(info.get("id")),
            str(info.get("parentID") or ""),
            str(info.get("title") or ""),
            told_time({"time": times.get("created")}),
            {"cwd": info.get("directory"), "project": info.get("projectID"), "version": info.get("version")},
            str(revert.get("messageID") or "") if isinstance(revert, dict) else "",
            messages,
        )
        yield from _session(session, ())


def _stored(path: Path, name: str) -> Iterator[_Message]:
    """The messages of a session of an older version, in files of their own below ``storage``."""
    storage = next((one for one in path.parents if (one / "message").is_dir()), None)
    for file in sorted((storage / "message" / name).glob("*.json")) if storage else ():
        message = _file(file)
        parts = sorted((storage / "part" / file.stem).glob("*.json")) if storage else []
        yield message, [_file(part) for part in parts]


def _file(path: Path) -> dict[str, Any]:
    try:
        return {"id": path.stem, **_decoded(path.read_text("utf-8"))}
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error


def _session(session: _Session, others: Iterable[_Session]) -> Iterator[Record]:
    origin = _origin(session, others)
    copies = _copies(session, origin) if origin else {}
    yield SourceConversation(
        session.name,
        title=session.title,
        project=str(session.about.get("cwd") or ""),
        version=str(session.about.get("version") or ""),
        started_at=session.started_at,
        parent=session.parent,
        forked_from=(origin.name,) if origin else (),
        about=rest_of(session.about),
    )
    last = ""
    compacting = reverted = False
    for message, parts in session.messages():
        if session.revert and str(message.get("id")) == session.revert:
            reverted = True
            yield SourceConversation(session.name, branch=session.revert, live=False)
        for entry in entries_of(message, parts, copies):
            if compacting and message.get("summary") and last and not entry.hidden:
                yield ImportedCompaction(_words(parts), last, entry)
                compacting = False
                continue
            if not entry.hidden and not reverted:
                last = entry.host_id
            yield entry
        compacting = compacting or any(part.get("type") == "compaction" for part in parts)


def entries_of(
    message: Mapping[str, Any], parts: _Parts, copies: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Entry]:
    """A message's rows: a user's message, or each step of an answer with the results of its calls.

    ``copies`` are the first ids of what a fork copied. A message that is being written has none.
    """
    name = str(message.get("id"))
    times = message.get("time") if isinstance(message.get("time"), dict) else {}
    at = told_time({"time": (times or {}).get("created")})
    inherited = name in copies
    name = copies.get(name, name)
    about = rest_of(message, "id", "sessionID", "role", "time")
    extras = (("agent", about),) if about else ()
    if message.get("role") == "user":
        blocks = [block for part in parts if (block := _block(part)) is not None]
        hidden = not any(part.get("type") in ("text", "file") and not part.get("synthetic") for part in parts)
        beside = tuple(
            (_PART_TYPES[str(part["type"])], part) for part in parts if part.get("type") in _PART_TYPES
        )
        yield Entry(
            name,
            {"role": "user", "content": blocks},
            at,
            hidden,
            None,
            (*extras, *beside),
            inherited=inherited,
        )
        return
    if message.get("role") != "assistant":
        found = aside(name, "agent", message, at)
        yield Entry(name, found.message, at, True, inherited=inherited)
        return
    if not (times or {}).get("completed") and not message.get("error"):
        # It is being written; the next import has it.
        return
    for number, step in enumerate(_steps(parts)):
        step_id = f"{name}/{number}" if number else name
        blocks = [block for part in step if (block := _block(part)) is not None]
        beside = tuple(
            (_PART_TYPES[str(part["type"])], part) for part in step if part.get("type") in _PART_TYPES
        )
        shown = {"role": "assistant", "content": blocks}
        yield Entry(
            step_id, shown, at, not blocks, None, (*(() if number else extras), *beside), inherited=inherited
        )
        for place, part in enumerate(part for part in step if part.get("type") == "tool"):
            if (answer := _answer(part)) is not None:
                yield Entry(f"{step_id}/result/{place}", answer, at, inherited=inherited)


def _steps(parts: _Parts) -> Iterator[_Parts]:
    """The parts of an answer, cut where words follow a tool's result."""
    step: _Parts = []
    for part in parts:
        begins = part.get("type") in ("step-start", "text", "reasoning")
        if begins and any(one.get("type") == "tool" for one in step):
            yield step
            step = []
        step.append(part)
    if step:
        yield step


def _block(part: Mapping[str, Any]) -> dict[str, Any] | None:
    kind = part.get("type")
    if kind == "text" and part.get("text") and not part.get("ignored"):
        if part.get("synthetic") and holds_added(str(part["text"])):
            return None
        return {"type": "text", "text": str(part["text"])}
    if kind == "reasoning" and part.get("text"):
        return {"type": "thinking", "thinking": str(part["text"])}
    if kind == "tool":
        state = part.get("state") if isinstance(part.get("state"), dict) else {}
        given = (state or {}).get("input")
        call = {
            "type": "tool_use",
            "id": str(part.get("callID") or part.get("id")),
            "name": str(part.get("tool")),
        }
        return {**call, "input": given if isinstance(given, dict) else {}}
    if kind == "file":
        url, mime = str(part.get("url") or ""), str(part.get("mime") or "")
        if mime.startswith("image/") and url.startswith("data:"):
            return {"type": "image_url", "image_url": {"url": url}}
        return {"type": "text", "text": f"[file {part.get('filename') or url[:200]}]"}
    return None


def _answer(part: Mapping[str, Any]) -> dict[str, Any] | None:
    """A tool's result; None for a call that is not done."""
    state = part.get("state")
    if not isinstance(state, dict) or state.get("status") not in _DONE:
        return None
    output = state.get("output") if state["status"] == "completed" else state.get("error")
    text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
    content: Any = text
    images = [
        {"type": "image_url", "image_url": {"url": one["url"]}}
        for one in state.get("attachments") or []
        if isinstance(one, dict)
        and str(one.get("mime", "")).startswith("image/")
        and isinstance(one.get("url"), str)
    ]
    if images:
        content = [{"type": "text", "text": text}, *images]
    return {"role": "tool", "tool_call_id": str(part.get("callID") or part.get("id")), "content": content}


def _words(parts: _Parts) -> str:
    return "\n".join(str(part.get("text") or "") for part in parts if part.get("type") == "text")


def _origin(session: _Session, others: Iterable[_Session]) -> _Session | None:
    """The session that a fork copied, by its title and the time of its first message."""
    if _FORKED not in session.title:
        return None
    began = _signature(next(session.messages(), None))
    for other in others:
        if other.name == session.name:
            return None
        if began is not None and _signature(next(other.messages(), None)) == began:
            return other
    return None


def _copies(session: _Session, origin: _Session) -> dict[str, str]:
    """The first ids of a fork's copied messages."""
    found = {}
    for copy, original in zip(session.messages(), origin.messages(), strict=False):
        if _signature(copy) != _signature(original):
            break
        found[str(copy[0].get("id"))] = str(original[0].get("id"))
    return found


def _signature(message: _Message | None) -> tuple[Any, ...] | None:
    if message is None:
        return None
    times = message[0].get("time")
    return (
        message[0].get("role"),
        times.get("created") if isinstance(times, dict) else None,
        _words(message[1]),
    )
