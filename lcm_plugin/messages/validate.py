"""The rules that every provider agrees on, stated once.

`validate` names each breach with the position where it stands; an empty list means that OpenAI,
Anthropic, Gemini, Bedrock, DeepSeek and Kimi accept the order and shape of the messages. It reads
OpenAI's shape, Anthropic's content blocks, and Gemini's ``parts``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lcm_plugin.messages.blocks import (
    answers_another,
    at,
    awaits_answer,
    blank_block,
    blocks_of,
    body_path,
    call_id,
    content_key,
    is_assistant,
    is_blank,
    is_instruction,
)
from lcm_plugin.messages.sendable import is_json_object, is_sendable, is_tool_name
from lcm_plugin.messages.table import ROLES, Kind, type_of
from lcm_plugin.types import Message


@dataclass(slots=True)
class Seen:
    """A message reduced to what the rules speak about."""

    role: str
    calls: list[str]
    answers: list[str]
    faults: list[str]
    loose: list[str] = field(default_factory=list)  # what pairing mends
    named: bool = True  # False where calls have no ids (Gemini): then names may recur


def validate(messages: Sequence[Message], *, for_model_call: bool = True) -> list[str]:
    """What is wrong with a context; ``for_model_call`` also forbids a trailing assistant message."""
    rules = Rules()
    return rules.read(messages) + rules.end(for_model_call=for_model_call)


class Rules:
    """The rules, applied piece by piece: what follows a context that passed can be read alone."""

    def __init__(self) -> None:
        self._count = 0
        self._started = False
        self._last = ""
        self._open: list[str] = []
        self._used: set[str] = set()

    def copy(self) -> Rules:
        """The same state, to read on from more than once."""
        twin = Rules()
        twin._count, twin._started, twin._last = self._count, self._started, self._last
        twin._open, twin._used = list(self._open), set(self._used)
        return twin

    def read(self, messages: Sequence[Message]) -> list[str]:
        """What is wrong with the next messages."""
        return self.take(map(look_at, messages))

    def take(self, seen: Iterable[Seen]) -> list[str]:
        """The same for messages that were looked at before."""
        found: list[str] = []
        for one in seen:
            faults = [*one.faults, *one.loose, *self._order(one), *self._pairs(one)]
            found += [f"message {self._count}: {fault}" for fault in faults]
            self._last = one.role
            self._count += 1
        return found

    def end(self, *, for_model_call: bool = True) -> list[str]:
        """What is wrong with an end here."""
        found = [f"the call {call} has no result" for call in self._open]
        if for_model_call and self._last == "assistant":
            found.append(f"message {self._count - 1}: a model call cannot follow an assistant message")
        return found

    def _order(self, one: Seen) -> list[str]:
        if self._started or is_instruction(one.role):
            return []
        self._started = True
        if one.role == "user" and not one.answers:
            return []
        return [f"the first message after the system prompt is from {one.role}, not from the user"]

    def _pairs(self, one: Seen) -> list[str]:
        found: list[str] = []
        for call in one.answers:
            if call in self._open:
                self._open.remove(call)
            else:
                found.append(f"the result of {call} does not directly follow its call")
        if one.answers:
            return found
        if self._open:
            found += [f"{call} was not answered before" for call in self._open]
        self._open = list(one.calls)
        if one.named:
            for call in one.calls:
                if call in self._used:
                    found.append(f"the call id {call} is used twice")
                self._used.add(call)
        return found


def faults_in(message: Message) -> list[str]:
    """What is wrong with a message by itself, whatever becomes of its calls and results."""
    return look_at(message).faults


def look_at(message: Message) -> Seen:
    """What the rules need to know of a message; it depends on nothing but the message."""
    role = str(message["role"])
    one = Seen("assistant" if is_assistant(role) else role, [], [], [], named="parts" not in message)
    if role not in ROLES:
        one.faults.append(f"the role {role}")
    if not is_sendable(message):
        one.faults.append("a value that is not JSON in UTF-8")
    if not isinstance(message.get(content_key(message)), (str, list, type(None))):
        one.faults.append("content that is neither a text nor a list")
    calls = message.get("tool_calls")
    if calls:
        _look_at_calls(calls, one)
    _look_at_blocks(blocks_of(message), one)
    if one.role == "tool":
        one.answers.append(_id(message.get("tool_call_id"), "a tool result without a call id", one))
    blank = is_blank(message)
    if one.calls and message.get(content_key(message)) is None:
        blank = False
    if blank and not message.get("audio"):
        one.faults.append("empty content")
    return one


def _look_at_calls(calls: Any, one: Seen) -> None:
    if not isinstance(calls, list):
        one.faults.append("tool_calls is not a list")
        return
    for call in calls:
        if not isinstance(call, Mapping):
            one.faults.append("a tool call that is not a dict")
            continue
        one.calls.append(_id(call.get("id"), "a call without an id", one))
        function = call.get("function")
        if isinstance(function, Mapping) and not is_json_object(str(function.get("arguments"))):
            one.faults.append("call arguments that are not a JSON object")
        if isinstance(function, Mapping) and not is_tool_name(function.get("name")):
            one.faults.append("a tool's name that no provider takes")


def _look_at_blocks(blocks: list[Any], one: Seen) -> None:
    only_results = True
    for block in blocks:
        if blank_block(block):
            one.faults.append("a blank block")
        elif not isinstance(block, dict):
            one.faults.append("a block that is not a dict")
        if awaits_answer(block):
            one.calls.append(_id(call_id(block), "a call without an id", one))
        if answers_another(block):
            if not only_results:
                one.loose.append("a tool result after other content")
            one.answers.append(_id(call_id(block), "a tool result without a call id", one))
            if _blank_result(block):
                one.faults.append("an empty tool result")
        else:
            only_results = False
    _look_at_own_tools(blocks, one)


def _look_at_own_tools(blocks: list[Any], one: Seen) -> None:
    """A call of a provider's tool and its result stand in one message; a call that holds its result stands alone."""
    rows = [(block, type_of(block)) for block in blocks]
    own = [
        (call_id(block), row) for block, row in rows if row.by_provider and not row.output and call_id(block)
    ]
    made = {given for given, row in own if row.kind is Kind.CALL}
    answered = {given for given, row in own if row.kind is Kind.RESULT}
    for given in made ^ answered:
        one.faults.append(f"the provider's own call {given} and its result do not stand together")


def _blank_result(block: Mapping[str, Any]) -> bool:
    inner = at(block, body_path(block) or ())
    if isinstance(inner, list):
        return not inner or any(map(blank_block, inner))
    return inner is None or (isinstance(inner, str) and not inner.strip())


def _id(value: Any, fault: str, one: Seen) -> str:
    if not value:
        one.loose.append(fault)
    return str(value or "")
