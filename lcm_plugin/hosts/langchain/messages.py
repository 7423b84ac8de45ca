"""LangChain's messages and ours.

What a model is sent stands where the core looks for it (content, calls, results); all else that belongs to
a message (artifact, metadata, usage, status) is host data, so that the message comes back equal.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from inspect import signature
from operator import attrgetter
from typing import Any
from warnings import catch_warnings

from langchain_core.load import dumpd, load
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    messages_from_dict,
)

from lcm_plugin.messages.blocks import (
    answers_another,
    at,
    awaits_answer,
    blocks_of,
    body_path,
    call_id,
    first_at,
)
from lcm_plugin.messages.conversions import Conversions, FixedMessages, Grown, ListConversions
from lcm_plugin.messages.convert import broken_record, to_json
from lcm_plugin.messages.presentable import presentable
from lcm_plugin.messages.sendable import parse_json
from lcm_plugin.messages.table import type_of
from lcm_plugin.types import HOST_DATA, Message

HOST = "langchain"
_ROLES = {
    "human": "user",
    "HumanMessageChunk": "user",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "system": "system",
    "SystemMessageChunk": "system",
    "tool": "tool",
    "ToolMessageChunk": "tool",
    "function": "function",
    "FunctionMessageChunk": "function",
}
_SHOWN_BY_CORE = {"content", "id", "name", "type", "tool_call_id", "tool_calls", "artifact"}
_SERIALIZED = "lc_serialized"
_CONVERTED = "lc_converted"
_BYTES = "lc_bytes"


@dataclass(frozen=True, slots=True)
class Converted:
    """A message as the core stores it; ``as_is``: neither broken nor converted, and providers take it so."""

    core: Message
    as_is: bool


def converted(
    messages: Sequence[BaseMessage], lane: str | None = None, *, begins: bool = True, ends: bool = False
) -> Grown[Converted]:
    """Messages as the core stores them; each is converted once, and nobody may change what comes of it.

    Of the state of a ``lane`` only what is new or changed since the last time is looked at closely. LangChain's messages
    can be changed in place and are made anew from each checkpoint, so that not their identity counts, but whether they
    equal what they were, as Python compares: a 1 in one that becomes True goes unnoticed there. Between the call that
    ``begins`` a run and the one that ``ends`` it the same objects, but for the newest, are taken to be as they were.
    """
    if lane is None:
        return Grown([_conversions(message) for message in messages])
    return _states(
        lane, messages, lambda place: _conversions(messages[place]), closely=begins, again=not ends
    )


def listing(held: Grown[Converted], answers: Iterable[Converted] = ()) -> FixedMessages:
    """Converted messages as the core takes them, and answers that are not in the state yet."""
    core = attrgetter("core")
    return FixedMessages([*held.column("core", core), *map(core, answers)], held.line, held.shared)


def _converted_anew(message: BaseMessage) -> Converted:
    core = to_core(message)
    try:
        return Converted(core, _is_kept_as_it_is(core) and presentable(core) is core)
    except (ValueError, RecursionError):  # a number too long to be written, or nested too deep
        return Converted(core, as_is=False)


_essence = attrgetter("__class__.__module__", "__class__.__qualname__", "__dict__", "__pydantic_extra__")
_conversions: Conversions[BaseMessage, Converted] = Conversions(_converted_anew, _essence)
_states: ListConversions[BaseMessage, Converted] = ListConversions(
    attrgetter("__dict__"), type, attrgetter("__pydantic_extra__"), exact=False
)


def to_core(message: BaseMessage) -> Message:
    """A message as the core stores it. `from_core` with ``exact`` gives an equal one back.

    A message that cannot be taken apart becomes a broken record, so that its neighbours are stored.
    """
    try:
        return _to_core(message)
    except Exception as error:  # noqa: BLE001 - values of foreign classes may raise anything
        known = {key: getattr(message, key, None) for key in ("content", "id", "name", "tool_call_id")}
        return broken_record({"role": role_of(message), **known}, error)


def _to_core(message: BaseMessage) -> Message:
    core: Message = {"role": role_of(message), "content": _plain_content(message.content)}
    if message.name is not None:
        core["name"] = message.name
    if message.id is not None:
        core["id"] = message.id
    data: dict[str, Any] = {"type": message.type, **_other_fields(message)}
    if isinstance(message, AIMessage):
        if calls := _calls(message):
            core["tool_calls"] = calls
        if _tool_calls(core) != list(message.tool_calls):
            data["tool_calls"] = _plain(message.tool_calls)
    if isinstance(message, ToolMessage):
        core["tool_call_id"] = message.tool_call_id
        if message.artifact is not None:
            data["artifact"] = _plain(message.artifact)
    core[HOST_DATA] = {HOST: data}
    return core


def _is_kept_as_it_is(core: Message) -> bool:
    """Whether a message of `to_core` is the graph's own, neither broken nor converted."""
    data = core.get(HOST_DATA, {}).get(HOST)
    return data is not None and not any(
        isinstance(value, dict) and _CONVERTED in value for value in (*blocks_of(core), *data.values())
    )


def from_core(message: Message, *, exact: bool = False) -> list[BaseMessage]:
    """A message of the core for LangChain; several where one carries several results.

    ``exact`` restores a stored one in full. Else calls are read from where the core may have shortened or
    renamed them, and what only the host looks at (the artifact) is left out.
    """
    results = [block for block in blocks_of(message) if answers_another(block)]
    if message["role"] == "user" and results:
        return list(_from_results(message, results))
    data = message.get(HOST_DATA, {}).get(HOST)
    return [_with_data(message, data, exact=exact) if data else _bare(message)]


def _with_data(message: Message, data: Mapping[str, Any], *, exact: bool) -> BaseMessage:
    kept = {key: _restored_field(value) for key, value in data.items() if exact or key not in _OWN_OF_HOST}
    fields = {"content": _content(message), "name": message.get("name"), "id": message.get("id"), **kept}
    if data["type"] in ("ai", "AIMessageChunk"):
        fields.setdefault("tool_calls", _tool_calls(message))
    if "tool_call_id" in message:
        fields["tool_call_id"] = message["tool_call_id"]
    return messages_from_dict([{"type": data["type"], "data": fields}])[0]


# A call that the model garbled is shown as a call like any other, with a result that says that there is none.
_OWN_OF_HOST = frozenset({"artifact", "tool_calls", "invalid_tool_calls"})


def _bare(message: Message) -> BaseMessage:
    """A message that the core made itself: a summary, a notice, a stand-in for a result."""
    content, role = _content(message), message["role"]
    if role == "assistant":
        return AIMessage(content=content, tool_calls=_tool_calls(message))
    if role in ("tool", "function"):
        return ToolMessage(content=content, tool_call_id=str(message.get("tool_call_id") or ""))
    return (
        SystemMessage(content=content) if role in ("system", "developer") else HumanMessage(content=content)
    )


def _from_results(message: Message, results: Sequence[Mapping[str, Any]]) -> Iterator[BaseMessage]:
    for block in results:
        output = at(block, body_path(block) or ())
        yield ToolMessage(
            content=output if isinstance(output, (str, list)) else json.dumps(output),
            tool_call_id=call_id(block),
        )
    rest = [block for block in message["content"] if block not in results]
    if rest:
        yield HumanMessage(content=rest)


def role_of(message: BaseMessage) -> str:
    """The role under which a message is stored."""
    if isinstance(message, ChatMessage):
        return message.role if message.role in ("user", "assistant", "system", "developer") else "user"
    return _ROLES.get(message.type, "user")


def _calls(message: AIMessage) -> list[dict[str, Any]]:
    """The calls that do not stand in the content, the garbled ones as the model wrote them."""
    in_content = {call_id(block) for block in _call_blocks(message.content)}
    sound = [(call, json.dumps(call["args"], ensure_ascii=False)) for call in message.tool_calls]
    garbled = [(call, call.get("args") or "") for call in message.invalid_tool_calls]
    return [
        {
            "id": call.get("id"),
            "type": "function",
            "function": {"name": call.get("name") or "unknown", "arguments": text},
        }
        for call, text in [*sound, *garbled]
        if (call.get("id") or "") not in in_content
    ]


def _tool_calls(message: Message) -> list[dict[str, Any]]:
    """LangChain's calls of a core message, from its content and from its ``tool_calls``."""
    found = [
        _tool_call(
            call_id(block) or None,
            first_at(block, type_of(block).name),
            at(block, path) if (path := body_path(block)) else {},
        )
        for block in _call_blocks(message.get("content"))
    ]
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        found.append(_tool_call(call.get("id"), function.get("name"), function.get("arguments")))
    return found


def _tool_call(call_id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    if isinstance(arguments, str):
        try:
            arguments = parse_json(arguments or "{}")
        except ValueError:
            arguments = {"unreadable_arguments": arguments}
    args = arguments if isinstance(arguments, dict) else {"arguments": arguments}
    return {"name": str(name or ""), "args": args, "id": call_id, "type": "tool_call"}


def _other_fields(message: BaseMessage) -> dict[str, Any]:
    """What the core has no place for, without what every message has anyway."""
    kind: Any = type(message)
    defaults = _defaults_of(kind)
    values = {**{name: getattr(message, name) for name in defaults}, **(message.model_extra or {})}
    return {
        name: _plain(value)
        for name, value in values.items()
        if name not in _SHOWN_BY_CORE and (name not in defaults or value != defaults[name])
    }


@cache
def _defaults_of(kind: Any) -> Mapping[str, Any]:
    """What the fields of a class of messages hold unless they are given; only to compare with."""
    return {name: field.get_default(call_default_factory=True) for name, field in kind.model_fields.items()}


def _plain_content(content: Any) -> Any:
    """Content as JSON, block by block, so that one that is none does not hide the others."""
    return [_plain(block) for block in content] if isinstance(content, list) else content


def _content(message: Message) -> Any:
    content = message.get("content")
    if isinstance(content, list):
        return [_restored_block(block) for block in content]
    return "" if content is None else content


def _restored_field(value: Any) -> Any:
    try:
        return _restored(value)
    except ValueError:
        return value


def _restored_block(block: Any) -> Any:
    try:
        return _restored(block)
    except ValueError:
        return {"type": "text", "text": json.dumps(block, ensure_ascii=False)}


def _plain(value: Any) -> Any:
    """The value as JSON; what JSON cannot say in a form of its own, in which every part can be told apart.

    What that form cannot say either (a value inside itself, or nested too deep) is converted as the core does.
    """
    try:
        copied = json.loads(json.dumps(value))
        if copied == value:
            return copied
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        return {_SERIALIZED: _encoded(value)}
    except RecursionError:
        return {_CONVERTED: to_json(value)}


def _encoded(value: Any) -> Any:
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {str(key): _encoded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_encoded(item) for item in value]
    return value if value is None or isinstance(value, (str, bool, int, float)) else dumpd(value)


def _restored(value: Any) -> Any:
    """The inverse of `_plain`; raises `ValueError` when bytes were replaced by a reference to them."""
    if not isinstance(value, dict):
        return value
    if set(value) == {_CONVERTED}:
        return value[_CONVERTED]
    return _decoded(value[_SERIALIZED]) if set(value) == {_SERIALIZED} else value


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {_BYTES}:
        return base64.b64decode(value[_BYTES], validate=True)
    if value.get("lc") != 1:
        return {key: _decoded(item) for key, item in value.items()}
    # Only classes of langchain-core are made again; the first versions had no such choice.
    allowed = {"allowed_objects": "core"} if "allowed_objects" in signature(load).parameters else {}
    try:
        with catch_warnings(action="ignore"):
            return load(value, **allowed)
    except (NotImplementedError, ValueError, TypeError, ImportError):
        return value


def _call_blocks(content: Any) -> list[dict[str, Any]]:
    return [block for block in blocks_of({"content": content}) if awaits_answer(block)]
