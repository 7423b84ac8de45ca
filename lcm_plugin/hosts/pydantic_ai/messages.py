"""pydantic-ai's messages as the core's, and back.

A request becomes one core message per part, since a tool's return and a prompt are different things to the
core; a response becomes one assistant's message. Texts, calls and media stand where the core looks for
them; whatever else the host keeps stands under `HOST_DATA`, which no model sees and which counts no tokens.
Everything goes by the host's own JSON, so that fields of later versions are carried along.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

from lcm_plugin.hosts.pydantic_ai.content import (
    HOST,
    prompt_from_core,
    prompt_to_core,
    return_from_core,
    return_to_core,
    without_nones,
)
from lcm_plugin.hosts.pydantic_ai.responses import response_from_core, response_to_core
from lcm_plugin.types import HOST_DATA, Message

_NO_TIME = datetime.fromtimestamp(0, UTC).isoformat()
INSTRUCTIONS_ID = "instructions_id"
_ROLES = {
    "system-prompt": "system",
    "user-prompt": "user",
    "tool-return": "tool",
    "retry-prompt": "tool",
    "retry-feedback": "user",
    "compaction": "user",
}


def dump(messages: Sequence[ModelMessage]) -> list[dict[str, Any]]:
    """The host's messages as JSON values; what JSON cannot hold is written as text."""
    dumped: list[dict[str, Any]] = ModelMessagesTypeAdapter.dump_python(
        list(messages), mode="json", warnings=False, fallback=str
    )
    return dumped


def load(values: Sequence[Mapping[str, Any]]) -> list[ModelMessage]:
    """The host's messages from JSON values."""
    return ModelMessagesTypeAdapter.validate_json(json.dumps(list(values)))


def is_shown(part_kind: str) -> bool:
    """Whether the core keeps the words of such a request part; others are the host's own records."""
    return part_kind in _ROLES


def to_core(message: Mapping[str, Any], asked_model: str | None = None) -> list[Message]:
    """A dumped message as core messages; ``asked_model`` is the name by which its model was asked."""
    if message["kind"] == "response":
        return [response_to_core(message, asked_model)]
    header = without_nones(message, "parts", "kind")
    if header.get("state") == "complete":
        del header["state"]
    parts = [_part_to_core(part) for part in message["parts"]] or [{"role": "user", "content": ""}]
    parts[0].setdefault(HOST_DATA, {HOST: {}})[HOST]["request"] = header
    return parts


def from_core(messages: Iterable[Message], *, merge: bool = False) -> list[ModelMessage]:
    """Core messages as the host's. Stored ones come back as they were.

    With ``merge`` requests that follow each other become one, as providers want it: then the list may
    be an assembled context, with summaries, shortened results and calls under other ids.
    """
    return load(_grouped(messages, merge))


def _grouped(messages: Iterable[Message], merge: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    texts: dict[str, str] = {}
    for message in messages:
        data = host_data(message)
        if message["role"] == "assistant":
            found.append(response_from_core(message, _NO_TIME))
            names |= {
                call["id"]: call["function"]["name"]
                for call in message.get("tool_calls") or ()
                if "function" in call
            }
            continue
        header = data.get("request")
        if not found or found[-1]["kind"] != "request" or (header is not None and not merge):
            found.append({"kind": "request", "parts": [], **_with_instructions(header or {}, texts)})
        if message.get("content") or "part" in data or not data:
            found[-1]["parts"].append(_part_from_core(message, data, names))
    return found


def _with_instructions(header: Mapping[str, Any], texts: dict[str, str]) -> dict[str, Any]:
    """The header with its instructions in full; ``texts`` gathers them by their ids."""
    known = texts.get(header.get(INSTRUCTIONS_ID, ""))
    rest = {key: item for key, item in header.items() if key != INSTRUCTIONS_ID}
    if isinstance(text := rest.get("instructions"), str):
        texts[instructions_id(text)] = text
    return {**rest, "instructions": known} if known else rest


def instructions_id(text: str) -> str:
    """What stands for instructions that an earlier message holds: they are the same in most requests."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def host_data(message: Message) -> dict[str, Any]:
    """What the host keeps with a message; empty for one that is not the host's."""
    data = message.get(HOST_DATA)
    own = data.get(HOST) if isinstance(data, dict) else None
    return own if isinstance(own, dict) else {}


def _part_to_core(part: Mapping[str, Any]) -> Message:
    kind = part["part_kind"]
    rest = without_nones(part, "content", "timestamp", "tool_name", "tool_call_id")
    if rest.get("outcome") == "success":
        del rest["outcome"]
    if not is_shown(kind):
        return {"role": "user", "content": "", HOST_DATA: {HOST: {"part": without_nones(part)}}}
    role = _ROLES[kind]
    if kind == "retry-prompt" and not part.get("tool_name"):
        role = "user"
        rest["tool_call_id"] = part.get("tool_call_id")
    message: Message = {"role": role}
    if role == "tool":
        message |= {"tool_call_id": part["tool_call_id"], "name": part["tool_name"]}
    if kind == "user-prompt":
        message["content"] = prompt_to_core(part["content"])
    else:
        message["content"], written = return_to_core(part["content"])
        if written != "text":
            rest["written"] = written
    if part.get("timestamp"):
        message["timestamp"] = part["timestamp"]
    return {**message, HOST_DATA: {HOST: {"part": rest}}}


def _part_from_core(message: Message, data: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    kept = data.get("part")
    rest = dict(kept) if kept is not None else _plain_part(message["role"])
    if not is_shown(rest["part_kind"]):
        return rest
    written = rest.pop("written", "text")
    part = {"timestamp": message.get("timestamp", _NO_TIME), **rest}
    if message["role"] == "tool":
        call_id = message["tool_call_id"]
        part |= {"tool_call_id": call_id, "tool_name": message.get("name") or names.get(call_id, "unknown")}
    if rest["part_kind"] == "user-prompt":
        return {**part, "content": prompt_from_core(message["content"])}
    return {**part, "content": return_from_core(message["content"], written)}


def _plain_part(role: str) -> dict[str, Any]:
    """What a message of the core itself is: a summary or a notice, a result in place of a missing one."""
    return {"part_kind": {"system": "system-prompt", "tool": "tool-return"}.get(role, "user-prompt")}
