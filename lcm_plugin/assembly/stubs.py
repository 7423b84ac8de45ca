"""Shortening what is bulky: a result keeps its head and tail, a call's arguments stay valid JSON.

What is left out is said where it stood, with the id under which all of it can be read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from lcm_plugin.messages.markup import stub_line
from lcm_plugin.messages.shape import CALL_BLOCKS, RESULT_BLOCKS
from lcm_plugin.types import Message

STUB_TOKENS = 256
_HEAD_SHARE = 2 / 3
_ARGUMENT_SHARE = 1 / 4

Count = Callable[[str], int]


def shortened(message: Message, ref: str, count: Count) -> Message:
    """The message with every bulky result and argument cut; the same object when none is bulky."""
    cutter = _Cutter(ref, count)
    short = message
    if message["role"] == "tool":
        short = cutter.in_key(message, "content")
    content = short.get("content")
    if isinstance(content, list) and message["role"] != "tool":
        blocks = [cutter.block(block) for block in content]
        if any(new is not old for new, old in zip(blocks, content, strict=True)):
            short = {**short, "content": blocks}
    if isinstance(message.get("tool_calls"), list):
        calls = [cutter.call(call) for call in message["tool_calls"]]
        if any(new is not old for new, old in zip(calls, message["tool_calls"], strict=True)):
            short = {**short, "tool_calls": calls}
    return short


class _Cutter:
    def __init__(self, ref: str, count: Count) -> None:
        self._ref = ref
        self._count = count

    def in_key(self, holder: dict[str, Any], key: str) -> dict[str, Any]:
        """A result whose text stands under a key."""
        value = holder.get(key)
        if isinstance(value, str):
            cut = self.text(value, STUB_TOKENS)
            return holder if cut is value else {**holder, key: cut}
        if not isinstance(value, list):
            return holder
        text, media = _words(value), sum(not _is_text(item) for item in value)
        cut = self.text(text, STUB_TOKENS)
        if cut is text and not media:
            return holder
        noted = f"{cut}\n[LCM: {media} attachments of {self._ref} left out]" if media else cut
        return {**holder, key: noted.lstrip()}

    def block(self, block: Any) -> Any:
        if not isinstance(block, dict):
            return block
        if str(block.get("type")) in RESULT_BLOCKS:
            return self.in_key(block, "output" if block["type"] == "function_call_output" else "content")
        if str(block.get("type")) in CALL_BLOCKS:
            key = next((key for key in ("input", "arguments", "args") if key in block), None)
            return self._arguments(block, key) if key else block
        return block

    def call(self, call: Any) -> Any:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            return call
        short = self._arguments(function, "arguments")
        return call if short is function else {**call, "function": short}

    def _arguments(self, holder: dict[str, Any], key: str) -> dict[str, Any]:
        value = holder.get(key)
        if not isinstance(value, str):
            short = self._values(value)
            return holder if short is value else {**holder, key: short}
        try:
            parsed = json.loads(value)
        except ValueError:
            return holder
        short = self._values(parsed)
        return holder if short is parsed else {**holder, key: json.dumps(short, ensure_ascii=False)}

    def _values(self, value: Any) -> Any:
        """A JSON value with its long texts cut; one that stays bulky is said to be left out as a whole."""
        short = self._each(value)
        text = json.dumps(short, ensure_ascii=False)
        if len(text) > 4 * STUB_TOKENS and (total := self._count(text)) > 2 * STUB_TOKENS:
            return {"left_out": stub_line(self._ref, total, total)}
        return short

    def _each(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value, int(STUB_TOKENS * _ARGUMENT_SHARE))
        if isinstance(value, dict):
            new = {key: self._each(item) for key, item in value.items()}
            return new if any(new[key] is not value[key] for key in value) else value
        if isinstance(value, list):
            items = [self._each(item) for item in value]
            return items if any(one is not other for one, other in zip(items, value, strict=True)) else value
        return value

    def text(self, text: str, keep: int) -> str:
        """Head and tail with the stub line between; the same object when little would be gained."""
        if len(text) <= 2 * keep:
            return text
        total = self._count(text)
        if total <= 2 * keep:
            return text
        chars = max(2, len(text) * keep // total)
        head = text[: int(chars * _HEAD_SHARE)]
        tail = text[len(text) - (chars - len(head)) :]
        left = max(1, total - self._count(head) - self._count(tail))
        return f"{head}\n{stub_line(self._ref, left, total)}\n{tail}"


def _words(blocks: list[Any]) -> str:
    return "\n".join(
        block if isinstance(block, str) else block["text"] for block in blocks if _is_text(block)
    )


def _is_text(block: Any) -> bool:
    return isinstance(block, str) or (isinstance(block, dict) and isinstance(block.get("text"), str))
