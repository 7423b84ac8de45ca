"""One pass: read a chunk, summarise it with no transaction open, then publish the summary if the chunk still stands."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lcm_plugin.compaction.chunks import Chunk
from lcm_plugin.compaction.plans import PlanNotes
from lcm_plugin.config import LcmConfig
from lcm_plugin.errors import StoreError
from lcm_plugin.events import EventBus
from lcm_plugin.lru import LruCache
from lcm_plugin.messages.blocks import is_call_body, is_instruction, text_of
from lcm_plugin.messages.groups import next_legal_cut
from lcm_plugin.messages.markup import summary_tokens
from lcm_plugin.messages.outcomes import results_of
from lcm_plugin.messages.parts import rebuild
from lcm_plugin.messages.sendable import parse_json
from lcm_plugin.messages.shape import words_beside_results
from lcm_plugin.messages.stubs import cleared
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.store.protocol import Reader, Store
from lcm_plugin.store.records import Conversation, Item, Part, Publication, StoredMessage, Summary
from lcm_plugin.store.retry import retry_lost
from lcm_plugin.summarize.base import SourceBlock, SummaryDraft, SummaryTask
from lcm_plugin.summarize.summarizer import Summarizer

_KEPT_DRAFTS = 64
_SILENT_TYPES = frozenset({"reasoning", "compaction"})


@dataclass(frozen=True, slots=True)
class PassRequest:
    """What one pass is to do. ``deadline`` is a `time.monotonic` value after which no model is called."""

    conversation: Conversation
    chunk: Chunk
    target_tokens: int
    reason: str
    forced: bool = False
    deadline: float | None = None
    focus: str = ""


@dataclass(frozen=True, slots=True)
class PassResult:
    """The published summary as a context item, and the tokens by which the context shrank.

    ``node`` is None when the chunk stays as it is. ``fallback_cause`` says why the summary was extracted.
    """

    node: Item | None
    saved: int = 0
    fallback_cause: str = ""


class _Unpublished:
    """Drafts whose publication failed: their chunks need no second model call. Thread-safe.

    Meanwhile the talk goes on, so the chunk that is chosen next may hold more; the draft then stands for the
    first part of it.
    """

    def __init__(self) -> None:
        self._drafts: LruCache[tuple[int, int, int], tuple[Chunk, SummaryDraft]] = LruCache(_KEPT_DRAFTS)

    def keep(self, request: PassRequest, draft: SummaryDraft) -> None:
        self._drafts.put(_place(request), (request.chunk, draft))

    def take(self, request: PassRequest) -> tuple[Chunk, SummaryDraft] | None:
        """A draft for the chunk or for its beginning, with what it stands for."""
        kept = self._drafts.get(_place(request))
        if kept is None or not _begins_with(request.chunk, kept[0]):
            return None
        return self._drafts.pop(_place(request))


class PassRunner:
    """Runs passes. Thread-safe; raises `StoreConflict` when the chunk changed meanwhile."""

    def __init__(
        self,
        store: Store,
        summarizer: Summarizer,
        counter: TokenCounter,
        events: EventBus,
        clock: Callable[[], int],
        config: LcmConfig,
    ) -> None:
        self._store = store
        self._summarizer = summarizer
        self._counter = counter
        self._events = events
        self._clock = clock
        self._zone = config.timezone
        self._plans = PlanNotes(config.keep_latest_of)
        self._unpublished = _Unpublished()

    def run(self, request: PassRequest) -> PassResult:
        """Summarises and publishes one chunk."""
        chunk, draft = self._unpublished.take(request) or (request.chunk, None)
        request = replace(request, chunk=chunk)
        with self._store.read() as reader:
            source = read_source(reader, request.conversation.conversation_id, chunk)
        draft = draft or self._draft(request, source)
        if draft is None:
            return self._kept(request)
        summary = self._node(request, source, draft)
        item_tokens = summary_tokens(summary, source_refs(chunk), self._zone, self._counter)
        if item_tokens >= chunk.tokens:
            return self._kept(request)
        publication = Publication(
            summary, chunk.items, request.conversation.revision, item_tokens, request.reason
        )
        try:
            retry_lost(lambda: self._publish(publication), idempotent=True)
        except StoreError:
            self._unpublished.keep(request, draft)
            raise
        self._tell(
            "compaction.pass",
            request,
            revision=request.conversation.revision,
            summary_id=summary.summary_id,
            summary_level=summary.level,
            token_before=chunk.tokens,
            token_after=item_tokens,
        )
        node = Item(
            chunk.start,
            "summary",
            item_tokens,
            summary.depth,
            summary_id=summary.summary_id,
            fallback=summary.fallback,
        )
        return PassResult(node, chunk.tokens - item_tokens, summary.fallback_cause)

    def preview(self, request: PassRequest) -> SummaryDraft | None:
        """The summary that a chunk would get; the next pass over the chunk publishes this one. None for none."""
        with self._store.read() as reader:
            source = read_source(reader, request.conversation.conversation_id, request.chunk)
        draft = self._draft(request, source)
        if draft is not None:
            self._unpublished.keep(request, draft)
        return draft

    def _publish(self, publication: Publication) -> None:
        """Publishes, unless an earlier try, whose commit was not answered, did so."""
        with self._store.write() as writer:
            if not writer.summaries([publication.summary.summary_id]):
                writer.publish(publication, self._clock())
                if publication.summary.depth == 0:
                    self._plans.note(writer, publication.summary, self._clock())

    def _draft(self, request: PassRequest, source: Source) -> SummaryDraft | None:
        if not source.blocks:
            return None
        conversation, chunk = request.conversation, request.chunk
        task = SummaryTask(
            blocks=source.blocks,
            depth=chunk.depth,
            target_tokens=request.target_tokens,
            source_tokens=chunk.tokens,
            previous=source.previous,
            scope=conversation.session_key,
            conversation_id=conversation.conversation_id,
            forced=request.forced,
            deadline=request.deadline,
            focus=request.focus,
        )
        draft = self._summarizer.summarize(task)
        return draft if draft is not None and draft.tokens < chunk.tokens else None

    def _node(self, request: PassRequest, source: Source, draft: SummaryDraft) -> Summary:
        conversation, chunk, span = request.conversation, request.chunk, source.span
        return Summary(
            summary_id=_summary_id(conversation, chunk, draft.text),
            conversation_id=conversation.conversation_id,
            depth=chunk.depth,
            content=draft.text,
            tokens=draft.tokens,
            earliest_at=span.earliest_at,
            latest_at=span.latest_at,
            first_seq=span.first_seq,
            last_seq=span.last_seq,
            descendant_count=span.descendants,
            message_count=span.messages,
            source_tokens=chunk.tokens,
            message_tokens=span.message_tokens,
            level=draft.level,
            model=draft.model,
            prompt_version=draft.prompt_version,
            fallback=draft.fallback is not None,
            fallback_cause=str(draft.fallback or ""),
            capped=draft.capped,
            created_at=self._clock(),
            made_ms=draft.made_ms,
            file_ids=span.file_ids,
        )

    def _kept(self, request: PassRequest) -> PassResult:
        self._tell("compaction.kept", request, tokens=request.chunk.tokens)
        return PassResult(None)

    def _tell(self, name: str, request: PassRequest, **fields: Any) -> None:
        self._events.emit(
            name,
            conversation_id=request.conversation.conversation_id,
            session_key=request.conversation.session_key,
            depth=request.chunk.depth,
            sources=len(request.chunk.items),
            trigger_reason=request.reason,
            **fields,
        )


def _place(request: PassRequest) -> tuple[int, int, int]:
    return request.conversation.conversation_id, request.chunk.depth, request.chunk.start


def _begins_with(chunk: Chunk, earlier: Chunk) -> bool:
    """Whether a chunk begins with an earlier one's items, unchanged, and may be cut behind them."""
    count = len(earlier.items)
    if chunk.items[:count] != earlier.items:
        return False
    heads = [item.message for item in chunk.items if item.message]
    return chunk.depth > 0 or next_legal_cut(heads, count) == count


def _summary_id(conversation: Conversation, chunk: Chunk, text: str) -> str:
    digest = hashlib.sha256()
    for piece in (
        conversation.session_key,
        str(conversation.conversation_id),
        str(conversation.revision),
        str(chunk.depth),
        *source_refs(chunk),
        text,
    ):
        digest.update(piece.encode("utf-8", "replace") + b"\x00")
    return f"sum_{digest.hexdigest()[:16]}"


@dataclass(frozen=True, slots=True)
class Span:
    """What a chunk covers, down to the messages."""

    earliest_at: int
    latest_at: int
    first_seq: int
    last_seq: int
    messages: int
    descendants: int
    message_tokens: int
    file_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """A chunk as it is handed to the summariser.

    ``blocks`` leaves out what says nothing; ``previous`` is the summary just before the chunk, context
    that is not to be repeated.
    """

    blocks: tuple[SourceBlock, ...]
    span: Span
    previous: str = ""


def read_source(reader: Reader, conversation_id: int, chunk: Chunk) -> Source:
    """Reads a chunk's sources once."""
    previous = _previous_summary(reader, conversation_id, chunk)
    if chunk.depth == 0:
        stored = reader.messages_by_id([item.message.message_id for item in chunk.items if item.message])
        ordered = [
            stored[item.message.message_id]
            for item in chunk.items
            if item.message and item.message.message_id in stored
        ]
        blocks = (message_block(message) for message in ordered)
        return Source(tuple(block for block in blocks if block), _span_of_messages(ordered), previous)
    found = reader.summaries([str(item.summary_id) for item in chunk.items])
    summaries = [found[str(item.summary_id)] for item in chunk.items]
    return Source(tuple(map(summary_block, summaries)), _span_of_summaries(summaries), previous)


def message_block(stored: StoredMessage) -> SourceBlock | None:
    """A message's words, calls and results; None for system prompts and what a model never saw."""
    head = stored.head
    if is_instruction(head.role) or head.hidden:
        return None
    if head.cleared_tokens is None:
        texts = [text for part in stored.parts if (text := _part_text(part))]
    else:
        # As contexts show it, so that a summary costs no more than what it replaces.
        short = cleared(rebuild(stored), head.ref).message
        words = words_beside_results(short)
        texts = [*(result.text for result in results_of(short)), *([text_of(words)] if words else [])]
    if not texts:
        return None
    tools = list(dict.fromkeys(part.tool_name for part in stored.parts if part.tool_name))
    return SourceBlock(
        id=head.ref,
        role=head.role,
        text="\n".join(texts),
        at=head.created_at,
        until=head.created_at,
        sender=head.sender or "",
        tool=", ".join(tools),
    )


def summary_block(summary: Summary) -> SourceBlock:
    """A summary as source of a deeper one."""
    return SourceBlock(
        id=summary.summary_id,
        role="summary",
        text=summary.content,
        at=summary.earliest_at,
        until=summary.latest_at,
    )


def source_refs(chunk: Chunk) -> Sequence[str]:
    """Ids of what a chunk consists of, in order."""
    return [item.ref for item in chunk.items]


def _previous_summary(reader: Reader, conversation_id: int, chunk: Chunk) -> str:
    before = reader.newest_items(conversation_id, before=chunk.start, limit=1)
    if not before or before[0].summary_id is None:
        return ""
    found = reader.summaries([before[0].summary_id])
    return found[before[0].summary_id].content


def _span_of_messages(messages: Sequence[StoredMessage]) -> Span:
    heads = [stored.head for stored in messages]
    return Span(
        earliest_at=min(head.created_at for head in heads),
        latest_at=max(head.created_at for head in heads),
        first_seq=heads[0].seq,
        last_seq=heads[-1].seq,
        messages=len(heads),
        descendants=len(heads),
        message_tokens=sum(head.tokens for head in heads),
        file_ids=_unique(part.file_id for stored in messages for part in stored.parts if part.file_id),
    )


def _span_of_summaries(summaries: Sequence[Summary]) -> Span:
    return Span(
        earliest_at=min(summary.earliest_at for summary in summaries),
        latest_at=max(summary.latest_at for summary in summaries),
        first_seq=min(summary.first_seq for summary in summaries),
        last_seq=max(summary.last_seq for summary in summaries),
        messages=sum(summary.message_count for summary in summaries),
        descendants=sum(summary.descendant_count + 1 for summary in summaries),
        message_tokens=sum(summary.message_tokens for summary in summaries),
        file_ids=_unique(file_id for summary in summaries for file_id in summary.file_ids),
    )


def _unique(ids: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(ids))


def _part_text(part: Part) -> str:
    if part.type in _SILENT_TYPES or not part.text:
        return ""
    if part.type == "tool" and is_call_body(part.path):
        return f"{part.tool_name or 'call'}({_one_line(part.text)})"
    return part.text


def _one_line(text: str) -> str:
    try:
        value = parse_json(text)
    except ValueError:
        return text
    return json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value
