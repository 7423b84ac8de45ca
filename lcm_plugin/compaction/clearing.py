"""Clearing: what tools returned long ago and can be read again is cut to a few words before anything is summarised.

The store keeps every result. In contexts its beginning and end are left, the id to read it by, and the state with which
a program ended. Results of calls that did something, failed, or returned little stay whole, and so do the running turn
and the newer half of the fresh tail. A cleared result stays cleared: its form depends on the message alone, so that
contexts begin with the same bytes until the next compaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lcm_plugin.compaction.plans import keeps_plan
from lcm_plugin.compaction.policy import Limits
from lcm_plugin.compaction.rereadable import only_reads
from lcm_plugin.compaction.tail import Tail, TailBounds, fresh_tail
from lcm_plugin.compaction.undo import LastCompaction
from lcm_plugin.config import LcmConfig
from lcm_plugin.events import EventBus
from lcm_plugin.lru import LruCache
from lcm_plugin.messages.blocks import Call, calls_of, is_assistant
from lcm_plugin.messages.outcomes import Result, results_of
from lcm_plugin.messages.parts import rebuild
from lcm_plugin.messages.stubs import CLEARED_LEAST, cleared, is_short
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.store.protocol import Reader, Store
from lcm_plugin.store.records import Conversation, MessageHead, StoredMessage
from lcm_plugin.store.retry import retry_lost
from lcm_plugin.types import Message, Reason

_PAGE = 256
_LEAST_SHARE = 1 / 4
"""Part of the trigger amount that clearing must make free: less is not worth another beginning of the prompt."""
_SPARED_PART = 2
"""The newer half of what a fresh tail may hold is left as it is."""
_REMEMBERED = 1_024
_REMEMBERED_RESULTS = 8_192


@dataclass(frozen=True, slots=True)
class Cleared:
    """How many results were cleared, and how many tokens fewer a context has for it."""

    results: int = 0
    saved: int = 0


class Clearing:
    """Clears old results of conversations. Thread-safe; who calls holds the conversation's lease."""

    def __init__(
        self,
        store: Store,
        config: LcmConfig,
        counter: TokenCounter,
        events: EventBus,
        last: LastCompaction,
        clock: Callable[[], int],
    ) -> None:
        self._store = store
        self._globs = config.clear_results_of
        self._plans = config.keep_latest_of
        self._counter = counter
        self._events = events
        self._last = last
        self._clock = clock
        self._rests: LruCache[int, tuple[int, int]] = LruCache(_REMEMBERED)
        # What results would cost once they are cleared, 0 where they stay: each compaction asks, and a message does not
        # change without its identity.
        self._costs: LruCache[tuple[int, int, int], int] = LruCache(_REMEMBERED_RESULTS)

    def leaves_rest(self, conversation_id: int, limits: Limits) -> bool:
        """Whether what is left after clearing waits for the threshold rather than be summarised below it.

        It does where a policy keeps an amount word for word and something in the context is cleared: only the bill
        asks for less then, and clearing goes on as soon as it is worth it.
        """
        if not limits.clears_first:
            return False
        with self._store.read() as reader:
            conversation = reader.conversation(conversation_id)
            if conversation is None or not reader.cleared_results(conversation_id)[0]:
                return False
        self._rests.put(conversation_id, (conversation.revision, conversation.raw_tokens))
        return True

    def rests(self, conversation: Conversation, limits: Limits) -> bool:
        """Whether too little has come since `leaves_rest` for another look."""
        revision, raw_tokens = self._rests.get(conversation.conversation_id, (-1, 0))
        grown = conversation.raw_tokens - raw_tokens
        return limits.clears_first and revision == conversation.revision and grown < _least(limits)

    def clear(self, conversation_id: int, limits: Limits, reason: Reason) -> Cleared:
        """Clears at once all that can be, outside what the compaction leaves alone, if that is worth it."""
        if not self._globs:
            return Cleared()
        bounds = TailBounds(
            max(1, limits.tail_count // _SPARED_PART), max(1, limits.tail_tokens // _SPARED_PART)
        )
        with self._store.read() as reader:
            conversation = reader.conversation(conversation_id)
            if conversation is None:
                return Cleared()
            tail = fresh_tail(reader, conversation_id, bounds)
            found = dict(self._clearable(reader, conversation_id, tail))
        done = Cleared(len(found), sum(before - after for before, after in found.values()))
        if done.saved < _least(limits):
            return Cleared()
        tokens = {message_id: after for message_id, (_, after) in found.items()}
        if not retry_lost(
            lambda: self._write(conversation_id, conversation.revision, tokens), idempotent=True
        ):
            return Cleared()
        self._events.emit(
            "compaction.cleared",
            conversation_id=conversation_id,
            session_key=conversation.session_key,
            trigger_reason=str(reason),
            revision=conversation.revision,
            results=done.results,
            token_before=conversation.context_tokens,
            token_after=conversation.context_tokens - done.saved,
        )
        return done

    def _write(self, conversation_id: int, revision: int, tokens: dict[int, int]) -> bool:
        """False when the context changed since it was read."""
        with self._store.write() as writer:
            conversation = writer.conversation(conversation_id)
            if conversation is None or conversation.revision != revision:
                return False
            writer.clear_results(conversation_id, tokens, self._clock())
            self._last.carry(writer, conversation_id, revision)
        return True

    def _clearable(
        self, reader: Reader, conversation_id: int, tail: Tail
    ) -> Iterator[tuple[int, tuple[int, int]]]:
        """Messages by id with their tokens before and after."""
        after = 0
        while page := reader.oldest_raw_items(conversation_id, after=after, limit=_PAGE, over=CLEARED_LEAST):
            after = page[-1].ordinal
            heads = [item.message for item in page if item.message and not tail.protects(item.ordinal)]
            results = [head for head in heads if not is_assistant(head.role)]
            yield from self._in_page(reader, conversation_id, results)
            if len(heads) < _PAGE:
                return

    def _in_page(
        self, reader: Reader, conversation_id: int, heads: Sequence[MessageHead]
    ) -> Iterator[tuple[int, tuple[int, int]]]:
        costs = self._costs.get_all(map(_name, heads))
        unknown = [head for head in heads if _name(head) not in costs]
        if unknown:
            costs.update(self._read_costs(reader, conversation_id, unknown))
        for head in heads:
            if tokens := costs.get(_name(head)):
                yield head.message_id, (head.tokens, tokens)

    def _read_costs(
        self, reader: Reader, conversation_id: int, heads: Sequence[MessageHead]
    ) -> Iterator[tuple[tuple[int, int, int], int]]:
        stored = reader.messages_by_id([head.message_id for head in heads])
        callers = reader.messages_at(conversation_id, [head.group_seq for head in heads])
        calls = {(row.head.seq, call.id): call for row in callers for call in calls_of(rebuild(row))}
        for row in stored.values():
            message = rebuild(row)
            own = {call: calls.get((row.head.group_seq, call)) for call in row.head.answers}
            cost = 0
            if self._may_go(row, message, own):
                tokens = self._counter.message(cleared(message, row.head.ref).message)
                cost = tokens if tokens < row.head.tokens else 0
            self._costs.put(_name(row.head), cost)
            yield _name(row.head), cost

    def _may_go(self, row: StoredMessage, message: Message, calls: dict[str, Call | None]) -> bool:
        """Whether every long result in a message is of a call that only read, and succeeded."""
        if any(part.file_id for part in row.parts):
            return False
        long = [result for result in results_of(message) if not _is_short(result)]
        return bool(long) and all(
            result.is_text and self._only_read(calls.get(result.call), result.holder) and not result.failed
            for result in long
        )

    def _only_read(self, call: Call | None, holder: Mapping[str, Any]) -> bool:
        name = call.name if call else holder.get("name")
        if not isinstance(name, str) or not name or keeps_plan(self._plans, name):
            return False
        return only_reads(self._globs, name, call.arguments if call else None)


def _least(limits: Limits) -> float:
    return limits.trigger * _LEAST_SHARE


def _name(head: MessageHead) -> tuple[int, int, int]:
    return head.message_id, head.identity, head.tokens


def _is_short(result: Result) -> bool:
    return result.is_text and is_short(result.text)
