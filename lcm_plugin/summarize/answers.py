"""Reads the answer of a model call, whatever shape it has.

A completer may return a string, a `CompletionResult`, a response or a stream of chunks in OpenAI's shape (as
objects or dicts), with content as a string or as a list of parts. Reasoning parts are never text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from lcm_plugin.errors import ModelError
from lcm_plugin.messages.blocks import kind_of
from lcm_plugin.messages.table import Kind
from lcm_plugin.messages.usage import usage_of
from lcm_plugin.types import CompletionResult


def read_answer(answer: Any, model: str = "") -> CompletionResult:
    """The answer as a `CompletionResult`. Raises `ModelError` for a type that no model answers with."""
    if isinstance(answer, CompletionResult):
        return answer if answer.model else replace(answer, text=answer.text or "", model=model)
    if answer is None or isinstance(answer, str):
        return CompletionResult(answer or "", model)
    if _field(answer, "choices") is not None:
        return _read_response(answer, model)
    if isinstance(answer, Mapping):
        content = answer.get("content", answer.get("text"))
        return CompletionResult(
            content_text(content), model, tool_calls=tuple(answer.get("tool_calls") or ())
        )
    if isinstance(answer, Iterable):
        return _read_stream(answer, model)
    raise ModelError(f"the completer returned {type(answer).__name__}, not a text or a completion")


def content_text(content: Any) -> str:
    """The text of a message's content: a string, or the text parts of a list."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        return str(content.get("text") or "") if kind_of(content) is Kind.TEXT else ""
    if isinstance(content, (list, tuple)):
        return "".join(content_text(part) for part in content)
    return content_text({"type": _field(content, "type") or "text", "text": _field(content, "text")})


def _read_response(response: Any, model: str) -> CompletionResult:
    choices = _field(response, "choices")
    if not choices:
        raise ModelError("the model's response holds no choice")
    message = _field(choices[0], "message")
    return CompletionResult(
        content_text(_field(message, "content")),
        model or str(_field(response, "model") or ""),
        usage_of(_field(response, "usage")),
        tuple(_plain_call(call) for call in _field(message, "tool_calls") or ()),
        str(_field(choices[0], "finish_reason") or ""),
    )


def _read_stream(chunks: Iterable[Any], model: str) -> CompletionResult:
    texts: list[str] = []
    calls: dict[int, dict[str, Any]] = {}
    finish, usage = "", None
    for chunk in chunks:
        if isinstance(chunk, str):
            texts.append(chunk)
            continue
        usage = usage_of(_field(chunk, "usage")) or usage
        for choice in _field(chunk, "choices") or ():
            delta = _field(choice, "delta")
            texts.append(content_text(_field(delta, "content")))
            for piece in _field(delta, "tool_calls") or ():
                _join_call(calls, piece)
            finish = str(_field(choice, "finish_reason") or finish)
    ordered = tuple(calls[index] for index in sorted(calls))
    return CompletionResult("".join(texts), model, usage, ordered, finish)


def _join_call(calls: dict[int, dict[str, Any]], piece: Any) -> None:
    index = _field(piece, "index")
    index = len(calls) if index is None else int(index)
    call = calls.setdefault(index, {"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
    function = _field(piece, "function")
    call["id"] = _field(piece, "id") or call["id"]
    call["function"]["name"] += _field(function, "name") or ""
    call["function"]["arguments"] += _field(function, "arguments") or ""


def _plain_call(call: Any) -> dict[str, Any]:
    function = _field(call, "function")
    return {
        "id": _field(call, "id") or "",
        "type": "function",
        "function": {
            "name": _field(function, "name") or "",
            "arguments": _field(function, "arguments") or "",
        },
    }


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
