"""Taking the last compaction of a conversation back.

A compaction that is done notes which summaries it made and how the context stood after it. As long as nothing else
changed the context, they can be taken apart again: their sources stand in the context as before, and the summaries
are deleted. New messages do not hinder that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lcm_plugin.compaction.leases import CompactionLease
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.sessions.withdrawal import take_apart
from lcm_plugin.store.protocol import Reader, Store, Writer
from lcm_plugin.store.records import Conversation
from lcm_plugin.store.retry import retry_lost
from lcm_plugin.types import CompactionUndo, Reason

NEVER = "no compaction of this conversation is known that could be undone"
TOO_LATE = (
    "it is too late: the context was compacted again, pruned, reset or edited since the last compaction; "
    "its words can still be read with lcm_expand"
)
RUNNING = "the conversation is being compacted right now; try again when that is done"


@dataclass(frozen=True, slots=True)
class LastCompaction:
    """Notes compactions and takes the last one of a conversation back. Thread-safe."""

    store: Store
    counter: TokenCounter
    zone: str
    clock: Callable[[], int]

    def note(self, conversation_id: int, summary_ids: Sequence[str]) -> None:
        """Keeps what a compaction made; a later one takes its place."""
        with self.store.write() as writer:
            conversation = writer.conversation(conversation_id)
            if conversation is not None:
                state = {"summaries": list(summary_ids), "revision": conversation.revision}
                writer.save_guard(_key(conversation_id), state)

    def carry(self, writer: Writer, conversation_id: int, revision: int) -> None:
        """Lets the last compaction be undone although results were cleared since, at this revision."""
        noted, conversation = writer.guard(_key(conversation_id)), writer.conversation(conversation_id)
        if noted is not None and conversation is not None and noted["revision"] == revision:
            writer.save_guard(_key(conversation_id), {**noted, "revision": conversation.revision})

    def undoable(self, reader: Reader, conversation_id: int) -> bool:
        """Whether `undo` would bring something back."""
        return not self._refusal(reader, conversation_id)

    def undo(self, conversation: Conversation) -> CompactionUndo:
        """Brings the sources of the last compaction's summaries back, or says why it cannot.

        The verdict that is left keeps compaction from redoing it before a limit of the settings asks for it.
        """
        conversation_id, tokens = conversation.conversation_id, conversation.context_tokens
        with self.store.read() as reader:
            refusal, debt = self._refusal(reader, conversation_id), reader.debt(conversation_id)
        if refusal:
            return CompactionUndo(0, tokens, tokens, refusal)
        lease = CompactionLease.of(self.store, conversation_id, self.clock)
        if lease is None:
            return CompactionUndo(0, tokens, tokens, RUNNING)
        with lease:
            result = retry_lost(lambda: self._take_apart(conversation_id))
            if result.refusal:
                owed = debt is not None and debt.state != "done"
                lease.settle("pending" if owed else "done", reason=debt.reason if debt else "")
            else:
                lease.settle("done", reason=str(Reason.UNDONE))
        return result

    def _refusal(self, reader: Reader, conversation_id: int) -> str:
        """Why nothing can be undone; empty when something can."""
        conversation, noted = reader.conversation(conversation_id), reader.guard(_key(conversation_id))
        if conversation is None or noted is None or not noted["summaries"]:
            return NEVER
        return "" if noted["revision"] == conversation.revision else TOO_LATE

    def _take_apart(self, conversation_id: int) -> CompactionUndo:
        with self.store.write() as writer:
            tokens = _tokens(writer, conversation_id)
            if refusal := self._refusal(writer, conversation_id):
                return CompactionUndo(0, tokens, tokens, refusal)
            noted = writer.guard(_key(conversation_id)) or {}
            made = frozenset(noted["summaries"])
            take_apart(writer, conversation_id, made, self.counter, self.zone, self.clock())
            writer.save_guard(_key(conversation_id), {"summaries": [], "revision": -1})
            return CompactionUndo(len(made), tokens, _tokens(writer, conversation_id))


def _tokens(reader: Reader, conversation_id: int) -> int:
    conversation = reader.conversation(conversation_id)
    return conversation.context_tokens if conversation else 0


def _key(conversation_id: int) -> str:
    return f"compaction:{conversation_id}"
