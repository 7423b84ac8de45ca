"""Gemini CLI's chats: ``~/.gemini/tmp/<project>/chats/session-*.jsonl``, and ``.json`` of older versions.

A line is a message, a change of the session's data (``$set``) or a step back (``$rewindTo``). A message may come again
with its tool calls filled in: the last one counts. A call and its result stand in the answer's message; they are rows of
their own here, so that a message that grows adds what is new. ``$set`` with ``messages`` replaces the list, after a
compression too: what it lacks stays, and a compression's summary takes its place.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lcm_plugin.interchange.importers.json_files import Line, LineFile, json_objects
from lcm_plugin.interchange.importers.records import (
    Entry,
    ImportedCompaction,
    Record,
    Repeat,
    SourceConversation,
    aside,
    fault_of,
    rest_of,
)
from lcm_plugin.interchange.importers.sources.gemini_content import (
    media_block,
    parts_of,
    response_text,
    text_of_parts,
    without_additions,
)
from lcm_plugin.messages.identity import told_time

NAME = "gemini-cli"
_SNAPSHOT = "<state_snapshot>"
_CONTEXT = "<session_context>"
"""What a chat begins with, and keeps through a compression."""
_TALK = frozenset({"user", "gemini"})


def recognises(first: Any, path: Path) -> bool:
    """Whether a file whose first value is this is of this format."""
    return isinstance(first, dict) and {"sessionId", "projectHash"} <= first.keys() and "uuid" not in first


@dataclass(frozen=True, slots=True)
class _Message:
    """Where a message is found again: the offset of its line, or the message itself where it has no line of its own.

    ``said`` is a hash of its type and words, ``place`` its number among those of the file.
    """

    held: int | Mapping[str, Any]
    said: int
    is_talk: bool
    place: int


@dataclass(slots=True)
class _Chat:
    """What the lines of a file add up to. ``order`` holds the ids of messages as they came, ``branches`` those that were
    taken back, by the first of them, ``first_names`` the first ids of messages that have others now.
    """

    about: dict[str, Any] = field(default_factory=dict)
    messages: dict[str, _Message] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    current: dict[str, None] = field(default_factory=dict)
    branches: dict[str, dict[str, None]] = field(default_factory=dict)
    branch_of: dict[str, str] = field(default_factory=dict)
    replaced: dict[str, str] = field(default_factory=dict)
    first_names: dict[str, str] = field(default_factory=dict)
    beside: set[str] = field(default_factory=set)
    repeats: int = 0

    def put(self, message: Mapping[str, Any], offset: int = -1) -> None:
        """Takes a message, or its newer form. ``offset`` is that of its line, -1 when it has none of its own."""
        name = self._name_of(message)
        if name in self.current:
            self.repeats += 1
        self._bring_back(name)
        if (known := self.messages.get(name)) is None:
            self.order.append(name)
        place = len(self.order) - 1 if known is None else known.place
        held = message if offset < 0 else offset
        kind, words = _said(message)
        is_talk = kind in _TALK and not words.startswith(_CONTEXT)
        self.messages[name] = _Message(held, hash((kind, words)), is_talk, place)

    def rewind(self, name: str) -> None:
        """Takes back a message and all after it; all when it is not there."""
        name = self.first_names.get(name, name)
        taken: list[str] = []
        for one in reversed(self.current):
            taken.append(one)
            if one == name:
                break
        for one in taken:
            del self.current[one]
        if taken:
            first = taken[-1]
            self.branches.setdefault(first, {}).update(dict.fromkeys(reversed(taken)))
            self.branch_of |= dict.fromkeys(taken, first)

    def replace(self, messages: list[Any]) -> None:
        """Takes a new list. A message in it that is known stays as it was: later forms hide results."""
        told = [one for one in messages if isinstance(one, dict) and isinstance(one.get("id"), str)]
        self._recognise(told)
        names = {self._name_of(one) for one in told}
        gone = {name for name in self.current if name not in names and self.messages[name].is_talk}
        replaced = self._last_before(names)
        for message in told:
            name, (kind, words) = self._name_of(message), _said(message)
            if name in self.messages:
                self._bring_back(name)
                continue
            if not words:
                continue
            if replaced and _SNAPSHOT in words:
                self.replaced[name] = replaced
            elif self.replaced and kind == "gemini":
                self.beside.add(name)
            self.put(message)
        self.current = {name: None for name in self.current if name not in gone}

    def _recognise(self, told: list[dict[str, Any]]) -> None:
        """Finds those that have another id here than before: a compression gives all that it keeps new ones.

        It keeps the end, so that of equal ones the last is meant.
        """
        by_words: dict[int, list[str]] = {}
        for name in self.current:
            by_words.setdefault(self.messages[name].said, []).append(name)
        for message in reversed(told):
            kind, words = _said(message)
            same = by_words.get(hash((kind, words)))
            if (known := self._name_of(message)) in self.messages:
                if same and known in same:
                    same.remove(known)
            elif words and same:
                self.first_names[known] = same.pop()

    def _name_of(self, message: Mapping[str, Any]) -> str:
        """The id that a message had first."""
        name = str(message["id"])
        return self.first_names.get(name, name)

    def _bring_back(self, name: str) -> None:
        """Takes a known message into the list again, which a start of Gemini CLI empties and fills."""
        self.current.setdefault(name)
        if branch := self.branch_of.pop(name, ""):
            del self.branches[branch][name]

    def _last_before(self, names: set[str]) -> str:
        """The last of the talk before the first of some messages that are talk; empty when that is the first."""
        known = [self.messages[name] for name in names if name in self.messages]
        kept = min((one.place for one in known if one.is_talk), default=len(self.order))
        before = (self.order[place] for place in range(kept - 1, -1, -1))
        return next((name for name in before if self.messages[name].is_talk), "")


def _said(message: Mapping[str, Any]) -> tuple[str, str]:
    return str(message.get("type")), text_of_parts(message.get("content"))


def read(path: Path) -> Iterator[Record]:
    """The records of a file: the live messages, then those that were taken back.

    A log is read twice, so that only the places of its messages are held; the one object of an older version is held whole.
    """
    if path.suffix == ".json":
        yield from _read(path, json_objects(path), None)
        return
    with LineFile(path) as lines:
        yield from _read(path, lines, lines)


def _read(path: Path, lines: Iterable[Line], log: LineFile | None) -> Iterator[Record]:
    chat = _Chat()
    for line in lines:
        if line.error:
            yield fault_of(line)
            continue
        _take(chat, line.value, -1 if log is None else line.offset)
    for _ in range(chat.repeats):
        yield Repeat("earlier form of a message")
    name = str(chat.about.get("sessionId") or path.stem)
    directories = chat.about.get("directories")
    folder = str(directories[0]) if isinstance(directories, list) and directories else ""
    started = told_time({"time": chat.about.get("startTime")})
    about = {**rest_of(chat.about, "messages", "memoryScratchpad"), **({"cwd": folder} if folder else {})}
    title = str(chat.about.get("summary") or "")
    project = folder or (path.parents[1].name if path.parent.name == "chats" else "")
    # A sub-agent's chat lies in a folder that is called as its session is.
    parent = path.parent.name if chat.about.get("kind") == "subagent" and path.parent.name != "chats" else ""
    yield SourceConversation(
        name, title=title, project=project, started_at=started, parent=parent, about=about
    )
    yield from _records(chat, (one for one in chat.order if one not in chat.branch_of), log)
    for first, members in chat.branches.items():
        if members:
            yield SourceConversation(name, branch=first, live=False, started_at=started)
            yield from _records(chat, sorted(members, key=lambda one: chat.messages[one].place), log)


def _take(chat: _Chat, value: Mapping[str, Any], offset: int) -> None:
    if isinstance(value.get("$rewindTo"), str):
        chat.rewind(value["$rewindTo"])
    elif isinstance(value.get("id"), str) and "type" in value:
        chat.put(value, offset)
    elif isinstance(changes := value.get("$set", value), dict):
        if isinstance(messages := changes.get("messages"), list):
            if chat.messages:
                chat.replace(messages)
            else:
                for message in messages:
                    if isinstance(message, dict) and isinstance(message.get("id"), str):
                        chat.put(message)
        chat.about |= rest_of(changes, "messages")


def _records(chat: _Chat, names: Iterable[str], log: LineFile | None) -> Iterator[Record]:
    ends: dict[str, str] = {}
    last = ""
    for name in names:
        held = chat.messages[name].held
        message = log.at(held) if log is not None and isinstance(held, int) else held
        assert not isinstance(message, int)
        through = ends.get(chat.replaced.get(name, ""))
        for entry in _entries(name, message, hidden=name in chat.beside):
            last = entry.host_id
            if through:
                yield ImportedCompaction(text_of_parts(message.get("content")), through, entry)
                through = None
            else:
                yield entry
        ends[name] = last


def _entries(name: str, message: Mapping[str, Any], *, hidden: bool) -> Iterator[Entry]:
    """A message's rows: its words, each call, each result."""
    kind, at = message.get("type"), told_time(message)
    if kind not in _TALK:
        yield aside(name, "retry" if kind == "error" else "agent", message, at)
        return
    if kind == "user":
        content, added = without_additions(message.get("content"))
        about = rest_of(message, "id", "timestamp", "type", "content") | ({"hooks": added} if added else {})
        blocks = [_user_block(part) for part in parts_of(content) if "functionResponse" not in part]
        unseen = hidden or text_of_parts(content).startswith(_CONTEXT)
        yield Entry(name, {"role": "user", "content": blocks}, at, unseen, extras=_extras(about))
        return
    shown: dict[str, Any] = {"role": "assistant", "content": text_of_parts(message.get("content"))}
    if thoughts := _thoughts(message.get("thoughts")):
        shown["reasoning_content"] = thoughts
    about = rest_of(message, "id", "timestamp", "type", "content", "thoughts", "toolCalls")
    yield Entry(name, shown, at, hidden, extras=_extras(about))
    listed = message.get("toolCalls")
    calls = [call for call in listed if isinstance(call, dict)] if isinstance(listed, list) else []
    for number, call in enumerate(calls):
        call_id = str(call.get("id") or f"{name}:{number}")
        function = {"name": str(call.get("name", "")), "arguments": json.dumps(call.get("args") or {})}
        made = {"role": "assistant", "content": None, "tool_calls": [
            {"id": call_id, "type": "function", "function": function}]}  # fmt: skip
        yield Entry(f"{name}/call/{call_id}", made, told_time(call) or at)
    for number, call in enumerate(calls):
        if call.get("result") is None:
            continue
        call_id = str(call.get("id") or f"{name}:{number}")
        answer = {"role": "tool", "tool_call_id": call_id, "content": _result(call["result"])}
        about = rest_of(call, "id", "name", "args", "result", "timestamp")
        yield Entry(f"{name}/result/{call_id}", answer, told_time(call) or at, extras=_extras(about))


def _extras(about: Mapping[str, Any]) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    return (("agent", about),) if about else ()


def _user_block(part: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    data = part.get("inlineData")
    return media_block(data) if isinstance(data, dict) else {"type": "text", "text": json.dumps(part)}


def _thoughts(thoughts: Any) -> str:
    lines = [
        "\n".join(str(one[key]) for key in ("subject", "description") if one.get(key))
        for one in (thoughts if isinstance(thoughts, list) else ())
        if isinstance(one, dict)
    ]
    return "\n\n".join(lines)


def _result(result: Any) -> Any:
    """What a tool returned: a text, or blocks where it returned images too."""
    blocks: list[dict[str, Any]] = []
    for part in parts_of(result):
        answer, data = part.get("functionResponse"), part.get("inlineData")
        if isinstance(answer, dict):
            blocks.append({"type": "text", "text": response_text(answer)})
        elif isinstance(data, dict):
            blocks.append(media_block(data))
        else:
            blocks.append({"type": "text", "text": str(part.get("text") or json.dumps(part))})
    if len(blocks) == 1 and blocks[0]["type"] == "text":
        return blocks[0]["text"]
    return blocks
