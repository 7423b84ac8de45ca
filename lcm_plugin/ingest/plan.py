"""Comparing what a host hands over with what is stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from lcm_plugin.characters import storable
from lcm_plugin.files.externalise import PayloadStore
from lcm_plugin.ingest.alignment import (
    WINDOW_SLACK,
    Alignment,
    align_list,
    new_in_delta,
    replayed_head,
    replayed_turn,
)
from lcm_plugin.ingest.branches import Branch, Ground, ListRoots, follow_list
from lcm_plugin.ingest.edits import (
    Edit,
    Insertion,
    insertions_moved_by,
    moved_by,
    run_behind,
    with_edits,
    with_edits_by_place,
    with_edits_of_whole,
    with_former_versions,
    with_insertions,
)
from lcm_plugin.ingest.history import Past, past_from, past_of
from lcm_plugin.ingest.instructions import Leading, leading_run, with_leading
from lcm_plugin.ingest.intake import Batch
from lcm_plugin.ingest.known_lists import Beginning, KnownList, KnownLists, known_list
from lcm_plugin.ingest.matching import Incoming, is_request
from lcm_plugin.ingest.pending_commits import UnsureMessages
from lcm_plugin.ingest.rows import RECENT_CALLS
from lcm_plugin.ingest.shown import shown_to_models
from lcm_plugin.lru import LruCache
from lcm_plugin.messages.blocks import is_instruction, text_of
from lcm_plugin.messages.conversions import Grown
from lcm_plugin.messages.identity import identity_of
from lcm_plugin.messages.markup import NOTICE, RECALLED
from lcm_plugin.messages.parts import rebuild
from lcm_plugin.sessions.kinds import find_conversation
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import Conversation, MessageHead
from lcm_plugin.store.session_keys import is_cron
from lcm_plugin.store.transaction import read_ahead
from lcm_plugin.types import LIST_MODES, IngestMode, RunPosition, Session


@dataclass(frozen=True, slots=True)
class Plan:
    """Indices that are new, and the state of the conversation for which that holds.

    ``settled`` counts messages whose commit was not answered and that are found to be stored. ``branch`` is what a
    whole list does besides, ``leading`` the instructions that it begins with. ``retold`` are the host's ids that go from
    stored messages to new versions of them, ``edits`` the messages that take a stored one's place, ``insertions`` those
    that stand between stored ones. ``listed`` is what is known of a whole list once the plan is carried out.
    """

    new: list[int]
    conversation: Conversation | None
    settled: int = 0
    leading: Leading | None = None
    branch: Branch = field(default_factory=lambda: Branch([]))
    retold: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    insertions: tuple[Insertion, ...] = ()
    listed: KnownList | None = None

    @property
    def changes(self) -> bool:
        """Whether there is anything to store or to mark."""
        if self.new or self.edits or self.insertions or self.branch.changes:
            return True
        return (
            self.conversation is not None
            and self.in_force(self.conversation) != self.conversation.instruction_seqs
        )

    def in_force(self, conversation: Conversation) -> tuple[int, ...]:
        """The rows of the instructions in force when the new messages are stored from ``next_seq`` on."""
        if self.leading is None:
            return conversation.instruction_seqs
        return self.leading.in_force(
            {index: conversation.next_seq + place for place, index in enumerate(self.new)}
        )

    @property
    def added(self) -> list[int]:
        """The indices of all messages that get a row of their own."""
        inserted = (index for one in self.insertions for index in one.indices)
        return [*self.new, *inserted, *(edit.index for edit in self.edits if edit.former is None)]

    def writes(self, session: Session) -> bool:
        """Whether anything is written; the run that repeats what is stored is remembered with its conversation."""
        mine = self.conversation
        other_run = mine is not None and session.id is not None and mine.session_id != storable(session.id)
        return self.changes or other_run

    def holds_for(self, conversation: Conversation) -> bool:
        """Whether nothing was stored in the conversation meanwhile."""
        if self.conversation is None:
            return conversation.next_seq == 1
        mine = self.conversation
        return (mine.conversation_id, mine.next_seq, mine.instructions) == (
            conversation.conversation_id,
            conversation.next_seq,
            conversation.instructions,
        )


_MOST_SESSIONS = 4_096
_PROMPTS = 8
"""So many rows more than a delta has are looked at: instructions may have been stored behind what it repeats."""


class Planner:
    """Says what of a host's messages is new. Thread-safe."""

    def __init__(self, payloads: PayloadStore) -> None:
        self._payloads = payloads
        self._unsure = UnsureMessages()
        self._roots = ListRoots()
        self._lists = KnownLists()
        self._numbers: LruCache[str, int] = LruCache(_MOST_SESSIONS)

    def reduce(self, reader: Reader, batch: Batch) -> Grown[Incoming]:
        """What is compared of each message, with those marked that are our own texts."""
        incoming = batch.incoming
        if ours := _known_as_ours(reader, batch):
            marked = [
                replace(item, ours=True) if index in ours else item for index, item in enumerate(incoming)
            ]
            return Grown(marked)
        return incoming

    def plan(self, reader: Reader, session: Session, incoming: Grown[Incoming], mode: IngestMode) -> Plan:
        """What of the messages is new, and what a whole list takes back."""
        plan = self._compare(reader, session, incoming, mode)
        seen = self._unsure.look(reader, session.name, incoming)
        new = set(plan.new)
        if seen.stored:
            return replace(plan, new=sorted(new - seen.places), settled=len(seen.places), listed=None)
        if mode not in LIST_MODES:
            # They were new when they could not be stored, however alike the stored end is.
            new |= seen.places
        return plan if (ordered := sorted(new)) == plan.new else replace(plan, new=ordered)

    def unsure(self, session: Session, conversation: Conversation, incoming: Sequence[Incoming]) -> None:
        """The commit that was to append these messages was not answered."""
        self._unsure.note(session.name, conversation, incoming)

    def settled(self, session: Session, plan: Plan, conversation: Conversation | None = None) -> None:
        """A plan was carried out, in this conversation."""
        self._unsure.settled(session.name)
        conversation = conversation or plan.conversation
        if conversation is not None:
            self._roots.note(conversation.conversation_id, session.id, plan.branch.root)
            self._numbers.put(session.name, conversation.conversation_id)
        if plan.listed is not None:
            self._lists.note(plan.listed)

    def compacted(self, conversation_id: int, revision: int) -> None:
        """A context was compacted or cleared at this revision; the rows are as they were."""
        self._lists.keep(conversation_id, revision)

    def _compare(self, reader: Reader, session: Session, incoming: Grown[Incoming], mode: IngestMode) -> Plan:
        if mode == "append":
            self._ask_ahead(reader, session, incoming)
        conversation = find_conversation(reader, session)
        if mode in LIST_MODES and conversation is not None:
            begun = self._lists.beginning(conversation, incoming)
            if begun is not None:
                past = past_from(reader, session, conversation, begun.seq)
                if plan := self._compare_list(reader, session, incoming, past, mode, begun):
                    return plan
        past = past_of(reader, session, conversation, _window(incoming, mode))
        if mode in LIST_MODES:
            plan = self._compare_list(reader, session, incoming, past, mode)
            assert plan is not None
            return plan
        if mode == "all":
            leading = leading_run(reader, conversation, incoming, mode)
            return _appended(list(range(len(incoming))), incoming, past, leading)
        named, known_ids = self._named(reader, incoming, past)
        leading = leading_run(reader, conversation, named, mode)
        if replayed_turn(named, past.ended):
            return Plan([], conversation)
        new = with_leading(new_in_delta(named, past.stored, known_ids), leading, conversation)
        return _appended(new, named, past, leading)

    def _ask_ahead(self, reader: Reader, session: Session, incoming: Sequence[Incoming]) -> None:
        """Says what a delta is compared with, if its conversation is the one that it was."""
        number = self._numbers.get(session.name)
        if number is None or not session.key or is_cron(session.key):
            return
        reads: list[Callable[[], object]] = [
            lambda: reader.find_conversation(session),
            lambda: reader.lane(session.key or ""),
            lambda: reader.heads(number, limit=_window(incoming, "append"), standing=True),
            lambda: reader.former_identities((number,)),
        ]
        if host_ids := [item.host_id for item in incoming if item.host_id]:
            reads.append(lambda: reader.known_host_ids((number,), host_ids))
        if any(item.calls or item.answers for item in incoming):
            reads.append(lambda: reader.call_rows(number, set(), limit=RECENT_CALLS))
        read_ahead(reader, *reads)

    def _named(self, reader: Reader, incoming: list[Incoming], past: Past) -> tuple[list[Incoming], set[str]]:
        """The messages under the identities that they are stored under, and which of the host's ids are stored."""
        if former := reader.former_identities(past.lane):
            incoming = [replace(item, identity=former.get(item.identity, item.identity)) for item in incoming]
        host_ids = [item.host_id for item in incoming if item.host_id]
        known_ids = reader.known_host_ids(past.lane, host_ids) if past.lane and host_ids else set()
        if past.stored and any(item.refers for item in incoming):
            incoming = self._recognise(reader, incoming, past.stored)
        return incoming, known_ids

    def _compare_list(
        self,
        reader: Reader,
        session: Session,
        listing: Grown[Incoming],
        past: Past,
        mode: IngestMode,
        begun: Beginning | None = None,
    ) -> Plan | None:
        """What a list adds, takes back and brings back; None when it does not go on from ``begun`` after all."""
        conversation = past.conversation
        here, since = (conversation.conversation_id, conversation.restart_seq) if conversation else (0, 1)
        skipped = 0
        if begun is not None:
            skipped, since = begun.length, begun.seq
        given, known_ids = self._named(reader, listing[skipped:], past)
        leading = leading_run(reader, conversation, listing[: begun.leading] if begun else given, mode)
        if mode == "part":
            given = _without_fresh_ids(given, known_ids)

        rows = _Rows(reader, here, since, 4 * len(given) + WINDOW_SLACK)
        if past.before and len(past.since) < len(given):
            skipped = replayed_head(given, past.before, past.since, rows.texts)
            given = given[skipped:]
        talk = _talk(past)
        named, edits = dict[str, MessageHead](), tuple[Edit, ...]()
        if mode in ("state", "part") and known_ids:
            named = reader.heads_with_host_ids(here, sorted(known_ids))
            given, edits = with_edits(given, named, rows.withdrawn)
        elif mode == "whole":
            given, edits = with_edits_of_whole(given, talk, rows.withdrawn)
        root = None if mode == "part" or (skipped and not begun) else self._roots.root(here, session.id)
        if root is None and mode == "whole":
            root = since - 1
        begins = None if root is None else past.first_after(root)
        alignment = align_list(given, talk, known_ids, rows.texts, rows.of, rows.withdrawn, begins)
        if begun and (
            (leading and leading.new) or (row := alignment.rows.get(0)) is None or row.seq != begun.seq
        ):
            return None
        alignment, by_place = with_edits_by_place(
            given, alignment, talk, known_ids, rows.withdrawn, rows.texts
        )
        alignment, back = with_former_versions(given, alignment, rows.at)
        edits += by_place + back
        alignment = replace(
            alignment,
            rows={**alignment.rows, **self._rows_by_id(reader, here, given, known_ids, alignment)},
            new=[index for index in alignment.new if not past.has_prompt(given[index])],
        )
        alignment, insertions = with_insertions(given, alignment, mode == "whole")
        new = with_leading([index + skipped for index in alignment.new], leading, conversation)
        if conversation is None:
            branch = Branch([], root=None if mode == "part" else 0)
            return Plan(new, None, leading=leading, branch=branch)
        if leading and not skipped:
            alignment = replace(alignment, new=new)
        if alignment.edited is not None:
            root = named[given[alignment.edited].host_id or ""].before
        ground = Ground(
            conversation.next_seq,
            past.first_talk,
            root,
            rows.after,
            mode == "whole",
            begun,
        )
        branch = follow_list(given, alignment, ground)
        if mode == "part":
            branch = replace(branch, root=None)
        branch = replace(branch, run=run_behind(branch.run, insertions))
        new = with_leading([index + skipped for index in branch.new], leading, conversation)
        retold = tuple(name for index in branch.new if (name := given[index].host_id) in known_ids)
        listed = None
        if branch.seqs and not (branch.changes or edits or insertions) and (begun or not skipped):
            seqs = {index + skipped: seq for index, seq in branch.seqs.items()}
            listed = known_list(conversation, listing, seqs, branch.root, branch.run, begun)
        inserted = insertions_moved_by(skipped, insertions)
        return Plan(new, conversation, 0, leading, branch, retold, moved_by(skipped, edits), inserted, listed)

    @staticmethod
    def _rows_by_id(
        reader: Reader,
        conversation_id: int,
        items: Sequence[Incoming],
        known_ids: set[str],
        alignment: Alignment,
    ) -> dict[int, MessageHead]:
        """The rows that a host's own ids name and that lie too far back to be aligned."""
        ids = {
            item.host_id: index
            for index, item in enumerate(items)
            if item.host_id in known_ids and index not in alignment.rows and index not in alignment.new
        }
        if not ids:
            return {}
        found = reader.heads_with_host_ids(conversation_id, [str(host_id) for host_id in ids])
        return {ids[host_id]: head for host_id, head in found.items()}

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


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a conversation from ``since`` on that a comparison asks for, at most ``limit`` of some words."""

    reader: Reader
    conversation_id: int
    since: int
    limit: int

    def texts(self, message_ids: Sequence[int]) -> dict[int, str]:
        rows = self.reader.messages_by_id(message_ids)
        return {message_id: text_of(rebuild(row)) for message_id, row in rows.items()}

    def of(self, identities: Sequence[int]) -> list[MessageHead]:
        return self.reader.heads_with_identity(self.conversation_id, identities, limit=self.limit)

    def withdrawn(self, identities: Sequence[int]) -> list[MessageHead]:
        rows = self.reader.heads_with_identity(
            self.conversation_id, identities, limit=self.limit, withdrawn=True
        )
        return [row for row in rows if row.seq >= self.since]

    def after(self, seq: int) -> list[MessageHead]:
        rows = self.reader.heads_after(self.conversation_id, seq)
        return [row for row in rows if row.seq >= self.since]

    def at(self, seq: int) -> MessageHead | None:
        rows = self.reader.heads(self.conversation_id, before_seq=seq + 1, limit=1)
        return rows[0] if rows else None


def _window(incoming: Sequence[Incoming], mode: IngestMode) -> int:
    """How many of the newest rows messages are compared with."""
    lists = mode in LIST_MODES or any(item.refers for item in incoming)
    return len(incoming) + (WINDOW_SLACK if lists else _PROMPTS)


def _without_fresh_ids(incoming: Sequence[Incoming], known_ids: set[str]) -> list[Incoming]:
    """The messages without ids that may be new ones of stored messages: those that no known id stands before."""
    last = max(
        (index for index, item in enumerate(incoming) if item.host_id in known_ids), default=len(incoming)
    )
    return [
        item if index >= last or item.host_id in known_ids else replace(item, host_id=None)
        for index, item in enumerate(incoming)
    ]


def _known_as_ours(reader: Reader, batch: Batch) -> set[int]:
    """Messages that are our own summaries, stubs, notices or recalled passages, with ids that exist."""
    refs = batch.ours
    summaries = [ref for ref in refs.values() if ref.startswith("sum_")]
    stubs = [int(ref[4:]) for ref in refs.values() if ref.startswith("msg_")]
    quoted = {ref: list(map(int, ref.split()[1:])) for ref in refs.values() if ref.startswith(RECALLED)}
    named = [*stubs, *(message_id for ids in quoted.values() for message_id in ids)]
    known = reader.summaries(summaries) if summaries else {}
    stored = reader.messages_by_id(named) if named else {}

    def is_ours(index: int, ref: str) -> bool:
        if ref in quoted:
            return all(message_id in stored for message_id in quoted[ref])
        if not ref.startswith("msg_"):
            return ref == NOTICE or ref in known
        row = stored.get(int(ref[4:]))
        return row is not None and row.head.answers == batch.taken[index].item.answers

    return {index for index, ref in refs.items() if is_ours(index, ref)}


def _talk(past: Past) -> list[MessageHead]:
    """What a list is compared with.

    Instructions that were or are in force are stored where they came, not where they stand in the list.
    """
    in_force = set(past.conversation.instruction_seqs) if past.conversation else set()
    return [
        head
        for head in past.since
        if not (is_instruction(head.role) and (head.hidden or head.seq in in_force))
    ]


def _appended(new: list[int], incoming: Sequence[Incoming], past: Past, leading: Leading | None) -> Plan:
    """A delta follows what stands last, whatever was withdrawn behind it."""
    conversation, stored = past.conversation, past.stored
    newest = stored[-1].seq if stored else 0
    follows = newest if conversation and newest != conversation.next_seq - 1 else None
    branch = Branch(new, follows=follows, run=_turn_of(new, incoming, conversation, stored))
    return Plan(new, conversation, leading=leading, branch=branch)


def _turn_of(
    new: list[int],
    incoming: Sequence[Incoming],
    conversation: Conversation | None,
    stored: Sequence[MessageHead],
) -> RunPosition | None:
    """Where the turn stands that a delta begins."""
    place = next((n for n in range(len(new) - 1, -1, -1) if is_request(incoming[new[n]])), None)
    if place is None:
        return None
    turn = (conversation.next_seq if conversation else 1) + place
    return RunPosition(stored[-1].seq if place == 0 and stored else turn - 1, turn)
