"""Storing what a host hands over: at once, once, in one transaction.

What is new is worked out on a read transaction, and so are parts and token counts, which cost most.
The write transaction starts over only when somebody else stored something meanwhile, or when the database
server went away; what may have been committed then is looked for first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from lcm_plugin.errors import InputError, OutcomeUnknown, StoreError
from lcm_plugin.events import EventBus
from lcm_plugin.files.externalise import PayloadStore
from lcm_plugin.ingest.alignment import (
    WINDOW_SLACK,
    Incoming,
    new_in_delta,
    new_in_list,
    replayed_head,
    replayed_turn,
)
from lcm_plugin.ingest.heartbeat import idle_heartbeat_rows
from lcm_plugin.ingest.history import past_of
from lcm_plugin.ingest.host_noise import StandingTexts
from lcm_plugin.ingest.intake import NOT_THE_MESSAGE, Batch, Intake, with_room_to_recurse
from lcm_plugin.ingest.pending_commits import UnsureMessages
from lcm_plugin.ingest.rows import PreparedRow, RowMaker, append_rows
from lcm_plugin.ingest.shown import shown_to_models
from lcm_plugin.messages.blocks import Call, calls_answered, calls_of, text_of
from lcm_plugin.messages.identity import identity_of
from lcm_plugin.messages.markup import is_notice, plain_text, stub_id_of, summary_id_of
from lcm_plugin.messages.parts import rebuild
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.sessions.kinds import open_conversation
from lcm_plugin.store.base import Reader, Store, Writer
from lcm_plugin.store.records import Conversation, FileRecord, MessageHead
from lcm_plugin.store.retry import again
from lcm_plugin.types import IngestMode, IngestReport, Message, Session

_CYCLE = 4


@dataclass(frozen=True, slots=True)
class _Plan:
    """Indices that are new, and the state of the conversation for which that holds.

    ``settled`` counts messages whose commit was not answered and that are found to be stored.
    """

    new: list[int]
    conversation: Conversation | None
    settled: int = 0

    def writes_run(self, session: Session) -> bool:
        """Whether the run that repeats what is stored is to be remembered with its conversation."""
        mine = self.conversation
        return mine is not None and session.id is not None and mine.session_id != session.id

    def holds_for(self, conversation: Conversation) -> bool:
        if self.conversation is None:
            return conversation.next_seq == 1
        mine = self.conversation
        return (mine.conversation_id, mine.next_seq) == (conversation.conversation_id, conversation.next_seq)


class _Undo(Exception):
    """Ends a transaction that was only tried."""


class Ingestor:
    """Stores messages of sessions. Thread-safe."""

    def __init__(
        self,
        store: Store,
        counter: TokenCounter,
        payloads: PayloadStore,
        intake: Intake,
        events: EventBus,
        clock: Callable[[], int],
        *,
        prune_heartbeats: bool = False,
        standing: StandingTexts | None = None,
        files_stored: Callable[[Sequence[FileRecord]], None] = lambda records: None,
    ) -> None:
        """``files_stored`` is told of the files of every ingest, after they are committed."""
        self._store = store
        self._payloads = payloads
        self._events = events
        self._clock = clock
        self._prune_heartbeats = prune_heartbeats
        self._files_stored = files_stored
        self._standing = standing or StandingTexts((), ())
        self._intake = intake
        self._rows = RowMaker(counter, payloads)
        self._unsure = UnsureMessages()

    def ingest(self, session: Session, messages: Sequence[Message], mode: IngestMode) -> IngestReport:
        """Stores what is new of ``messages``; all of it or, on any error but `OutcomeUnknown`, nothing.

        After that one, handing the same messages over again stores them once. A message that cannot be stored
        as it is becomes a broken record, and the others are stored.
        """
        if mode not in ("append", "sync", "all"):
            raise InputError(f"mode must be 'append', 'sync' or 'all', not {mode!r}")
        batch = self._intake.take(messages)
        if not batch.taken:
            why = "only host notes were handed over" if messages else "nothing was handed over"
            return IngestReport(0, len(messages), why)

        def store() -> IngestReport:
            return again(lambda: self._store_new(session, batch, mode, len(messages)), looks=True)

        try:
            return store()
        except NOT_THE_MESSAGE as error:
            if type(error) is not StoreError or not self._spoil_refused(session, batch):
                raise
        except Exception:
            if not self._spoil_refused(session, batch):
                raise
        return store()

    def _store_new(self, session: Session, batch: Batch, mode: IngestMode, count: int) -> IngestReport:
        now, lane = self._clock(), _lane(session)
        with self._store.read() as reader:
            incoming = self._reduce(reader, batch)
            plan = self._plan(reader, session, incoming, mode)
        if not plan.new and not plan.writes_run(session):
            self._unsure.settled(lane)
            return self._nothing_new(session, count, plan.settled)
        prepared = self._prepare(batch, plan.new, session, now)
        try:
            with self._store.write() as writer:
                conversation = open_conversation(writer, session, now)
                if not plan.holds_for(conversation):
                    plan = self._plan(writer, session, incoming, mode)
                    missing = [index for index in plan.new if index not in prepared]
                    prepared |= self._prepare(batch, missing, session, now)
                append_rows(writer, conversation, [prepared[index] for index in plan.new], now)
                # A removal that ran since then may have taken bytes away that nobody referred to yet.
                gone = [index for index in plan.new if not self._payloads.holds(prepared[index].files)]
                self._prepare(batch, gone, session, now)
                if self._prune_heartbeats or self._standing.has_controls:
                    self._hide_idle(writer, conversation, len(plan.new), now)
        except OutcomeUnknown:
            self._unsure.note(lane, conversation, [incoming[index] for index in plan.new])
            raise
        self._unsure.settled(lane)
        self._files_stored([record for index in plan.new for record in prepared[index].files])
        return self._stored(session, conversation, batch, plan, count)

    def _stored(
        self, session: Session, conversation: Conversation, batch: Batch, plan: _Plan, count: int
    ) -> IngestReport:
        stored = len(plan.new) + plan.settled
        converted, broken = batch.converted(plan.new), batch.broken(plan.new)
        emit = partial(
            self._events.emit, conversation_id=conversation.conversation_id, session_key=session.key
        )
        emit("ingest.stored", level=logging.DEBUG, stored=stored, skipped=count - stored)
        if converted:
            emit("ingest.converted", level=logging.DEBUG, values=len(converted))
        if broken:
            emit("ingest.broken", level=logging.WARNING, messages=list(broken))
        return IngestReport(stored, count - stored, converted=converted, broken=broken)

    def _spoil_refused(self, session: Session, batch: Batch) -> bool:
        """Makes broken records of the messages that the store refuses; False when it is not for a message."""
        refused = {
            index: error
            for index in range(len(batch.taken))
            if (error := self._refusal(session, batch, index)) is not None
        }
        probe = self._intake.take([{"role": "user", "content": "x"}])
        if not refused or self._refusal(session, probe, 0) is not None:
            return False
        for index, error in refused.items():
            batch.taken[index] = self._intake.spoil(batch.taken[index], error)
        return True

    def _refusal(self, session: Session, batch: Batch, index: int) -> Exception | None:
        """Why the store does not take a message; nothing is written."""
        now = self._clock()
        try:
            prepared = self._prepare(batch, [index], session, now)
            with self._store.write() as writer:
                append_rows(writer, open_conversation(writer, session, now), [prepared[index]], now)
                raise _Undo
        except _Undo:
            return None
        except NOT_THE_MESSAGE as error:
            if type(error) is not StoreError:
                raise
            return error
        except Exception as error:  # noqa: BLE001 - whatever the store raises is the answer
            return error

    def _nothing_new(self, session: Session, count: int, settled: int) -> IngestReport:
        if settled:
            return IngestReport(settled, count - settled)
        why = "everything is stored already"
        self._events.emit(
            "ingest.skipped", level=logging.DEBUG, session_key=session.key, messages=count, reason=why
        )
        return IngestReport(0, count, why)

    def seed(self, session: Session, messages: Sequence[Message], times: Sequence[int]) -> int:
        """Stores copies of another lane's messages, with their times, in a conversation that has none.

        Returns how many were stored: all, or none when somebody else was first.
        """
        return again(lambda: self._seed(session, messages, times), looks=True)

    def _seed(self, session: Session, messages: Sequence[Message], times: Sequence[int]) -> int:
        now = self._clock()
        batch = self._intake.take_ours(messages)
        prepared = self._prepare(batch, range(len(messages)), session, now)
        rows = [
            replace(prepared[index], row=replace(prepared[index].row, created_at=time))
            for index, time in enumerate(times)
        ]
        with self._store.write() as writer:
            conversation = open_conversation(writer, session, now)
            if conversation.message_count:
                return 0
            append_rows(writer, conversation, rows, now)
        return len(rows)

    def _reduce(self, reader: Reader, batch: Batch) -> list[Incoming]:
        ours = self._known_as_ours(reader, batch.messages)
        return [
            replace(item, ours=True) if index in ours else item for index, item in enumerate(batch.incoming)
        ]

    def _known_as_ours(self, reader: Reader, given: Sequence[Message]) -> set[int]:
        """Messages that are our own summaries, stubs or notices, with ids that exist."""
        notices, summaries, stubs = set(), {}, {}
        for index, message in enumerate(given):
            text = plain_text(message)
            if text is None:
                continue
            if (summary_id := summary_id_of(text)) is not None:
                summaries[index] = summary_id
            elif is_notice(text):
                notices.add(index)
            elif message["role"] == "tool" and (ref := stub_id_of(text)) is not None:
                stubs[index] = int(ref[4:])
        known = reader.summaries(list(summaries.values())) if summaries else {}
        stored = reader.messages_by_id(list(stubs.values())) if stubs else {}
        return (
            notices
            | {index for index, summary_id in summaries.items() if summary_id in known}
            | {
                index
                for index, message_id in stubs.items()
                if message_id in stored and stored[message_id].head.answers == calls_answered(given[index])
            }
        )

    def _plan(self, reader: Reader, session: Session, incoming: list[Incoming], mode: IngestMode) -> _Plan:
        plan = self._compare(reader, session, incoming, mode)
        seen = self._unsure.look(reader, _lane(session), incoming)
        new = set(plan.new)
        if seen.stored:
            return _Plan(sorted(new - seen.places), plan.conversation, len(seen.places))
        if mode != "sync":
            # They were new when they could not be stored, however alike the stored end is.
            new |= seen.places
        return _Plan(sorted(new), plan.conversation)

    def _compare(self, reader: Reader, session: Session, incoming: list[Incoming], mode: IngestMode) -> _Plan:
        refers = any(item.refers for item in incoming)
        window = len(incoming) + (WINDOW_SLACK if mode == "sync" or refers else 0)
        past = past_of(reader, session, window)
        if mode == "all":
            return _Plan(list(range(len(incoming))), past.conversation)
        if former := reader.former_identities(past.lane):
            incoming = [replace(item, identity=former.get(item.identity, item.identity)) for item in incoming]
        host_ids = [item.host_id for item in incoming if item.host_id]
        known_ids = reader.known_host_ids(past.lane, host_ids) if past.lane and host_ids else set()
        if refers and past.stored:
            incoming = self._recognise(reader, incoming, past.stored)
        if mode == "append":
            if replayed_turn(incoming, past.ended):
                return _Plan([], past.conversation)
            return _Plan(new_in_delta(incoming, past.stored, known_ids), past.conversation)

        def load_texts(message_ids: Sequence[int]) -> dict[int, str]:
            rows = reader.messages_by_id(message_ids)
            return {message_id: text_of(rebuild(row)) for message_id, row in rows.items()}

        def find_rows(identities: Sequence[int]) -> list[MessageHead]:
            if past.conversation is None:
                return []
            return reader.heads_with_identity(
                past.conversation.conversation_id, identities, limit=4 * len(incoming) + WINDOW_SLACK
            )

        skipped = 0
        if past.before and len(past.since) < len(incoming):
            skipped = replayed_head(incoming, past.before, past.since, load_texts)
        new = new_in_list(incoming[skipped:], past.since, known_ids, load_texts, find_rows)
        indices = [index + skipped for index in new]
        return _Plan([index for index in indices if not past.has_prompt(incoming[index])], past.conversation)

    def _recognise(
        self, reader: Reader, incoming: list[Incoming], stored: Sequence[MessageHead]
    ) -> list[Incoming]:
        """Messages that come back with our file references count as what they were before."""
        rows = reader.messages_by_id([head.message_id for head in stored])
        shown = {
            identity_of(shown_to_models(row, lambda part: self._payloads.read_part(reader, part))): (
                row.head.identity
            )
            for row in rows.values()
            if any(part.file_id for part in row.parts)
        }
        return [
            replace(item, identity=shown[item.identity]) if item.refers and item.identity in shown else item
            for item in incoming
        ]

    def _prepare(
        self, batch: Batch, indices: Sequence[int], session: Session, now: int
    ) -> dict[int, PreparedRow]:
        """Rows of some messages; one that cannot be taken apart becomes a broken record in the batch, too."""
        calls = {call.id: call for message in batch.messages for call in calls_of(message) if call.id}
        lane, rows = _lane(session), {}
        for index in indices:
            make = partial(self._make_row, batch, index, lane, now, calls)
            try:
                rows[index] = with_room_to_recurse(make)
            except NOT_THE_MESSAGE:
                raise
            except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the others are stored
                batch.taken[index] = self._intake.spoil(batch.taken[index], error)
                rows[index] = make()
        return rows

    def _make_row(
        self, batch: Batch, index: int, lane: str, now: int, calls: Mapping[str, Call]
    ) -> PreparedRow:
        taken = batch.taken[index]
        return self._rows.make(taken.message, taken.item, lane, now, calls)

    def _hide_idle(self, writer: Writer, conversation: Conversation, added: int, now: int) -> None:
        """Takes polls about which nothing was done out of the context; their rows stay."""
        heads = writer.heads(conversation.conversation_id, limit=added + _CYCLE)
        stored = writer.messages_by_id([head.message_id for head in heads])
        ordered = [stored[head.message_id] for head in heads]
        messages = [rebuild(row) for row in ordered]
        idle = set(self._standing.idle_rows(messages))
        if self._prune_heartbeats:
            idle |= set(idle_heartbeat_rows(messages))
        fresh = [ordered[index].head.message_id for index in sorted(idle) if not ordered[index].head.hidden]
        if fresh:
            writer.hide(conversation.conversation_id, fresh, now)


def _lane(session: Session) -> str:
    return session.key or session.id or ""
