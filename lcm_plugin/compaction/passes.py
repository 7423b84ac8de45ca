"""One pass: summarise a chunk with no transaction open, then publish it if it still stands."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lcm_plugin.compaction.chunks import Chunk
from lcm_plugin.compaction.sources import chunk_blocks, previous_summary, source_refs
from lcm_plugin.events import EventBus
from lcm_plugin.markup import summary_block
from lcm_plugin.store.base import Reader, Store
from lcm_plugin.store.records import Conversation, Publication, Summary
from lcm_plugin.summarize.base import SourceBlock, SummaryDraft, SummaryTask
from lcm_plugin.summarize.summarizer import Summarizer
from lcm_plugin.tokens import TokenCounter


@dataclass(frozen=True, slots=True)
class PassResult:
    """A published summary and the tokens by which the context shrank; no id when the chunk stays raw."""

    summary_id: str | None
    saved: int


class PassRunner:
    """Runs passes. Thread-safe; raises `StoreConflict` when the chunk changed meanwhile."""

    def __init__(
        self,
        store: Store,
        summarizer: Summarizer,
        counter: TokenCounter,
        events: EventBus,
        clock: Callable[[], int],
        zone: str,
    ) -> None:
        self._store = store
        self._summarizer = summarizer
        self._counter = counter
        self._events = events
        self._clock = clock
        self._zone = zone

    def run(
        self,
        conversation: Conversation,
        chunk: Chunk,
        *,
        target_tokens: int,
        reason: str,
        forced: bool = False,
        deadline: float | None = None,
    ) -> PassResult:
        """Summarises and publishes one chunk."""
        with self._store.read() as reader:
            blocks = chunk_blocks(reader, chunk)
            previous = previous_summary(reader, conversation.conversation_id, chunk)
            span = _span(reader, chunk)
        draft = self._draft(conversation, chunk, blocks, target_tokens, previous, forced, deadline)
        if draft is None:
            self._tell("compaction.kept_raw", conversation, chunk, reason=reason)
            return PassResult(None, 0)
        summary = self._node(conversation, chunk, draft, span)
        item_tokens = self._item_tokens(summary, chunk)
        if item_tokens >= chunk.tokens:
            self._tell("compaction.kept_raw", conversation, chunk, reason=reason)
            return PassResult(None, 0)
        with self._store.write() as writer:
            writer.publish(
                Publication(summary, chunk.items, conversation.revision, item_tokens, reason), self._clock()
            )
        self._tell(
            "compaction.pass",
            conversation,
            chunk,
            reason=reason,
            summary_id=summary.summary_id,
            summary_level=summary.level,
            token_before=chunk.tokens,
            token_after=item_tokens,
        )
        return PassResult(summary.summary_id, chunk.tokens - item_tokens)

    def _draft(
        self,
        conversation: Conversation,
        chunk: Chunk,
        blocks: tuple[SourceBlock, ...],
        target_tokens: int,
        previous: str,
        forced: bool,
        deadline: float | None,
    ) -> SummaryDraft | None:
        if not blocks:
            return None
        task = SummaryTask(
            blocks=blocks,
            depth=chunk.depth,
            target_tokens=target_tokens,
            source_tokens=chunk.tokens,
            previous=previous,
            scope=conversation.session_key,
            conversation_id=conversation.conversation_id,
            forced=forced,
            deadline=deadline,
        )
        draft = self._summarizer.summarize(task)
        return draft if draft is not None and draft.tokens < chunk.tokens else None

    def _node(self, conversation: Conversation, chunk: Chunk, draft: SummaryDraft, span: _Span) -> Summary:
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
            fallback=draft.fallback,
            capped=draft.capped,
            created_at=self._clock(),
            file_ids=span.file_ids,
        )

    def _item_tokens(self, summary: Summary, chunk: Chunk) -> int:
        text = summary_block(summary, source_refs(chunk), self._zone)
        return self._counter.message({"role": "user", "content": text})

    def _tell(self, name: str, conversation: Conversation, chunk: Chunk, **fields: Any) -> None:
        self._events.emit(
            name,
            conversation_id=conversation.conversation_id,
            session_key=conversation.session_key,
            depth=chunk.depth,
            sources=len(chunk.items),
            **fields,
        )


@dataclass(frozen=True, slots=True)
class _Span:
    """What a chunk covers, down to the messages."""

    earliest_at: int
    latest_at: int
    first_seq: int
    last_seq: int
    messages: int
    descendants: int
    message_tokens: int
    file_ids: tuple[str, ...] = ()


def _span(reader: Reader, chunk: Chunk) -> _Span:
    heads = [item.message for item in chunk.items if item.message]
    if heads:
        return _Span(
            min(head.created_at for head in heads),
            max(head.created_at for head in heads),
            heads[0].seq,
            heads[-1].seq,
            len(heads),
            len(heads),
            sum(head.tokens for head in heads),
            _file_ids(reader, [head.message_id for head in heads]),
        )
    found = reader.summaries([str(item.summary_id) for item in chunk.items])
    sources = [found[str(item.summary_id)] for item in chunk.items]
    return _Span(
        min(source.earliest_at for source in sources),
        max(source.latest_at for source in sources),
        min(source.first_seq for source in sources),
        max(source.last_seq for source in sources),
        sum(source.message_count for source in sources),
        sum(source.descendant_count + 1 for source in sources),
        sum(source.message_tokens for source in sources),
        tuple(dict.fromkeys(file_id for source in sources for file_id in source.file_ids)),
    )


def _file_ids(reader: Reader, message_ids: list[int]) -> tuple[str, ...]:
    stored = reader.messages_by_id(message_ids)
    return tuple(
        dict.fromkeys(
            part.file_id
            for message_id in message_ids
            if message_id in stored
            for part in stored[message_id].parts
            if part.file_id
        )
    )


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
