"""From stored rows to the messages of a model call, and the shortening of bulky results."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lcm_plugin.assembly.validate import blank_block, is_blank
from lcm_plugin.ingest.messages import calls_answered, calls_made
from lcm_plugin.ingest.shown import holds_media, shown_to_models
from lcm_plugin.markup import stub_line, summary_block
from lcm_plugin.store.base import Reader
from lcm_plugin.store.records import Item, Part
from lcm_plugin.tokens import TokenCounter
from lcm_plugin.types import Message

EMPTY_RESULT = "(empty)"
_REASONING_KEYS = ("reasoning_content", "reasoning", "thinking", "reasoning_details")
_REASONING_BLOCKS = frozenset({"thinking", "reasoning", "redacted_thinking"})
_STUB_SHARE = 0.25
_STUB_MIN_TOKENS = 64
_CACHE_TOKENS = 2_000_000


@dataclass(frozen=True, slots=True)
class Rendered:
    """A message ready to be sent and what it costs. ``ordinal`` is its place in the context."""

    ordinal: int
    message: Message
    tokens: int
    ref: str
    group: int
    role: str


class Renderer:
    """Turns context items into messages. Rendered raw messages are kept, since they never change."""

    def __init__(
        self, counter: TokenCounter, zone: str, read_file: Callable[[Part], Any] | None = None
    ) -> None:
        """``read_file`` gives the original value of a part that moved to a file."""
        self._counter = counter
        self._read_file = read_file
        self._zone = zone
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, tuple[Message, int]] = OrderedDict()
        self._kept_tokens = 0

    def render(self, reader: Reader, items: Sequence[Item], model: str | None) -> list[Rendered]:
        """The items in their order, read with two queries at most; what has nothing to show is left out."""
        raw = self._raw_messages(reader, items)
        summaries = self._summaries(reader, items)
        rendered = []
        for item in items:
            if item.message is None:
                text = summaries[str(item.summary_id)]
                message: Message = {"role": "user", "content": text}
                rendered.append(
                    Rendered(item.ordinal, message, item.tokens, item.ref, item.ordinal, "summary")
                )
                continue
            shown, tokens = self._for_model(*raw[item.message.message_id], model)
            if shown is not None:
                head = item.message
                rendered.append(
                    Rendered(item.ordinal, copy_message(shown), tokens, item.ref, head.group_seq, head.role)
                )
        return rendered

    def _for_model(self, message: Message, tokens: int, model: str | None) -> tuple[Message | None, int]:
        kept = without_foreign_reasoning(message, model)
        if kept is message:
            return message, tokens
        shown = presentable(kept)
        return shown, self._counter.message(shown or kept)

    def stub(self, rendered: Rendered) -> Rendered:
        """A bulky result with its middle taken out; the same object when there is nothing to gain."""
        message = _shortened(rendered.message, rendered.ref, self._counter)
        if message is rendered.message:
            return rendered
        tokens = self._counter.message(message)
        if tokens >= rendered.tokens:
            return rendered
        return Rendered(rendered.ordinal, message, tokens, rendered.ref, rendered.group, rendered.role)

    def _raw_messages(self, reader: Reader, items: Sequence[Item]) -> dict[int, tuple[Message, int]]:
        wanted = [item.message.message_id for item in items if item.message]
        found: dict[int, tuple[Message, int]] = {}
        with self._lock:
            for message_id in wanted:
                if message_id in self._kept:
                    self._kept.move_to_end(message_id)
                    found[message_id] = self._kept[message_id]
        missing = [message_id for message_id in wanted if message_id not in found]
        for message_id, stored in (reader.messages_by_id(missing) if missing else {}).items():
            message = shown_to_models(stored, self._read_file)
            shown = presentable(message)
            tokens = stored.head.tokens if shown is message else self._counter.message(shown or message)
            found[message_id] = (shown or message, tokens)
            # Media weigh megabytes at a few tokens: a cache bounded in tokens must not hold them.
            if not holds_media(stored):
                self._keep(message_id, found[message_id])
        return found

    def _keep(self, message_id: int, entry: tuple[Message, int]) -> None:
        with self._lock:
            if message_id in self._kept:
                return
            self._kept[message_id] = entry
            self._kept_tokens += entry[1]
            while self._kept_tokens > _CACHE_TOKENS:
                _, (_, tokens) = self._kept.popitem(last=False)
                self._kept_tokens -= tokens

    def _summaries(self, reader: Reader, items: Sequence[Item]) -> dict[str, str]:
        ids = [item.summary_id for item in items if item.summary_id]
        if not ids:
            return {}
        sources = reader.sources_of(ids)
        return {
            summary_id: summary_block(summary, sources.get(summary_id, ()), self._zone)
            for summary_id, summary in reader.summaries(ids).items()
        }


def presentable(message: Message) -> Message | None:
    """The message without blank content; None when nothing remains. The same object when it was fine."""
    content = message.get("content")
    if isinstance(content, list) and any(blank_block(block) for block in content):
        message = {**message, "content": [block for block in content if not blank_block(block)]}
    if not is_blank(message):
        return message
    if message["role"] == "tool" or calls_answered(message):
        return {**message, "content": EMPTY_RESULT}
    if calls_made(message) or message.get("function_call"):
        return message if message.get("content") is None else {**message, "content": None}
    return None


def without_foreign_reasoning(message: Message, model: str | None) -> Message:
    """The message without reasoning that another model wrote; the same object when there is none."""
    author = message.get("model")
    if model is None or not isinstance(author, str) or author == model:
        return message
    content = message.get("content")
    blocks = [block for block in content if _is_reasoning(block)] if isinstance(content, list) else []
    if not blocks and not any(key in message for key in _REASONING_KEYS):
        return message
    kept = {key: value for key, value in message.items() if key not in _REASONING_KEYS}
    if blocks:
        kept["content"] = [block for block in content or () if not _is_reasoning(block)]
    return kept


def copy_message(message: Message) -> Message:
    """A copy that a host may change."""
    return {key: _copy(value) for key, value in message.items()}


def _is_reasoning(block: Any) -> bool:
    return isinstance(block, Mapping) and str(block.get("type")) in _REASONING_BLOCKS


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def _shortened(message: Message, ref: str, counter: TokenCounter) -> Message:
    """A tool result with the middle of its longest text replaced by a stub line."""
    if message["role"] != "tool":
        return message
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": _cut(content, ref, counter)}
    if isinstance(content, list):
        return {**message, "content": _cut("\n".join(_words(content)), ref, counter)}
    return message


def _words(content: Sequence[Any]) -> list[str]:
    return [
        block["text"] for block in content if isinstance(block, dict) and isinstance(block.get("text"), str)
    ]


def _cut(text: str, ref: str, counter: TokenCounter) -> str:
    total = counter.text(text)
    keep = max(_STUB_MIN_TOKENS, min(int(total * _STUB_SHARE), 4 * _STUB_MIN_TOKENS))
    chars = max(1, int(len(text) * keep / max(total, 1)))
    head, tail = text[: chars * 2 // 3], text[len(text) - chars // 3 :]
    left = max(0, total - counter.text(head) - counter.text(tail))
    return f"{head}\n{stub_line(ref, left, total)}\n{tail}"
