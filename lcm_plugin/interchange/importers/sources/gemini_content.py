"""Turns Gemini's contents (``parts``) into messages, as Gemini CLI and Qwen Code store them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_HOOK_CONTEXT = re.compile(r"\s*<hook_context>.*?</hook_context>", re.DOTALL)
_LOADED_CONTEXT = re.compile(r"\s*<loaded_context>.*</loaded_context>\s*", re.DOTALL)


def parts_of(content: Any) -> list[Mapping[str, Any]]:
    """The parts of a content, which may be a text, one part, or a list of both."""
    values = content if isinstance(content, list) else [content]
    found: list[Mapping[str, Any]] = []
    for value in values:
        if isinstance(value, str) and value:
            found.append({"text": value})
        elif isinstance(value, Mapping):
            found.append(value)
    return found


def text_of_parts(content: Any) -> str:
    """The words of a content, thoughts apart."""
    return "".join(str(part.get("text") or "") for part in parts_of(content) if not part.get("thought"))


def without_additions(content: Any) -> tuple[Any, list[str]]:
    """A user's content without what hooks, and the agent before a sub-agent's order, added to it; and that."""
    added: list[str] = []

    def stripped(text: str) -> str:
        if _LOADED_CONTEXT.fullmatch(text):
            added.append(text.strip())
            return ""
        if "<hook_context>" not in text:
            return text
        added.extend(match.strip() for match in _HOOK_CONTEXT.findall(text))
        return _HOOK_CONTEXT.sub("", text).lstrip("\n")

    kept = [
        {**part, "text": stripped(str(part["text"]))} if "text" in part else part
        for part in parts_of(content)
    ]
    return [part for part in kept if part.get("text", "-") != ""], added


@dataclass(slots=True)
class Blocks:
    """Makes blocks of the parts of one session; pairs calls and results that have no ids by the tool's name."""

    _open: dict[str, list[str]] = field(default_factory=dict)

    def of(self, content: Any, source_id: str) -> list[dict[str, Any]]:
        """The blocks of a content."""
        return [
            block
            for number, part in enumerate(parts_of(content))
            for block in self._of_part(part, f"{source_id}:{number}")
        ]

    def _of_part(self, part: Mapping[str, Any], place: str) -> Iterator[dict[str, Any]]:
        if isinstance(call := part.get("functionCall"), Mapping):
            name, call_id = str(call.get("name", "")), str(call.get("id") or place)
            self._open.setdefault(name, []).append(call_id)
            yield {"type": "tool_use", "id": call_id, "name": name, "input": call.get("args") or {}}
        elif isinstance(answer := part.get("functionResponse"), Mapping):
            waiting = self._open.get(str(answer.get("name", "")), [])
            answered = str(answer.get("id") or (waiting[0] if waiting else place))
            if answered in waiting:
                waiting.remove(answered)
            yield {"type": "tool_result", "tool_use_id": answered, "content": response_text(answer)}
        elif isinstance(data := part.get("inlineData"), Mapping):
            yield media_block(data)
        elif isinstance(part.get("text"), str) and part["text"]:
            yield (
                {"type": "thinking", "thinking": part["text"]}
                if part.get("thought")
                else {"type": "text", "text": part["text"]}
            )
        elif part:
            yield {"type": "text", "text": json.dumps(part, ensure_ascii=False)}


def media_block(data: Mapping[str, Any]) -> dict[str, Any]:
    """An image or another file that lies in a content."""
    kind, encoded = str(data.get("mimeType") or ""), str(data.get("data") or "")
    if kind.startswith("image/"):
        return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": encoded}}
    return {"type": "file", "file": {"file_data": f"data:{kind};base64,{encoded}", "filename": "attachment"}}


def response_text(answer: Mapping[str, Any]) -> str:
    """What a tool returned."""
    response = answer.get("response")
    if isinstance(response, Mapping):
        for key in ("output", "error", "content"):
            if isinstance(response.get(key), str):
                return str(response[key])
    return response if isinstance(response, str) else json.dumps(response, ensure_ascii=False)
