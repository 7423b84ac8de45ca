"""Shortening what is bulky: a result keeps its head and tail, a call's arguments stay valid JSON.

What is left out is said where it stood, with the id under which all of it can be read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from lcm_plugin.messages.blocks import (
    answers_another,
    at,
    awaits_answer,
    blocks_of,
    body_path,
    kind_of,
    replaced,
    text_of,
    with_blocks,
    with_output,
)
from lcm_plugin.messages.markup import stub_line
from lcm_plugin.messages.table import Kind, Path
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
        cut = cutter.output(message.get("content"))
        short = message if cut is None else {**message, "content": cut}
    elif content := blocks_of(message):
        blocks = [cutter.block(block) for block in content]
        if any(new is not old for new, old in zip(blocks, content, strict=True)):
            short = with_blocks(message, blocks)
    if isinstance(message.get("tool_calls"), list):
        calls = [cutter.call(call) for call in message["tool_calls"]]
        if any(new is not old for new, old in zip(calls, message["tool_calls"], strict=True)):
            short = {**short, "tool_calls": calls}
    return short


class _Cutter:
    def __init__(self, ref: str, count: Count) -> None:
        self._ref = ref
        self._count = count

    def output(self, value: Any) -> str | None:
        """A result's output cut to a text; None when there is nothing to cut."""
        if isinstance(value, str):
            cut = self.text(value, STUB_TOKENS)
            return None if cut is value else cut
        if not isinstance(value, list):
            return None
        text, media = text_of({"content": value}), sum(kind_of(item) is not Kind.TEXT for item in value)
        cut = self.text(text, STUB_TOKENS)
        if cut is text and not media:
            return None
        noted = f"{cut}\n[LCM: {media} attachments of {self._ref} left out]" if media else cut
        return noted.lstrip()

    def block(self, block: Any) -> Any:
        if answers_another(block):
            cut = self.output(at(block, body_path(block) or ()))
            return block if cut is None else with_output(block, cut)
        if awaits_answer(block) and (path := body_path(block)):
            return self._arguments(block, path)
        return block

    def call(self, call: Any) -> Any:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            return call
        short = self._arguments(function, ("arguments",))
        return call if short is function else {**call, "function": short}

    def _arguments(self, holder: dict[str, Any], path: Path) -> dict[str, Any]:
        value = at(holder, path)
        if not isinstance(value, str):
            short = self._values(value)
            return holder if short is value else replaced(holder, path, short)
        try:
            parsed = json.loads(value)
        except ValueError:
            return holder
        short = self._values(parsed)
        return holder if short is parsed else replaced(holder, path, json.dumps(short, ensure_ascii=False))

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
