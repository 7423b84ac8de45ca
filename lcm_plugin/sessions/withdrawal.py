"""Messages that a host took back.

Their rows stay, can be found, and are marked; contexts and later summaries leave them out. A summary that covers
one of them says what was taken back, so it is taken apart, with all that was made from it: what else it covered
stands raw again and is compacted anew. The same happens when a message comes back.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lcm_plugin.messages.markup import summary_tokens
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.store.protocol import Reader, Writer
from lcm_plugin.store.records import Item, MessageHead, Reopening


@dataclass(frozen=True, slots=True)
class Withdrawals:
    """Withdraws messages and brings them back, within a transaction of the caller's."""

    counter: TokenCounter
    zone: str

    def withdraw(
        self, writer: Writer, conversation_id: int, heads: Sequence[MessageHead], now: int
    ) -> list[int]:
        """Takes the messages out that were not taken back yet, and returns their ids."""
        ids = [head.message_id for head in heads if head.withdrawn_at is None]
        if ids:
            # No summary says what a hidden message holds.
            shown = [head.message_id for head in heads if not head.hidden]
            self._reopen(writer, conversation_id, shown, now)
            writer.withdraw(conversation_id, ids, now)
        return ids

    def bring_back(
        self, writer: Writer, conversation_id: int, heads: Sequence[MessageHead], now: int
    ) -> list[int]:
        """Brings those back that were withdrawn, and returns their ids."""
        ids = [head.message_id for head in heads if head.withdrawn_at is not None]
        if ids:
            self._reopen(writer, conversation_id, ids, now)
            writer.bring_back(conversation_id, ids, now)
        return ids

    def take_place(
        self, writer: Writer, conversation_id: int, message_id: int, old: MessageHead, now: int
    ) -> None:
        """Puts another version of a message at its place, and takes the old one back."""
        self._reopen(writer, conversation_id, [old.message_id, message_id], now)
        writer.take_place(conversation_id, message_id, old.message_id, now)

    def insert_before(
        self,
        writer: Writer,
        conversation_id: int,
        message_ids: Sequence[int],
        follower: MessageHead,
        now: int,
    ) -> None:
        """Moves the newest messages to the place before an earlier one."""
        self._reopen(writer, conversation_id, [follower.message_id], now)
        writer.insert_before(conversation_id, message_ids, follower.message_id)

    def _reopen(self, writer: Writer, conversation_id: int, message_ids: Sequence[int], now: int) -> None:
        reopened: set[str] = set()
        for leaf in sorted(set(writer.covering_leaf(message_ids).values())):
            family = _derived(writer, leaf)
            # What `/new` took out of the context stands in a snapshot and stays as it is.
            if reopened.isdisjoint(family) and not _stands(writer, conversation_id, family[-1]):
                continue
            reopened.update(family)
        if reopened:
            take_apart(writer, conversation_id, reopened, self.counter, self.zone, now)


def take_apart(
    writer: Writer,
    conversation_id: int,
    summary_ids: Collection[str],
    counter: TokenCounter,
    zone: str,
    now: int,
) -> None:
    """Deletes summaries and puts what they were made from back into the context.

    Whatever was made from one of them must be among them.
    """
    sources = writer.sources_of(sorted(summary_ids))
    below = [
        ref for refs in sources.values() for ref in refs if ref.startswith("sum_") and ref not in summary_ids
    ]
    found, made_of = writer.summaries(below), writer.sources_of(below)
    kept = tuple(
        (ref, one.first_seq, summary_tokens(one, made_of.get(ref, ()), zone, counter))
        for ref, one in found.items()
    )
    writer.reopen(conversation_id, Reopening(tuple(sorted(summary_ids)), kept), now)


def _derived(reader: Reader, summary_id: str) -> list[str]:
    """A summary and all that was made from it, step by step; the last one is what a context holds."""
    family = [summary_id]
    while above := reader.derived_from(family[-1]):
        family.append(above[0])
    return family


def _stands(reader: Reader, conversation_id: int, summary_id: str) -> bool:
    """Whether a context holds a summary."""
    first = reader.summaries([summary_id])[summary_id].first_seq
    items: Sequence[Item] = reader.summary_items(conversation_id, after=first - 1, limit=1)
    return bool(items) and items[0].summary_id == summary_id
