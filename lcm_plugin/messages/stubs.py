"""Shortening what is bulky: a result keeps its head and tail, a call's arguments stay valid JSON.

What is left out is said where it stood, with the id under which all of it can be read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
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
from lcm_plugin.messages.outcomes import exit_state
from lcm_plugin.messages.table import Kind, Path
from lcm_plugin.messages.tokens import IMAGE_TOKENS
from lcm_plugin.types import Message

STUB_TOKENS = 256
"""What is kept of each bulky text before a neighbour is left out."""
LEAST_TOKENS = 16
"""What is kept of each bulky text at the least."""
CLEARED_LEAST = 128
"""Tokens of a result below which it is never cleared."""
_CLEARED_TOKENS = 24
_STUB_LINE = 40
_HEAD_SHARE = 2 / 3
_ARGUMENT_SHARE = 1 / 4
_LEAST_ARGUMENTS = 64
_CHARS_PER_TOKEN = 4

Count = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Shortened:
    """A message, the same object when nothing in it was bulky, and in how many places it was cut."""

    message: Message
    cuts: int


def shortened(
    message: Message, ref: str, count: Count, keep: int = STUB_TOKENS, *, words: bool = False
) -> Shortened:
    """The message with every bulky result and argument cut to about ``keep`` tokens each.

    With ``words`` what a person or a model says is cut as well.
    """
    cutter = _Cutter(ref, count, keep, words)
    short = cutter.message(message)
    return Shortened(short, cutter.cuts)


def cleared(message: Message, ref: str) -> Shortened:
    """The message with the beginning and the end of each long result, the id to read it by, and its exit state.

    It depends on the message alone, whatever counts tokens elsewhere: the figures in the lines are estimates.
    """
    cutter = _Cutter(ref, _estimate, _CLEARED_TOKENS, words=False, least=CLEARED_LEAST)
    short = cutter.message(message)
    return Shortened(short, cutter.cuts)


def is_short(text: str) -> bool:
    """Whether `cleared` leaves a result of this text whole."""
    return _estimate(text) <= CLEARED_LEAST


def _estimate(text: str) -> int:
    return -(-len(text) // _CHARS_PER_TOKEN)


class _Cutter:
    """Cuts what has more than ``keep`` tokens, and nothing of ``least`` or fewer."""

    def __init__(self, ref: str, count: Count, keep: int, words: bool, least: int = 0) -> None:
        self.cuts = 0
        self._least = least
        self._ref = ref
        self._count = count
        self._keep = keep
        self._cuts_words = words

    def message(self, message: Message) -> Message:
        """The whole message, cut."""
        content = message.get("content")
        if message["role"] == "tool" or (self._cuts_words and isinstance(content, str)):
            cut = self._output(content)
            short = message if cut is None else {**message, "content": cut}
        else:
            blocks = blocks_of(message)
            cut_blocks = [self._block(block) for block in blocks]
            same = all(new is old for new, old in zip(cut_blocks, blocks, strict=True))
            short = message if same else with_blocks(message, cut_blocks)
        if isinstance(message.get("tool_calls"), list):
            calls = [self._call(call) for call in message["tool_calls"]]
            if any(new is not old for new, old in zip(calls, message["tool_calls"], strict=True)):
                short = {**short, "tool_calls": calls}
        return short

    def _output(self, value: Any) -> str | None:
        """A result's output cut to a text; None when there is nothing to cut."""
        if isinstance(value, str):
            cut = self._text(value, self._keep)
            return None if cut is value else cut
        if not isinstance(value, list):
            return None
        text, media = text_of({"content": value}), sum(kind_of(item) is not Kind.TEXT for item in value)
        if media and media * IMAGE_TOKENS + self._count(text) <= self._keep:
            return None
        cut = self._text(text, self._keep)
        if cut is text and not media:
            return None
        self.cuts += bool(media)
        noted = f"{cut}\n[LCM: {media} attachments of {self._ref} left out]" if media else cut
        return noted.lstrip()

    def _block(self, block: Any) -> Any:
        if answers_another(block):
            cut = self._output(at(block, body_path(block) or ()))
            return block if cut is None else with_output(block, cut)
        if awaits_answer(block) and (path := body_path(block)):
            return self._arguments(block, path)
        if self._cuts_words and kind_of(block) is Kind.TEXT and (path := body_path(block)):
            cut = self._output(at(block, path))
            return block if cut is None else replaced(block, path, cut)
        return block

    def _call(self, call: Any) -> Any:
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
        if len(value) <= _LEAST_ARGUMENTS:
            return holder
        try:
            parsed = json.loads(value)
        except ValueError:
            return holder
        short = self._values(parsed)
        return holder if short is parsed else replaced(holder, path, json.dumps(short, ensure_ascii=False))

    def _values(self, value: Any) -> Any:
        """A JSON value with its long texts cut; one that stays bulky is said to be left out as a whole."""
        short = self._each(value)
        text, most = json.dumps(short, ensure_ascii=False), max(_LEAST_ARGUMENTS, 2 * self._keep)
        if len(text) > 2 * most and (total := self._count(text)) > most:
            self.cuts += short is value
            return {"left_out": stub_line(self._ref, total, total)}
        return short

    def _each(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value, max(LEAST_TOKENS, int(self._keep * _ARGUMENT_SHARE)))
        if isinstance(value, dict):
            new = {key: self._each(item) for key, item in value.items()}
            return new if any(new[key] is not value[key] for key in value) else value
        if isinstance(value, list):
            items = [self._each(item) for item in value]
            return items if any(one is not other for one, other in zip(items, value, strict=True)) else value
        return value

    def _text(self, text: str, keep: int) -> str:
        """Head and tail with the stub line between; the same object when nothing would be gained."""
        least = max(self._least, keep + _STUB_LINE)
        if len(text) <= least:
            return text
        total = self._count(text)
        if total <= least:
            return text
        self.cuts += 1
        chars = max(2, len(text) * keep // total)
        head = text[: int(chars * _HEAD_SHARE)]
        tail = text[len(text) - (chars - len(head)) :]
        line = stub_line(self._ref, total - keep, total)
        state = exit_state(text) if self._least else None
        if state is not None and state not in head and state not in tail:
            line = f"{line}\n{state}"
        return f"{head}\n{line}\n{tail}"
