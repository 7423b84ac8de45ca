"""A chat model that answers by rule and checks every call with the providers' own converters."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

from fakes.validity import problems_of
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_openai import ChatOpenAI
from pydantic import Field

_OPENAI = ChatOpenAI(model="gpt-5", api_key="sk-none", use_responses_api=False)  # type: ignore[arg-type]
_RESPONSES = ChatOpenAI(model="gpt-5", api_key="sk-none", use_responses_api=True)  # type: ignore[arg-type]
_ANTHROPIC = ChatAnthropic(model="claude-sonnet-4-5", api_key="sk-none")  # type: ignore[call-arg,arg-type]


class ScriptedModel(BaseChatModel):
    """``rule`` makes the answer from the messages. Keeps every call, and what is wrong with it."""

    rule: Callable[[list[BaseMessage]], AIMessage]
    calls: list[list[BaseMessage]] = Field(default_factory=list)
    problems: list[str] = Field(default_factory=list)
    bound: list[str] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        names = [tool["function"]["name"] if isinstance(tool, dict) else tool.name for tool in tools]
        self.bound[:] = names
        return self.bind(**{key: value for key, value in options.items() if key != "tool_choice"})

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **options: Any
    ) -> ChatResult:
        self.calls.append(list(messages))
        self.problems += problems_in(messages)
        return ChatResult(generations=[ChatGeneration(message=self.rule(list(messages)))])


def problems_in(messages: list[BaseMessage]) -> list[str]:
    """What a provider would refuse, by the converters of langchain-openai, -anthropic, -google-genai and -aws."""
    chat = _OPENAI._get_request_payload(messages)["messages"]
    found = problems_of(chat)
    assert _RESPONSES._get_request_payload(messages)["input"]
    turns = _ANTHROPIC._get_request_payload(messages)["messages"]
    if turns[0]["role"] != "user":
        found.append("Anthropic: the first turn is not the user's")
    for before, after in zip(turns, [*turns[1:], {"role": "", "content": []}], strict=True):
        asked = {block["id"] for block in _blocks(before) if block.get("type") == "tool_use"}
        given = {block["tool_use_id"] for block in _blocks(after) if block.get("type") == "tool_result"}
        if asked != given:
            found.append(f"Anthropic: calls {asked} and results {given} differ")
    return found + _refused_by_gemini(messages) + _refused_by_bedrock(messages)


def _refused_by_gemini(messages: list[BaseMessage]) -> list[str]:
    """Gemini's rules; its converter comes with deepagents."""
    if find_spec("langchain_google_genai") is None:
        return []
    from langchain_google_genai.chat_models import _parse_chat_history

    found = []
    turns = _parse_chat_history(messages)[1]
    if turns[0].role != "user":
        found.append("Gemini: the first turn is not the user's")
    for before, after in pairwise([*turns, None]):
        calls = sum(part.function_call is not None for part in before.parts)
        results = sum(part.function_response is not None for part in after.parts) if after else 0
        if calls != results:
            found.append(f"Gemini: {calls} calls and {results} results")
        if not before.parts:
            found.append("Gemini: a turn without parts")
    return found


@cache
def _converse() -> Any:
    """The request of Bedrock's Converse, as botocore's own model of the service has it."""
    from botocore.session import get_session

    return get_session().get_service_model("bedrock-runtime").operation_model("Converse").input_shape


def _refused_by_bedrock(messages: list[BaseMessage]) -> list[str]:
    """Bedrock's rules: its client's model of a request, the patterns of ids and names, and the order of turns."""
    from botocore.validate import ParamValidator
    from langchain_aws.chat_models.bedrock_converse import _messages_to_bedrock

    turns, system = _messages_to_bedrock(list(messages))
    request = {"modelId": "amazon.nova-pro-v1:0", "messages": turns, "system": system}
    report = ParamValidator().validate(request, _converse())
    found = [f"Bedrock: {report.generate_report()}"] if report.has_errors() else []
    roles = [turn["role"] for turn in turns]
    if roles[0] != "user" or any(one == other for one, other in pairwise(roles)):
        found.append(f"Bedrock: the turns are {roles}")
    use = _converse().members["messages"].member.members["content"].member.members["toolUse"]
    for before, after in pairwise([*turns, {"content": []}]):
        calls = [block["toolUse"] for block in before["content"] if "toolUse" in block]
        results = [block["toolResult"]["toolUseId"] for block in after["content"] if "toolResult" in block]
        if sorted(call["toolUseId"] for call in calls) != sorted(results):
            found.append(f"Bedrock: calls {calls} and results {results} differ")
        for call in calls:
            for key in ("toolUseId", "name"):
                rule = use.members[key].metadata
                if len(call[key]) > rule["max"] or not re.fullmatch(rule["pattern"], call[key]):
                    found.append(f"Bedrock: {key} {call[key]!r} does not match {rule}")
        if not before["content"] or any(block.get("text", "x").isspace() for block in before["content"]):
            found.append(f"Bedrock: a turn says nothing: {before}")
    return found


def _blocks(turn: dict[str, Any]) -> list[dict[str, Any]]:
    return turn["content"] if isinstance(turn["content"], list) else []


def size(messages: list[BaseMessage]) -> int:
    """Characters of all contents and calls."""
    return sum(
        len(str(message.content)) + len(json.dumps(getattr(message, "tool_calls", [])))
        for message in messages
    )
