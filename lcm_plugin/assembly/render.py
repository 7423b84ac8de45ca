"""From stored rows to messages that can be sent, each made once and kept until a redaction changes it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from lcm_plugin.ingest.shown import holds_attachments, holds_media, shown_to_models
from lcm_plugin.lru import LruCache
from lcm_plugin.messages.blocks import id_text, is_assistant, is_instruction
from lcm_plugin.messages.markup import pin_block, plan_block, summary_block, unshown_line
from lcm_plugin.messages.presentable import presentable
from lcm_plugin.messages.shape import (
    answer_ids,
    call_ids,
    only_results,
    reasoning_author,
    same_model,
    without_reasoning,
    words_beside_results,
)
from lcm_plugin.messages.stubs import LEAST_TOKENS, STUB_TOKENS, cleared, shortened
from lcm_plugin.messages.table import ROLES
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.messages.validate import faults_in
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import Item, MessageHead, Part, StoredMessage, Summary
from lcm_plugin.types import Message, Pin

logger = logging.getLogger(__name__)
_PLAN_WRAPPER = 128
_ABSENT = "absent"
_CACHE_TOKENS = 1_000_000
_LENGTHS = 16_384
_CLEARED = 1 << 48

Kind = Literal["summary", "instruction", "standing", "request", "call", "result", "reply", "other"]


@dataclass(frozen=True, slots=True)
class Rendered:
    """A message ready to be sent and what it costs. ``ordinal`` is its place in the context.

    A *request* is what a user says, a *call* an assistant's message with tool calls, a *result* a
    message that answers calls; ``with_words`` marks a result in which a user also speaks. ``last`` is
    the seq up to which a summary reaches. ``author`` is the model whose reasoning is in the message.
    ``media`` is how many characters images and other media in it take. ``version`` is another one once the
    stored message was redacted or cleared. ``cuts`` is in how many places it was shortened, ``cleared`` that a result
    was cleared: its form stays the same.
    ``referenced`` is its form with references in place of attachments that need not go out whole.
    """

    ordinal: int
    message: Message
    tokens: int
    ref: str
    group: int
    kind: Kind
    calls: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    with_words: bool = False
    last: int = 0
    author: str | None = None
    media: int = 0
    version: int = 0
    cuts: int = 0
    cleared: bool = False
    referenced: Message | None = None

    @property
    def is_request(self) -> bool:
        """Whether a user speaks here."""
        return self.kind == "request" or self.with_words


@dataclass(frozen=True, slots=True)
class LatestPlan:
    """A plan as a tool's call or result has it; ``at`` is when it was made, in milliseconds."""

    ref: str
    tool: str
    at: int
    text: str


class Renderer:
    """Turns context items into messages. Thread-safe."""

    def __init__(
        self, counter: TokenCounter, zone: str, read_file: Callable[[Part], Any] | None = None
    ) -> None:
        """``read_file`` gives the original value of a part that moved to a file."""
        self._counter = counter
        self._read_file = read_file
        self._zone = zone
        self._kept: LruCache[object, Rendered | None] = LruCache(_CACHE_TOKENS, _weight)
        self._lengths: LruCache[int, int] = LruCache(_LENGTHS)

    def render(self, reader: Reader, items: Sequence[Item]) -> list[Rendered | None]:
        """The items in their order, read with three queries at most; None where nothing can be shown."""
        raw = self._messages(reader, [item.message for item in items if item.message])
        summaries = self._summaries(reader, [item for item in items if not item.message])
        return [
            raw.get(item.message.message_id) if item.message else summaries.get(str(item.summary_id))
            for item in items
        ]

    def message_at(self, reader: Reader, conversation_id: int, seqs: Sequence[int]) -> dict[int, Message]:
        """Messages by seq, presentable: calls whose results came when they stood no longer in the context."""
        found = reader.messages_at(conversation_id, seqs)
        shown = {one.head.seq: _shown(shown_to_models(one, self._read_file), one.head.ref) for one in found}
        return {seq: message for seq, message in shown.items() if message is not None}

    def pin(self, pin: Pin) -> Rendered:
        """A pinned text as a message."""
        message = {"role": "user", "content": pin_block(pin)}
        return Rendered(0, message, self._counter.message(message), pin.pin_id, 0, "standing")

    def plan(self, plan: LatestPlan, most: int) -> Rendered | None:
        """A plan as a message of at most ``most`` tokens, cut if it must be; None where that is too little."""
        for keep in (most, most - _PLAN_WRAPPER):
            if keep < LEAST_TOKENS:
                break
            cut = shortened({"role": "tool", "content": plan.text}, plan.ref, self._counter.text, keep)
            block = plan_block(plan.ref, plan.tool, plan.at, cut.message["content"], self._zone)
            message = {"role": "user", "content": block}
            tokens = self._counter.message(message)
            if tokens <= most:
                return Rendered(0, message, tokens, plan.ref, 0, "standing", cuts=cut.cuts)
        return None

    def for_model(self, rendered: Rendered, model: str | None) -> Rendered | None:
        """The message without reasoning that another model wrote; None when nothing else is in it."""
        if rendered.author is None or model is None or same_model(rendered.author, model):
            return rendered
        return self._once(("bare", rendered.ref, rendered.version), lambda: self._bare(rendered))

    def cut(self, item: Rendered, keep: int, *, words: bool = False) -> Rendered:
        """The message with what is bulky in it cut to about ``keep`` tokens each; the same object when nothing is.

        With ``words`` also what is said in it, which is otherwise never cut.
        """
        if item.referenced is not None:
            tokens = self._counter.message(item.referenced)
            item = replace(
                item, message=item.referenced, tokens=tokens, referenced=None, cuts=item.cuts + 1, media=0
            )
        if item.cleared or not (item.calls or item.answers or words):
            return item
        if keep not in (STUB_TOKENS, LEAST_TOKENS):
            return self._cut(item, keep, words) or item
        key = ("cut", item.ref, item.tokens, item.version, keep, words)
        return self._once(key, lambda: self._cut(item, keep, words)) or item

    def words_only(self, rendered: Rendered) -> Rendered:
        """What a user says in a message that also carries results."""
        words = words_beside_results(rendered.message) if rendered.with_words else None
        if words is None:
            return rendered
        return replace(
            rendered,
            message=words,
            tokens=self._counter.message(words),
            kind="request",
            answers=(),
            with_words=False,
        )

    def results_only(self, rendered: Rendered) -> Rendered:
        """The results of a message in which a user also says something."""
        if not rendered.with_words:
            return rendered
        message = only_results(rendered.message, range(len(rendered.answers)), rendered.answers)
        return replace(rendered, message=message, tokens=self._counter.message(message), with_words=False)

    def _bare(self, rendered: Rendered) -> Rendered | None:
        shown = presentable(without_reasoning(rendered.message))
        if shown is None:
            return None
        return replace(rendered, message=shown, tokens=self._counter.message(shown), author=None)

    def _cut(self, rendered: Rendered, keep: int, words: bool) -> Rendered | None:
        short = shortened(rendered.message, rendered.ref, self._length, keep, words=words)
        if not short.cuts:
            return None
        tokens = self._counter.message(short.message)
        if tokens >= rendered.tokens:
            return None
        return replace(rendered, message=short.message, tokens=tokens, cuts=short.cuts)

    def _length(self, text: str) -> int:
        """Tokens of a bulky text, counted once however often it is cut anew."""
        key = hash(text)
        known = self._lengths.get(key)
        return self._lengths.put_new(key, self._counter.text(text)) if known is None else known

    def _messages(self, reader: Reader, heads: Sequence[MessageHead]) -> dict[int, Rendered | None]:
        wanted = {head.message_id: _key(head) for head in heads if not head.hidden}
        kept = self._kept.get_all(wanted.values())
        found = {message_id: kept[key] for message_id, key in wanted.items() if key in kept}
        missing = [message_id for message_id in wanted if message_id not in found]
        for message_id, stored in (reader.messages_by_id(missing) if missing else {}).items():
            rendered = self._rendered(stored)
            # Media weigh megabytes at a few tokens: a cache bounded in tokens must not hold them.
            found[message_id] = rendered if holds_media(stored) else self._keep(_key(stored.head), rendered)
        return found

    def _rendered(self, stored: StoredMessage) -> Rendered | None:
        message = shown_to_models(stored, self._read_file)
        head = stored.head
        shown = _shown(message, head.ref)
        if shown is None:
            return None
        cuts = 0
        if head.cleared_tokens is not None:
            short = cleared(shown, head.ref)
            shown, cuts = short.message, short.cuts
        # An earlier version counted the reference of an attachment that now goes out whole.
        attached = holds_attachments(stored)
        counted = shown is message and not attached
        tokens = head.tokens if counted else self._counter.message(shown)
        calls, answers = call_ids(shown) if is_assistant(head.role) else (), answer_ids(shown)
        return Rendered(
            head.seq,
            shown,
            tokens,
            head.ref,
            head.group_seq,
            _kind(head, calls, answers),
            calls,
            answers,
            bool(answers) and words_beside_results(shown) is not None,
            author=reasoning_author(shown),
            media=_characters(shown) if holds_media(stored) else 0,
            version=_version(head),
            cuts=cuts,
            cleared=head.cleared_tokens is not None,
            referenced=_shown(shown_to_models(stored), head.ref) if attached else None,
        )

    def _summaries(self, reader: Reader, items: Sequence[Item]) -> dict[str, Rendered]:
        ids = [str(item.summary_id) for item in items]
        if not ids:
            return {}
        stored = reader.summaries(ids)
        # A repair may rewrite a summary's text under the same id, so the text is part of the key.
        keys = {summary_id: ("summary", summary_id, found.content) for summary_id, found in stored.items()}
        kept = self._kept.get_all(keys.values())
        missing = [summary_id for summary_id, key in keys.items() if key not in kept]
        sources = reader.sources_of(missing) if missing else {}
        shown: dict[str, Rendered] = {}
        for item in items:
            summary_id = str(item.summary_id)
            if (key := keys.get(summary_id)) is not None:
                shown[summary_id] = kept.get(key) or self._summary(item, stored[summary_id], sources)
                self._keep(key, shown[summary_id])
        return shown

    def _summary(self, item: Item, summary: Summary, sources: Mapping[str, Sequence[str]]) -> Rendered:
        text = summary_block(summary, sources.get(summary.summary_id, ()), self._zone)
        message: Message = {"role": "user", "content": text}
        return Rendered(
            item.ordinal,
            message,
            self._counter.message(message),
            summary.summary_id,
            item.ordinal,
            "summary",
            last=summary.last_seq,
        )

    def _once(self, key: object, make: Callable[[], Rendered | None]) -> Rendered | None:
        kept = self._kept.get(key, _ABSENT)
        return self._keep(key, make()) if isinstance(kept, str) else kept

    def _keep(self, key: object, entry: Rendered | None) -> Rendered | None:
        # Media weigh megabytes at a few tokens: a cache bounded in tokens must not hold them.
        if entry is not None and entry.media:
            return entry
        return self._kept.put_new(key, entry)


def _key(head: MessageHead) -> tuple[int, int]:
    return (head.message_id, _version(head))


def _version(head: MessageHead) -> int:
    return head.identity ^ head.tokens ^ (0 if head.cleared_tokens is None else _CLEARED)


def _shown(message: Message, ref: str) -> Message | None:
    """The message as providers take it; a line with its id where it still breaks a rule by itself."""
    try:
        shown = presentable(message)
        sound = shown is None or not faults_in(shown)
    except Exception:  # a message is data from anywhere; whatever it does here, the context goes on
        logger.exception("%s cannot be shown", ref)
        shown, sound = None, False
    if sound:
        return shown
    role = message["role"] if message["role"] in ROLES else "user"
    call = {"tool_call_id": id_text(message.get("tool_call_id"))} if role == "tool" else {}
    return {"role": role, **call, "content": unshown_line(ref)}


def _kind(head: MessageHead, calls: Sequence[str], answers: Sequence[str]) -> Kind:
    if is_instruction(head.role):
        return "instruction"
    if answers:
        return "result"
    if calls:
        return "call"
    return "reply" if is_assistant(head.role) else "request" if head.speaks else "other"


def _weight(entry: Rendered | None) -> int:
    return 64 + (entry.tokens if entry else 0)


def _characters(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(_characters, value.values()))
    return sum(map(_characters, value)) if isinstance(value, list) else 0
