"""Redaction after the fact: removes a secret from everything that is stored.

A redacted message is stored as it would have been, had the secret never been in it: the code that stores messages
makes its parts, payloads, token count and identity again. Its old identity is remembered, so that a host that repeats
its old list does not bring the secret back. Who removed how much is recorded; the removed text is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lcm_plugin.errors import NotFound
from lcm_plugin.events import EventBus
from lcm_plugin.files.externalise import DATABASE_URI, PayloadStore
from lcm_plugin.ingest.host_noise import StandingTexts
from lcm_plugin.maintenance.redaction.conversation import (
    ConversationRedaction,
    Redacted,
    RedactionContext,
)
from lcm_plugin.maintenance.redaction.targets import NamedThings, Target
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.recall.scope import Ref
from lcm_plugin.sessions.library import Library
from lcm_plugin.store.protocol import Reader, Store
from lcm_plugin.store.records import FileRecord


class Redaction:
    """Finds and removes. Thread-safe; hosts may go on meanwhile."""

    def __init__(
        self,
        store: Store,
        payloads: PayloadStore,
        counter: TokenCounter,
        standing: StandingTexts,
        events: EventBus,
        clock: Callable[[], int],
        zone: str,
    ) -> None:
        self._store = store
        self._payloads = payloads
        self._events = events
        self._clock = clock
        self._context = RedactionContext(store, payloads, counter, standing, zone)

    def look(self, target: Target, *, may_be_missing: bool = False) -> Redacted:
        """Finds where a target occurs; nothing is written.

        Raises `NotFound` for an id that does not exist, unless it ``may_be_missing``.
        """
        if isinstance(target, NamedThings) and not may_be_missing:
            self._check_named(target)
        return self._run(target, None)

    def apply(self, target: Target, requested_by: str, *, keep_bytes: bool = False) -> Redacted:
        """Removes it everywhere, then every trace of it in the database's own files (`scrub`).

        With ``keep_bytes`` payloads that nothing refers to any more stay in the folder: a copy shares it with
        the database itself.
        """
        with self._store.write() as writer:
            removal_id = writer.begin_removal("redact", requested_by, self._clock())
        done = self._run(target, removal_id, delete_bytes=not keep_bytes)
        self._events.emit(
            "redaction.done", messages=done.messages, summaries=done.summaries, files=done.files
        )
        self.scrub()
        return done

    def scrub(self) -> None:
        """Removes the remains of deleted and changed texts from the database's files.

        Raises `StoreBusy` when others hold it up; the texts are gone all the same, and it can be called again.
        """
        self._store.give_back_space(scrub=True)

    def _run(self, target: Target, removal_id: int | None, *, delete_bytes: bool = False) -> Redacted:
        found = Redacted(removal_id or 0)
        if isinstance(target, NamedThings):
            found.above += self._above(target)
        dropped: list[FileRecord] = []
        for conversation in Library(self._store).conversations():
            dropped += ConversationRedaction(self._context, conversation, target, removal_id, found).run()
        if removal_id is not None:
            with self._store.write() as writer:
                free = writer.unreferenced(dropped) if dropped else []
                if delete_bytes:
                    self._payloads.delete_bytes(free)
                    found.kept += self._still_there(dropped, free)
                writer.add_to_removal(
                    removal_id, messages=found.messages, summaries=found.summaries, files=found.files
                )
        return found

    def _still_there(self, dropped: Sequence[FileRecord], free: Sequence[FileRecord]) -> list[str]:
        """The payload files of dropped records whose bytes were not free to be deleted."""
        folder, deleted = self._payloads.folder, {record.sha256 for record in free}
        if folder is None:
            return []
        uris = {one.uri for one in dropped if one.sha256 not in deleted and one.uri != DATABASE_URI}
        return [str(folder.root / uri) for uri in sorted(uris)]

    def _check_named(self, target: NamedThings) -> None:
        with self._store.read() as reader:
            for ref in target.refs:
                if not _exists(reader, ref):
                    raise NotFound(f"there is no {ref.kind} {ref.text}")

    def _above(self, target: NamedThings) -> list[str]:
        """The summaries over named messages, from the leaves upwards, each once."""
        numbers = [ref.message_id for ref in target.refs if ref.kind == "message"]
        found: dict[str, None] = {}
        with self._store.read() as reader:
            level = list(reader.covering_leaf(numbers).values()) if numbers else []
            while level:
                found.update(dict.fromkeys(level))
                level = [up for one in level for up in reader.derived_from(one) if up not in found]
        return list(found)


def _exists(reader: Reader, ref: Ref) -> bool:
    if ref.kind == "message":
        return bool(reader.messages_by_id([ref.message_id]))
    if ref.kind == "summary":
        return bool(reader.summaries([ref.text]))
    return reader.file(ref.text) is not None
