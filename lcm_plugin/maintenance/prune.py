"""Retention: plans and carries out removal by age, class of conversation or size.

Only a person can ask for it. A conversation goes as a whole, or with ``keep_summaries`` only its messages' texts: then
rows, links and summaries stay. Conversations in use are left alone, also those that come into use while a plan is
carried out. Texts go in short transactions,
after each of which the database is whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from lcm_plugin.errors import LcmError, StoreError
from lcm_plugin.events import EventBus
from lcm_plugin.files.externalise import PayloadStore
from lcm_plugin.maintenance.selection import LaneKind, Selection, is_chosen, is_worked_on, kind_of
from lcm_plugin.store.protocol import Reader, Store, Writer, iterate_conversations
from lcm_plugin.store.records import Conversation, FileRecord
from lcm_plugin.store.removal import Footprint

_BATCH = 500
_MOST_ROUNDS = 5
# Indexes and free space make a file larger than its texts; an estimate may not run away.
_LARGEST_SHARE = 10.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A conversation that would be pruned.

    ``messages`` lose their texts, of which ``uncovered`` are in no summary; ``bytes`` is about what that frees.
    """

    conversation: Conversation
    kind: LaneKind
    messages: int
    uncovered: int
    summaries: int
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """A plan of removal. ``size_bytes`` is the database and its payloads as they are now.

    ``in_use`` counts conversations that fit but are being worked on.
    """

    candidates: tuple[Candidate, ...]
    keep_summaries: bool
    size_bytes: int
    in_use: int = 0

    @property
    def messages(self) -> int:
        """Messages whose texts would go."""
        return sum(one.messages for one in self.candidates)

    @property
    def bytes(self) -> int:
        """About how many bytes would be freed."""
        return sum(one.bytes for one in self.candidates)


@dataclass(slots=True)
class PruneOutcome:
    """The outcome. ``skipped`` are conversations that came into use; ``problem`` says what went wrong."""

    removal_id: int = 0
    conversations: int = 0
    messages: int = 0
    summaries: int = 0
    files: int = 0
    bytes: int = 0
    skipped: list[int] = field(default_factory=list)
    size_before: int = 0
    size_after: int = 0
    problem: str = ""


class _CameIntoUse(LcmError):
    """The conversation was used or taken up while it was being pruned."""


class Retention:
    """Plans and carries out pruning. Thread-safe."""

    def __init__(
        self, store: Store, payloads: PayloadStore, events: EventBus, clock: Callable[[], int]
    ) -> None:
        self._store = store
        self._payloads = payloads
        self._events = events
        self._clock = clock

    def plan(
        self, selection: Selection, *, keep_summaries: bool = False, max_bytes: int | None = None
    ) -> PrunePlan:
        """The conversations of a selection, longest unused first; with ``max_bytes`` only as many as it takes."""
        now = self._clock()
        candidates, in_use = [], 0
        with self._store.read() as reader:
            size = self._size(reader)
            share = _file_bytes_per_text_byte(reader)
            rows = iterate_conversations(reader)
            chosen = [row for row in rows if is_chosen(row, selection, now)]
            for conversation in sorted(chosen, key=lambda one: (one.updated_at, one.conversation_id)):
                if is_worked_on(reader, conversation.conversation_id, now):
                    in_use += 1
                    continue
                found = _candidate(
                    conversation, reader.footprint(conversation.conversation_id), keep_summaries, share
                )
                if found.messages or not keep_summaries:
                    candidates.append(found)
        if max_bytes is not None:
            candidates = _enough(candidates, size - max_bytes)
        return PrunePlan(tuple(candidates), keep_summaries, size, in_use)

    def apply(
        self, plan: PrunePlan, requested_by: str, *, give_back_space: bool = True, shrink: bool = False
    ) -> PruneOutcome:
        """Removes what a plan lists, one conversation after another.

        With ``shrink`` the space goes back to the system, also where it would be kept for reuse.
        """
        outcome = PruneOutcome(size_before=plan.size_bytes)
        if plan.candidates:
            with self._store.write() as writer:
                outcome.removal_id = writer.begin_removal("prune", requested_by, self._clock())
        for candidate in plan.candidates:
            try:
                self._prune(candidate, plan.keep_summaries, outcome)
            except _CameIntoUse:
                outcome.skipped.append(candidate.conversation.conversation_id)
        if plan.candidates:
            self._events.emit(
                "retention.pruned",
                conversations=outcome.conversations,
                messages=outcome.messages,
                summaries=outcome.summaries,
                files=outcome.files,
                bytes=outcome.bytes,
                keep_summaries=plan.keep_summaries,
            )
        if give_back_space and plan.candidates:
            try:
                self._store.give_back_space(scrub=shrink)
            except StoreError as error:
                outcome.problem = f"the space is not given back yet: {error}"
        with self._store.read() as reader:
            outcome.size_after = self._size(reader)
        return outcome

    def apply_to_size(
        self, selection: Selection, max_bytes: int, requested_by: str, *, keep_summaries: bool = False
    ) -> PruneOutcome:
        """Prunes until database and payloads take no more than ``max_bytes``, or nothing is left to prune.

        Stops when a round has not made them smaller.
        """
        total = PruneOutcome()
        for _ in range(_MOST_ROUNDS):
            plan = self.plan(selection, keep_summaries=keep_summaries, max_bytes=max_bytes)
            total.size_before = total.size_before or plan.size_bytes
            total.size_after = plan.size_bytes
            if not plan.candidates:
                break
            done = self.apply(plan, requested_by, shrink=True)
            _add(total, done)
            stuck = not done.conversations or done.size_after >= done.size_before
            if stuck or done.problem or done.size_after <= max_bytes:
                break
        return total

    def _prune(self, candidate: Candidate, keep_summaries: bool, outcome: PruneOutcome) -> None:
        conversation = candidate.conversation
        messages, named = self._empty(conversation, keep_summaries, outcome)
        with self._store.write() as writer:
            self._check_unused(writer, conversation)
            # An open lane's other messages may name a payload within their text only.
            among = named if keep_summaries and conversation.active else None
            unused = writer.drop_unused_files(conversation.conversation_id, among)
            counts = {"conversations": 1, "messages": messages, "files": len(unused)}
            if keep_summaries:
                writer.rename_files(
                    conversation.conversation_id, dict.fromkeys((f.file_id for f in unused), "")
                )
            else:
                writer.delete_conversation(conversation.conversation_id)
                # Texts may have gone in an earlier attempt; the rows that go now count.
                counts |= {"messages": candidate.messages, "summaries": candidate.summaries}
            writer.add_to_removal(outcome.removal_id, **counts)
        outcome.conversations += 1
        outcome.messages += counts["messages"]
        outcome.summaries += counts.get("summaries", 0)
        outcome.files += len(unused)
        outcome.bytes += self._delete_bytes(unused, outcome.removal_id)

    def _empty(
        self, conversation: Conversation, keep_summaries: bool, outcome: PruneOutcome
    ) -> tuple[int, set[str]]:
        """Removes the texts batch by batch; returns how many messages lost theirs, and the payloads they named."""
        notice = removal_notice(self._clock(), "pruned")
        after: int | None = 0
        emptied = 0
        named: set[str] = set()
        while after is not None:
            with self._store.write() as writer:
                self._check_unused(writer, conversation)
                batch = writer.empty_messages(
                    conversation.conversation_id,
                    outcome.removal_id,
                    notice,
                    after_seq=after,
                    limit=_BATCH,
                    covered_only=keep_summaries and conversation.active,
                )
                writer.add_to_removal(outcome.removal_id, bytes_removed=batch.bytes)
            after = batch.last_seq
            emptied += batch.messages
            outcome.bytes += batch.bytes
            named |= batch.file_ids
        return emptied, named

    def _check_unused(self, writer: Writer, planned: Conversation) -> None:
        now = writer.conversation(planned.conversation_id)
        unchanged = now is not None and (now.updated_at, now.next_seq, now.active) == (
            planned.updated_at,
            planned.next_seq,
            planned.active,
        )
        if not unchanged or is_worked_on(writer, planned.conversation_id, self._clock()):
            raise _CameIntoUse(f"conversation {planned.conversation_id} is in use")

    def _delete_bytes(self, records: Sequence[FileRecord], removal_id: int) -> int:
        """Deletes the bytes of dropped records, unless another record has the same; returns how many."""
        if not records:
            return 0
        with self._store.write() as writer:
            free = writer.unreferenced(records)
            freed = sum(record.byte_size for record in free)
            writer.add_to_removal(removal_id, bytes_removed=freed)
            # Within the transaction: a host that stores the same bytes now waits, and then finds them gone.
            self._payloads.delete_bytes(free)
        return freed

    def _size(self, reader: Reader) -> int:
        return reader.status().size_bytes + self._payloads.folder_bytes()


def removal_notice(now: int, what: str) -> str:
    """The text that replaces a removed one."""
    day = datetime.fromtimestamp(now / 1000, UTC).strftime("%Y-%m-%d")
    return f"[The text of this message was {what} on {day}, as a person asked.]"


def _candidate(
    conversation: Conversation, footprint: Footprint, keep_summaries: bool, share: float
) -> Candidate:
    messages, uncovered, texts = footprint.messages, footprint.uncovered, footprint.message_bytes
    if keep_summaries:
        covered_only = conversation.active
        messages -= footprint.emptied + (footprint.uncovered if covered_only else 0)
        uncovered = 0 if covered_only else min(uncovered, max(0, messages))
        if covered_only and footprint.messages:
            texts = texts * max(0, messages) // footprint.messages
    else:
        texts += footprint.summary_bytes
    return Candidate(
        conversation,
        kind_of(conversation),
        max(0, messages),
        uncovered,
        0 if keep_summaries else footprint.summaries,
        footprint.files,
        int(texts * share) + footprint.file_bytes,
    )


def _file_bytes_per_text_byte(reader: Reader) -> float:
    texts = reader.text_bytes()
    return min(max(1.0, reader.status().size_bytes / texts), _LARGEST_SHARE) if texts else 1.0


def _enough(candidates: Sequence[Candidate], wanted: int) -> list[Candidate]:
    taken: list[Candidate] = []
    for candidate in candidates:
        if wanted <= 0:
            break
        taken.append(candidate)
        wanted -= candidate.bytes
    return taken


def _add(total: PruneOutcome, done: PruneOutcome) -> None:
    total.removal_id = done.removal_id
    for name in ("conversations", "messages", "summaries", "files", "bytes"):
        setattr(total, name, getattr(total, name) + getattr(done, name))
    total.skipped += done.skipped
    total.size_after, total.problem = done.size_after, done.problem
