"""From opencode's messages to the core's, under the ids that the importer gives them; and from a context back.

A message of opencode is a user's, or one step of an answer with its calls and their results: several messages of the core.
Where all of these are in a context as they were, the host's own message goes into it; else what is left of them becomes
pieces that the plugin makes messages of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lcm_plugin.interchange.importers.sources.opencode import entries_of
from lcm_plugin.messages.blocks import calls_of, text_of
from lcm_plugin.types import HOST_DATA, Message

Listed = Sequence[Mapping[str, Any]]
"""Messages as opencode lists them: each an ``info`` with ``parts``."""
_MARK = "opencode"


def to_core(listed: Listed) -> list[Message]:
    """The messages that a model is shown, without the host's compactions: their history is here."""
    return [message for one in listed for message in _of(one)]


def is_compaction(one: Mapping[str, Any]) -> bool:
    """Whether a message orders a compaction of the host, or is its summary."""
    parts = one.get("parts") or []
    return one["info"].get("summary") is True or any(part.get("type") == "compaction" for part in parts)


def _of(one: Mapping[str, Any]) -> Iterator[Message]:
    info, parts = one["info"], one.get("parts") or []
    if is_compaction(one):
        return
    for entry in entries_of(info, parts):
        if entry.message["content"]:
            data = {"id": entry.id, "time": entry.at, _MARK: str(info["id"])}
            yield {**entry.message, HOST_DATA: data}


def plan(context: Sequence[Message], given: Sequence[Message]) -> list[str | dict[str, Any]]:
    """A context as opencode's list: ids of its own messages, and pieces. ``given`` is what its list was converted to."""
    own: dict[str, list[Message]] = {}
    for message in given:
        own.setdefault(host_of(message), []).append(message)
    found: list[str | dict[str, Any]] = []
    pieces = _Pieces()
    at = 0
    while at < len(context):
        name = host_of(context[at])
        whole = own.get(name, []) if name else []
        if whole and list(context[at : at + len(whole)]) == whole:
            found += pieces.taken()
            found.append(name)
            at += len(whole)
        else:
            pieces.add(context[at])
            at += 1
    return [*found, *pieces.taken()]


def host_of(message: Message) -> str:
    """The id of opencode's message that a message is of; empty for one that is none of its own."""
    data = message.get(HOST_DATA)
    return str(data.get(_MARK, "")) if isinstance(data, Mapping) else ""


@dataclass(slots=True)
class _Pieces:
    """Messages that the plugin makes: a role, and parts that are texts or calls with their results."""

    made: list[dict[str, Any]] = field(default_factory=list)

    def add(self, message: Message) -> None:
        if message["role"] == "tool":
            self._answer(str(message.get("tool_call_id")), text_of(message))
            return
        role = "assistant" if message["role"] == "assistant" else "user"
        parts = [{"text": text}] if (text := text_of(message)).strip() else []
        calls = [
            {"call": one.id, "tool": one.name, "input": one.arguments, "output": ""}
            for one in calls_of(message)
        ]
        if parts or calls:
            self.made.append({"role": role, "parts": [*parts, *calls]})

    def taken(self) -> list[dict[str, Any]]:
        made, self.made = self.made, []
        return made

    def _answer(self, call: str, text: str) -> None:
        for piece in reversed(self.made):
            for part in piece["parts"]:
                if part.get("call") == call:
                    part["output"] = text
                    return
