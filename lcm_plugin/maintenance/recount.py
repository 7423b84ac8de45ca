"""Counts the tokens of a database again, in the background, when another encoding counted them.

Versions that found no encoding counted from above, up to four times too high, and stored these counts. The database
holds the name of the encoding once all of it is counted. Until then each conversation's rows are counted in bounded
slices, and only those whose count differs are written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from lcm_plugin.errors import StoreBusy
from lcm_plugin.events import EventBus
from lcm_plugin.messages.encodings import ENCODING
from lcm_plugin.messages.markup import summary_tokens
from lcm_plugin.messages.parts import rebuild
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.sessions.library import Library
from lcm_plugin.store.protocol import Reader, Store
from lcm_plugin.store.records import StoredMessage, Summary

_KEY = "encoding"
_SLICE = 100


class Recount:
    """Counts a database again with `ENCODING`, once. Thread-safe: two that do it write the same counts."""

    def __init__(self, store: Store, counter: TokenCounter, events: EventBus, zone: str) -> None:
        self._store = store
        self._counter = counter
        self._events = events
        self._zone = zone
        self._done = False
        self._running = threading.Lock()

    @property
    def finished(self) -> bool | None:
        """Whether all rows are counted with `ENCODING`; None as long as no background work has looked."""
        with self._store.read() as reader:
            state = self._state(reader)
        return state.get("name") == ENCODING if state else None

    def run(self, stop: Callable[[], bool]) -> None:
        """Goes on where the last run stopped, until all is counted or ``stop`` says so between two slices.

        One thread counts at a time. When the store is busy, the next run goes on.
        """
        if self._done:
            return
        with self._running, suppress(StoreBusy):
            self._count(stop)

    def _count(self, stop: Callable[[], bool]) -> None:
        with self._store.read() as reader:
            state = self._state(reader)
        if state.get("name") == ENCODING:
            self._done = True
            return
        changed = 0
        self._note(state or {"conversation": 0})
        for conversation in Library(self._store).conversations(after_id=state.get("conversation", 0)):
            conversation_id = conversation.conversation_id
            for change in self._slices(conversation_id):
                changed += change
                if stop():
                    return
            self._note({"conversation": conversation_id})
        self._note({"name": ENCODING})
        self._done = True
        if changed:
            self._events.emit("tokens.recounted", rows=changed, encoding=ENCODING)

    def _slices(self, conversation_id: int) -> Iterator[int]:
        """Counts a conversation slice by slice; yields how many rows each changed."""
        after_seq = 0
        while True:
            with self._store.read() as reader:
                messages = reader.messages(conversation_id, after_seq=after_seq, limit=_SLICE)
            if not messages:
                break
            after_seq = messages[-1].head.seq
            yield self._messages(messages)
        after: str | None = None
        while True:
            with self._store.read() as reader:
                summaries = reader.list_summaries(conversation_id, after=after, limit=_SLICE)
                sources = reader.sources_of([summary.summary_id for summary in summaries])
            if not summaries:
                return
            after = summaries[-1].summary_id
            yield self._summaries(summaries, sources)

    def _messages(self, messages: Sequence[StoredMessage]) -> int:
        counted = [(one.head, self._counter.message(rebuild(one))) for one in messages]
        changed = [(head, tokens) for head, tokens in counted if tokens != head.tokens]
        if changed:
            with self._store.write() as writer:
                for head, tokens in changed:
                    writer.recount_message(head, tokens)
        return len(changed)

    def _summaries(self, summaries: Sequence[Summary], sources: Mapping[str, Sequence[str]]) -> int:
        """A summary's place in the context is counted with its text, so it is written whenever that changed."""
        counted = [(one, self._counter.text(one.content)) for one in summaries]
        changed = [(one, tokens) for one, tokens in counted if tokens != one.tokens]
        if changed:
            with self._store.write() as writer:
                for one, tokens in changed:
                    item = summary_tokens(one, sources[one.summary_id], self._zone, self._counter)
                    writer.replace_summary(replace(one, tokens=tokens), item, tokens - one.tokens)
        return len(changed)

    def _note(self, state: dict[str, object]) -> None:
        with self._store.write() as writer:
            writer.save_guard(_KEY, state)

    def _state(self, reader: Reader) -> dict[str, Any]:
        return reader.guard(_KEY) or {}
