"""Storing what a host hands over: at once, once, in one transaction.

What is new is worked out on a read transaction, and so are parts and token counts, which cost most. Of a few short
messages both cost less than a transaction, and happen in the one that writes.
The write transaction starts over only when somebody else stored something meanwhile, or when the database
server went away; what may have been committed then is looked for first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import get_args

from lcm_plugin.errors import InputError, OutcomeUnknown, StoreError
from lcm_plugin.events import Event, EventBus
from lcm_plugin.files.externalise import PayloadStore
from lcm_plugin.ingest.edits import Edit, Insertion
from lcm_plugin.ingest.heartbeat import idle_heartbeat_rows
from lcm_plugin.ingest.host_noise import StandingTexts
from lcm_plugin.ingest.instructions import put_in_force
from lcm_plugin.ingest.intake import NOT_THE_MESSAGE, Batch, Intake, with_room_to_recurse
from lcm_plugin.ingest.plan import Plan, Planner
from lcm_plugin.ingest.rows import PreparedRow, RowMaker, append_rows
from lcm_plugin.messages.blocks import Call
from lcm_plugin.messages.merging import COUNTS
from lcm_plugin.messages.parts import rebuild
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.sessions.access import Access
from lcm_plugin.sessions.context_log import ContextLog
from lcm_plugin.sessions.conversations import SessionDirectory
from lcm_plugin.sessions.kinds import open_conversation
from lcm_plugin.sessions.withdrawal import Withdrawals
from lcm_plugin.store.protocol import Store, Writer
from lcm_plugin.store.records import Conversation, FileRecord
from lcm_plugin.store.retry import retry_lost
from lcm_plugin.types import LIST_MODES, IngestMode, IngestReport, Message, Session

_CYCLE = 4
_COMPACTIONS = frozenset({"compaction.pass", "compaction.cleared"})


class _Undo(Exception):
    """Ends a transaction that was only tried."""


class Ingestor:
    """Stores messages of sessions. Thread-safe."""

    def __init__(
        self,
        store: Store,
        sessions: SessionDirectory,
        counter: TokenCounter,
        payloads: PayloadStore,
        intake: Intake,
        events: EventBus,
        clock: Callable[[], int],
        withdrawals: Withdrawals,
        context_log: ContextLog,
        *,
        prune_heartbeats: bool = False,
        standing: StandingTexts | None = None,
        files_stored: Callable[[Sequence[FileRecord]], None] = lambda records: None,
    ) -> None:
        """``files_stored`` is told of the files of every ingest, after they are committed."""
        self._store = store
        self._sessions = sessions
        self._payloads = payloads
        self._events = events
        self._clock = clock
        self._prune_heartbeats = prune_heartbeats
        self._files_stored = files_stored
        self._standing = standing or StandingTexts((), ())
        self._intake = intake
        self._rows = RowMaker(counter, payloads)
        self._planner = Planner(payloads)
        self._withdrawals = withdrawals
        self._context_log = context_log

    def ingest(self, session: Session, messages: Sequence[Message], mode: IngestMode) -> IngestReport:
        """Stores what is new of ``messages``; all of it or, on any error but `OutcomeUnknown`, nothing.

        After that one, handing the same messages over again stores them once. A message that cannot be stored
        as it is becomes a broken record, and the others are stored. Of a session that may not be written to nothing is.
        """
        access = self._sessions.access(session)
        if access is not Access.FULL:
            reason = f"the session is {access}"
            self._events.emit("ingest.skipped", level=logging.DEBUG, session_key=session.key, reason=reason)
            return IngestReport(0, len(messages), reason)
        if not session.name:
            raise InputError("a session needs a key or an id")
        return self._ingest(self._sessions.keyed(session), messages, mode)

    def note(self, event: Event) -> None:
        """Takes note of a compaction."""
        if event.name in _COMPACTIONS and event.conversation_id is not None:
            self._planner.compacted(event.conversation_id, event.fields["revision"])

    def _ingest(self, session: Session, messages: Sequence[Message], mode: IngestMode) -> IngestReport:
        if mode not in get_args(IngestMode):
            raise InputError(f"mode must be one of {', '.join(get_args(IngestMode))}, not {mode!r}")
        batch = self._intake.take(messages, (session.key, session.id) if mode in LIST_MODES else None)
        if not batch.taken:
            why = "only host notes were handed over" if messages else "nothing was handed over"
            return IngestReport(0, len(messages), why)

        def store() -> IngestReport:
            return retry_lost(lambda: self._store_new(session, batch, mode, len(messages)), idempotent=True)

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
        now, planner = self._clock(), self._planner
        COUNTS.get_ready()  # while the encoding loads no other process should wait to write
        plan, conversation, prepared = None, None, dict[int, PreparedRow]()
        if mode in LIST_MODES or not batch.is_short:
            with self._store.read() as reader:
                incoming = planner.reduce(reader, batch)
                plan = planner.plan(reader, session, incoming, mode)
            if not plan.writes(session):
                return self._nothing_new(session, count, plan)
            prepared = self._prepare(batch, plan.added, session, now)
        else:
            # A delta is nearly always new: its rows are made before others have to wait, and in no transaction.
            prepared = self._prepare(batch, range(len(batch.taken)), session, now)
        try:
            with self._store.write() as writer:
                known = None
                if plan is None:
                    incoming = planner.reduce(writer, batch)
                    plan = planner.plan(writer, session, incoming, mode)
                    if not plan.writes(session):
                        return self._nothing_new(session, count, plan)
                    known = plan.conversation
                conversation = open_conversation(writer, session, now, known)
                if not plan.holds_for(conversation):
                    plan = planner.plan(writer, session, incoming, mode)
                    missing = [index for index in plan.added if index not in prepared]
                    prepared |= self._prepare(batch, missing, session, now)
                branch = plan.branch
                here = conversation.conversation_id
                withdrawn = self._withdrawals.withdraw(writer, here, branch.withdrawn, now)
                brought_back = self._withdrawals.bring_back(writer, here, branch.restored, now)
                rows = [prepared[index] for index in plan.new]
                writer.release_host_ids(here, plan.retold)
                writer.name_messages(here, branch.names)
                append_rows(writer, conversation, rows, now, follows=branch.follows)
                put_in_force(writer, conversation, plan.in_force(conversation), now)
                sent = self._context_log.write(writer, here)
                self._insert(writer, session, plan.insertions, prepared, now)
                self._edit(writer, session, plan.edits, prepared, now)
                # A removal that ran since then may have taken bytes away that nobody referred to yet.
                gone = [index for index in plan.added if not self._payloads.holds(prepared[index].files)]
                self._prepare(batch, gone, session, now)
                if self._prune_heartbeats or self._standing.has_controls:
                    self._hide_idle(writer, conversation, len(plan.new), now)
        except OutcomeUnknown:
            if conversation is not None and plan is not None:
                planner.unsure(session, conversation, [incoming[index] for index in plan.new])
            raise
        self._context_log.written(here, sent)
        planner.settled(session, plan, conversation)
        self._files_stored([record for index in plan.added for record in prepared[index].files])
        report = self._stored(session, conversation, batch, plan, count)
        back = sum(edit.former is not None for edit in plan.edits)
        return replace(
            report,
            withdrawn=len(withdrawn) + len(plan.edits),
            brought_back=len(brought_back) + back,
            run=branch.run,
        )

    def _insert(
        self,
        writer: Writer,
        session: Session,
        insertions: Sequence[Insertion],
        prepared: Mapping[int, PreparedRow],
        now: int,
    ) -> None:
        """Puts new messages between stored ones."""
        for one in insertions:
            conversation = open_conversation(writer, session, now)
            here, rows = conversation.conversation_id, [prepared[index] for index in one.indices]
            append_rows(writer, conversation, rows, now)
            message_ids = [head.message_id for head in writer.heads(here, limit=len(rows))]
            self._withdrawals.insert_before(writer, here, message_ids, one.follower, now)

    def _edit(
        self,
        writer: Writer,
        session: Session,
        edits: Sequence[Edit],
        prepared: Mapping[int, PreparedRow],
        now: int,
    ) -> None:
        """Puts other versions of messages at their places."""
        for edit in edits:
            conversation = open_conversation(writer, session, now)
            former = edit.former
            if former is None:
                append_rows(writer, conversation, [prepared[edit.index]], now)
                former = writer.heads(conversation.conversation_id, limit=1)[0]
            here, message_id = conversation.conversation_id, former.message_id
            self._withdrawals.take_place(writer, here, message_id, edit.old, now)
            if edit.host_id is not None:
                writer.name_messages(here, {message_id: edit.host_id})

    def _stored(
        self, session: Session, conversation: Conversation, batch: Batch, plan: Plan, count: int
    ) -> IngestReport:
        stored = len(plan.added) + plan.settled
        converted, broken = batch.converted(plan.added), batch.broken(plan.added)
        emit = partial(
            self._events.emit, conversation_id=conversation.conversation_id, session_key=session.key
        )
        emit("ingest.stored", level=logging.DEBUG, stored=stored, skipped=count - stored)
        if plan.branch.changes or plan.edits:
            taken_back = len(plan.branch.withdrawn) + len(plan.edits)
            again = len(plan.branch.restored) + sum(edit.former is not None for edit in plan.edits)
            emit("ingest.withdrawn", level=logging.DEBUG, withdrawn=taken_back, brought_back=again)
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
            batch.put(index, self._intake.spoil(batch.taken[index], error))
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

    def _nothing_new(self, session: Session, count: int, plan: Plan) -> IngestReport:
        self._planner.settled(session, plan)
        if plan.settled:
            return IngestReport(plan.settled, count - plan.settled, run=plan.branch.run)
        why = "everything is stored already"
        self._events.emit(
            "ingest.skipped", level=logging.DEBUG, session_key=session.key, messages=count, reason=why
        )
        return IngestReport(0, count, why, run=plan.branch.run)

    def seed(self, session: Session, messages: Sequence[Message], times: Sequence[int]) -> int:
        """Stores copies of another lane's messages, with their times, in a conversation that has none.

        Returns how many were stored: all, or none when somebody else was first.
        """
        return retry_lost(lambda: self._seed(session, messages, times), idempotent=True)

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

    def _prepare(
        self, batch: Batch, indices: Sequence[int], session: Session, now: int
    ) -> dict[int, PreparedRow]:
        """Rows of some messages; one that cannot be taken apart becomes a broken record in the batch, too."""
        calls = batch.calls({given for index in indices for given in batch.taken[index].item.answers})
        lane, rows = session.name, {}
        for index in indices:
            make = partial(self._make_row, batch, index, lane, now, calls)
            try:
                rows[index] = with_room_to_recurse(make)
            except NOT_THE_MESSAGE:
                raise
            except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the others are stored
                batch.put(index, self._intake.spoil(batch.taken[index], error))
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
