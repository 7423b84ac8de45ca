"""The store seam: what a database must do for the services.

A store hands out a `Reader` or a `Writer`, each for the length of one transaction. A writer sees
its own changes; leaving it normally commits, an exception rolls everything back. Stores raise only
the errors of `lcm_plugin.errors`. `sqlite/` and `postgres/` implement this; one contract suite runs
against both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from lcm_plugin.store.insight.records import InsightReader, InsightWriter
from lcm_plugin.store.integrity import AuditReader, JobReader, JobWriter, RepairWriter
from lcm_plugin.store.maps.records import MapReader, MapWriter
from lcm_plugin.store.records import (
    ArchiveCause,
    CallRow,
    Conversation,
    Debt,
    FileMoved,
    FileRecord,
    Item,
    MessageHead,
    NewMessage,
    Publication,
    Reopening,
    Snapshot,
    StoredMessage,
    Summary,
)
from lcm_plugin.store.removal import RemovalReader, RemovalWriter
from lcm_plugin.store.search import SearchReader, SearchWriter
from lcm_plugin.store.transfer import TransferReader, TransferWriter
from lcm_plugin.types import Pin, Session


class Reader(
    SearchReader, AuditReader, TransferReader, RemovalReader, JobReader, MapReader, InsightReader, Protocol
):
    """Queries within one read transaction. None of them costs more than what it returns."""

    def find_conversation(self, session: Session) -> Conversation | None:
        """The active conversation of a session key, or of a session id when the key is empty."""

    def conversation_of_run(self, session: Session) -> Conversation | None:
        """The conversation, active or archived, that this run (key and id) last wrote to."""

    def conversation(self, conversation_id: int) -> Conversation | None:
        """One conversation, active or archived."""

    def conversations(
        self, *, after_id: int = 0, limit: int = 100, active_only: bool = False
    ) -> list[Conversation]:
        """Conversations in id order, for paging."""

    def lane(self, session_key: str, *, without: str = "") -> list[Conversation]:
        """All conversations a key ever had, oldest first; not those whose first message's host id begins ``without``."""

    def last_resets(self, prefix: str) -> dict[str, int]:
        """For each session key with a beginning that was ever reset the last conversation which that ended."""

    def family(self, session_key: str) -> list[Conversation]:
        """Those of them since the last reset, newest first: the active one and those that ended by themselves."""

    def conversation_holding(self, session_key: str, host_id: str) -> Conversation | None:
        """The newest conversation of a key that holds the message with a host's own id."""

    def openings(self, conversation_ids: Sequence[int]) -> dict[int, tuple[int, int | None]]:
        """How many messages conversations have, records beside the talk apart, and a person's first one (its id)."""

    def session_key_of(self, session_id: str) -> str | None:
        """The key under which a session id was last seen."""

    # messages
    def heads(
        self, conversation_id: int, *, before_seq: int | None = None, limit: int, standing: bool = False
    ) -> list[MessageHead]:
        """The newest ``limit`` messages (before a seq), in order; ``standing`` leaves out withdrawn ones."""

    def heads_after(self, conversation_id: int, after_seq: int) -> list[MessageHead]:
        """All messages after a seq, in order."""

    def heads_with_identity(
        self, conversation_id: int, identities: Sequence[int], *, limit: int, withdrawn: bool = False
    ) -> list[MessageHead]:
        """The newest ``limit`` messages with one of the identities, in order; or those of them that are withdrawn."""

    def messages(self, conversation_id: int, *, after_seq: int = 0, limit: int) -> list[StoredMessage]:
        """Messages in order, for paging."""

    def messages_by_id(self, message_ids: Sequence[int]) -> dict[int, StoredMessage]:
        """Messages by id; unknown ids are left out."""

    def known_host_ids(self, conversation_ids: Sequence[int], host_ids: Sequence[str]) -> set[str]:
        """Which of a host's own message ids are stored already."""

    def heads_with_host_ids(self, conversation_id: int, host_ids: Sequence[str]) -> dict[str, MessageHead]:
        """A conversation's messages by the host's own ids; unknown ids are left out."""

    def withdrawn_among(self, message_ids: Sequence[int]) -> set[int]:
        """Which of some messages were taken back."""

    def call_rows(self, conversation_id: int, ids: set[str], *, limit: int) -> list[CallRow]:
        """Of the newest ``limit`` messages that make or answer tool calls those with one of the ids, in order."""

    def newest_tool_calls(
        self, conversation_id: int, *, after: int, limit: int
    ) -> list[tuple[int, int, str, bool]]:
        """The tools that the newest ``limit`` messages with calls after a seq call.

        Newest first: seq, message id, tool's name, and whether the message is hidden.
        """

    def lowest_group(self, conversation_id: int, from_seq: int, span: int, floor: int) -> int | None:
        """The smallest ``group_seq`` not below ``floor`` among the ``span`` messages from a seq on."""

    def messages_at(self, conversation_id: int, seqs: Sequence[int]) -> list[StoredMessage]:
        """A conversation's messages by seq; unknown seqs are left out."""

    def instructions(self, conversation_id: int) -> list[tuple[MessageHead, bool]]:
        """System and developer messages that are not hidden, in order, and whether each stands raw in the context.

        The newest `MOST_INSTRUCTIONS` of them.
        """

    def users_within(self, conversation_id: int, spans: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
        """Which spans of seqs hold a user's own message after their first seq."""

    def newest_user(self, conversation_id: int, *, before: int | None = None) -> MessageHead | None:
        """The newest user message that is not hidden (before a seq), whether the context holds it or not."""

    # context
    def newest_items(self, conversation_id: int, *, before: int | None = None, limit: int) -> list[Item]:
        """The newest ``limit`` context items (before an ordinal), in order."""

    def oldest_items(self, conversation_id: int, *, after: int = 0, limit: int) -> list[Item]:
        """The oldest ``limit`` context items (after an ordinal), in order."""

    def oldest_raw_items(self, here: int, *, after: int = 0, limit: int, over: int = -1) -> list[Item]:
        """The oldest raw items after an ordinal; with ``over``, results of more tokens that are shown and not cleared."""

    def summary_items(self, conversation_id: int, *, after: int = 0, limit: int) -> list[Item]:
        """The oldest ``limit`` context items (after an ordinal) that point to summaries, in order."""

    def follow_raw(self, conversation_id: int, ordinals: Sequence[int]) -> set[int]:
        """Which of some ordinals have a raw item as the item before them."""

    def context_depths(self, conversation_id: int) -> dict[int, tuple[int, int]]:
        """How many summaries of each depth the context holds, and their tokens there."""

    def newest_summary_items(self, conversation_id: int, *, before: int, limit: int) -> list[Item]:
        """The newest ``limit`` context items before an ordinal that point to summaries, in order."""

    # summaries
    def summaries(self, summary_ids: Sequence[str]) -> dict[str, Summary]:
        """Summaries by id; unknown ids are left out."""

    def list_summaries(
        self, conversation_id: int, *, after: str | None = None, limit: int = 100, depth: int | None = None
    ) -> list[Summary]:
        """A conversation's summaries in the order in which they were made, for paging."""

    def source_summaries(self, summary_id: str) -> list[str]:
        """Ids of the summaries that a condensed summary was made from, in order."""

    def source_messages(self, summary_id: str) -> list[int]:
        """Ids of the messages that a leaf was made from, in order."""

    def sources_of(self, summary_ids: Sequence[str]) -> dict[str, list[str]]:
        """The sources of several summaries as ``msg_…`` and ``sum_…`` ids, in order."""

    def derived_from(self, summary_id: str) -> list[str]:
        """Ids of the summaries made from this one."""

    def covering_leaf(self, message_ids: Sequence[int]) -> dict[int, str]:
        """The leaf that covers each message; uncovered messages are left out."""

    # pins, files, debt, guards, snapshots
    def pins(self, session_key: str) -> list[Pin]:
        """The pins of a key's conversations since its last reset, oldest first."""

    def pins_of(self, conversation_id: int) -> list[Pin]:
        """The pins of one conversation, oldest first."""

    def file(self, file_id: str) -> FileRecord | None:
        """One externalised payload."""

    def newest_files(self, conversation_ids: Sequence[int] | None, *, limit: int) -> list[FileRecord]:
        """Payload records of some conversations (None: of all), those of the newest conversations first."""

    def count_files(self, conversation_ids: Sequence[int] | None, *, most: int) -> int:
        """How many payload records they have; ``most`` when there are more."""

    def files(self, conversation_id: int, *, after: str = "", limit: int = 100) -> list[FileRecord]:
        """A conversation's payloads in id order, for paging."""

    def blob(self, sha256: str) -> bytes | None:
        """A payload's bytes kept inside the database."""

    def debt(self, conversation_id: int) -> Debt | None:
        """The compaction that is due for a conversation."""

    def due_debts(self, now: int, *, limit: int = 100) -> list[Debt]:
        """Debts that may be worked off now: pending, deferred or failed and due, or running with a dead lease."""

    def held_debts(self, *, limit: int = 100) -> list[Debt]:
        """Debts whose lease somebody holds, alive or not, in the order in which the leases run out."""

    def guard(self, key: str) -> dict[str, Any] | None:
        """A guard's state (circuit breaker, spend guard)."""

    def guards(self) -> dict[str, dict[str, Any]]:
        """All guards."""

    def snapshot(self, conversation_id: int) -> Snapshot | None:
        """The newest undoable snapshot of a conversation."""

    def undoable(self, conversation_id: int) -> bool:
        """Whether `Writer.restore_snapshot` would put something back."""


class Writer(
    Reader,
    SearchWriter,
    RepairWriter,
    TransferWriter,
    RemovalWriter,
    JobWriter,
    MapWriter,
    InsightWriter,
    Protocol,
):
    """Changes within one write transaction."""

    def open_conversation(self, session: Session, now: int, seen: Conversation | None = None) -> Conversation:
        """The session's active conversation, ``seen`` or made when there is none; records the session id."""

    def open_archived(self, session: Session, cause: ArchiveCause, now: int) -> Conversation:
        """A new conversation of the key that is archived from the start, beside an active one."""

    def append(self, conversation: Conversation, messages: Sequence[NewMessage], now: int) -> list[int]:
        """Stores messages after the conversation's last one, each as a context item too, and returns their ids.

        A host's id that the conversation holds already is left out, so that no row is ever refused.
        """

    def name_conversation(self, conversation_id: int, names: Mapping[str, str | bool]) -> None:
        """Sets any of ``title``, ``project``, ``source`` and ``by_person``."""

    def set_instructions(self, conversation_id: int, seqs: Sequence[int], now: int) -> None:
        """Makes messages the host's instructions in force, in this order."""

    def set_plan(self, conversation_id: int, message_id: int | None, now: int) -> None:
        """Notes which compacted message's plan stays in view."""

    def hide(self, conversation_id: int, message_ids: Sequence[int], now: int) -> None:
        """Marks stored messages as never to be assembled; they stay readable and cost no context."""

    def show(self, conversation_id: int, message_ids: Sequence[int], now: int) -> None:
        """Undoes `hide`: messages whose items still stand in the context are assembled again."""

    def clear_results(self, conversation_id: int, tokens: Mapping[int, int], now: int) -> None:
        """Marks results as cleared, each with the tokens it has in contexts from now on. Texts stay as they are."""

    def release_host_ids(self, conversation_id: int, host_ids: Sequence[str]) -> None:
        """Takes host ids from the messages that have them: another version of these is about to be stored."""

    def withdraw(self, conversation_id: int, message_ids: Sequence[int], now: int) -> None:
        """Hides and marks messages that the host took back; marked ones stay. What `/new` pruned can still be undone."""

    def bring_back(self, conversation_id: int, message_ids: Sequence[int], now: int) -> None:
        """Undoes `withdraw`; messages that are not withdrawn stay as they are."""

    def take_place(self, conversation_id: int, message_id: int, instead_of: int, now: int) -> None:
        """Puts a message at the place of an earlier one, which is withdrawn and gets this one's place.

        Both are raw items, if in the context at all. The revision changes; what `/new` pruned can still be undone.
        """

    def insert_before(self, conversation_id: int, message_ids: Sequence[int], follower: int) -> None:
        """Moves the newest messages to the place before an earlier one; what follows it moves up."""

    def name_messages(self, conversation_id: int, names: Mapping[int, str]) -> None:
        """Gives messages the host's ids, which other ones lose."""

    def reopen(self, conversation_id: int, reopening: Reopening, now: int) -> None:
        """Takes summaries apart: deletes them and puts what they were made from back into the context.

        Messages come back as raw items, ``kept`` as summary items. What `/new` pruned can still be undone.
        """

    def archive(self, conversation_id: int, cause: ArchiveCause, now: int) -> None:
        """Ends a conversation; its cause is written once. Rows and items stay."""

    def publish(self, publication: Publication, now: int) -> None:
        """Stores a summary, its links and the context swap, all or nothing.

        Raises `StoreConflict` when the revision or one of the replaced items changed, or another item stands between
        them; `StoreBusy`, where writers run side by side, while another one publishes in the conversation.
        """

    def remove_items(self, conversation_id: int, ordinals: Sequence[int], cause: str, now: int) -> int:
        """Takes items out of the context into a snapshot and returns its id; stored rows stay."""

    def prune(self, conversation_id: int, retain_depth: int, cause: str, now: int) -> None:
        """Takes raw items and summaries below a depth out of the context into a snapshot, as `remove_items`.

        Also marks where the conversation goes on: ``restart_seq``. A depth of -1 takes nothing out.
        """

    def restore_snapshot(self, conversation_id: int, now: int) -> int:
        """Puts the newest snapshot's items back and returns how many; 0 when it cannot be undone."""

    def add_pin(self, pin: Pin) -> None:
        """Stores a pin; an equal id in its conversation is kept as it is."""

    def remove_pins(self, pins: Sequence[Pin]) -> None:
        """Deletes pins."""

    def replace_pin(self, pin: Pin) -> None:
        """Gives a pin another text, speaker and token count."""

    def add_file(self, record: FileRecord) -> None:
        """Stores a payload's record; an equal id is kept as it is."""

    def describe_file(self, file_id: str, exploration: str) -> None:
        """Replaces what is told of a payload."""

    def put_blob(self, sha256: str, data: bytes) -> None:
        """Keeps a payload's bytes inside the database."""

    def save_guard(self, key: str, state: Mapping[str, Any]) -> None:
        """Replaces a guard's state."""

    def request_compaction(
        self,
        conversation_id: int,
        reason: str,
        budget: int | None,
        now: int,
        *,
        overhead: int = 0,
        model: str = "",
        window: int | None = None,
    ) -> Debt:
        """Records that compaction is owed, and for which call; one row per conversation.

        A running lease is kept, and so is the time before which a deferred or failed debt must rest.
        """

    def claim_debt(self, conversation_id: int, owner: str, now: int, lease_ms: int) -> Debt | None:
        """Takes the lease when nobody alive holds it; None otherwise. Makes the row if needed."""

    def renew_lease(self, conversation_id: int, owner: str, now: int, lease_ms: int) -> bool:
        """Extends a held lease; False when it was lost."""

    def settle_debt(
        self,
        conversation_id: int,
        owner: str,
        state: str,
        now: int,
        *,
        reason: str = "",
        error: str = "",
        next_attempt_at: int = 0,
    ) -> None:
        """Gives the lease back with a verdict about the conversation as it stands."""


class Store(Protocol):
    """A database. Thread-safe; safe beside other processes on the same database."""

    @property
    def location(self) -> str:
        """The path, or the URL without its password."""

    @property
    def indexes_late(self) -> bool:
        """Whether rows are indexed for search only after they are stored (`SearchWriter.index_pending`)."""

    def read(self) -> AbstractContextManager[Reader]:
        """A read transaction: one consistent view."""

    def write(self) -> AbstractContextManager[Writer]:
        """A write transaction. Raises `StoreBusy` when the lock cannot be had in time."""

    def backup(self, destination: str) -> str:
        """Writes a verified copy beside the running database and returns where it is."""

    def before_fork(self) -> None:
        """The process is about to fork: ends what a new process cannot share, as far as that is possible."""

    def after_fork_in_parent(self) -> None:
        """The process has forked and goes on."""

    def after_fork_in_child(self) -> None:
        """This is the new process: what it needs it opens anew."""

    def on_moved(self, listener: Callable[[FileMoved], None]) -> None:
        """Calls ``listener`` after an open database file was found deleted or replaced; a server's never is."""

    def copies(self) -> list[str]:
        """The paths of copies of the database that this package made beside it."""

    def siblings(self) -> list[str]:
        """The paths of other databases of this package in the same folder, which may share its payload files."""

    def open_copy(self, path: str) -> AbstractContextManager[Store]:
        """One of the copies as a store of its own, brought to the present schema."""

    def give_back_space(self, *, scrub: bool = False) -> None:
        """Returns the space of deleted rows, to the system (SQLite) or for reuse (PostgreSQL).

        With ``scrub`` no deleted text stays in any file of the database afterwards, nor in its full-text index,
        and the space goes back to the system on either store.
        Raises `StoreBusy` when others hold it up; nothing is lost then and it can be called again.
        """

    def close(self) -> None:
        """Closes every connection. Later calls raise `EngineClosed`."""


def iterate_conversations(reader: Reader, page: int = 500) -> Iterator[Conversation]:
    """All conversations in id order, in bounded memory."""
    after = 0
    while rows := reader.conversations(after_id=after, limit=page):
        yield from rows
        after = rows[-1].conversation_id


def iterate_messages(reader: Reader, conversation_id: int, page: int = 500) -> Iterator[StoredMessage]:
    """All messages of a conversation in order, in bounded memory."""
    after = 0
    while rows := reader.messages(conversation_id, after_seq=after, limit=page):
        yield from rows
        after = rows[-1].head.seq


def iterate_items(
    reader: Reader, conversation_id: int, *, after: int = 0, raw: bool = False, page: int = 500
) -> Iterator[Item]:
    """The context items after an ordinal in order, in bounded memory; with ``raw`` only those of messages."""
    read = reader.oldest_raw_items if raw else reader.oldest_items
    while rows := read(conversation_id, after=after, limit=page):
        yield from rows
        after = rows[-1].ordinal
