"""The removal part of the store seam: what retention and redaction read and change.

Stored texts are kept for ever unless a person has them removed. Each such act is a row of ``removals``: who,
when, how much, never what. A message whose text was removed keeps its row, its place and its links, so that
summaries still know what they were made of and a host that repeats it is recognised.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from lcm_plugin.store.insight.texts import EarlierText
from lcm_plugin.store.records import FileRecord, MessageHead, NewMessage, Summary

RemovalKind = Literal["prune", "redact"]


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a conversation takes.

    ``uncovered`` counts messages that no summary covers, ``emptied`` those whose texts were removed before.
    """

    messages: int
    uncovered: int
    emptied: int
    summaries: int
    files: int
    message_bytes: int
    summary_bytes: int
    file_bytes: int


@dataclass(frozen=True, slots=True)
class Removal:
    """One act of removing, as it is recorded for ever."""

    removal_id: int
    kind: RemovalKind
    created_at: int
    requested_by: str
    conversations: int = 0
    messages: int = 0
    summaries: int = 0
    files: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Emptied:
    """One batch of messages whose texts were removed; ``last_seq`` is where the next batch begins.

    ``last_seq`` is None when there was no further message. ``file_ids`` are the payloads they referred to.
    """

    messages: int
    bytes: int
    last_seq: int | None
    file_ids: frozenset[str] = frozenset()


class RemovalReader(Protocol):
    """Queries of retention and redaction."""

    def footprint(self, conversation_id: int) -> Footprint:
        """What a conversation takes; costs one pass over its rows."""

    def text_bytes(self) -> int:
        """Bytes of all stored texts; costs one pass over them."""

    def removals(self, *, limit: int = 100) -> list[Removal]:
        """What was removed, newest first."""

    def removed_below(self, summary_id: str) -> int:
        """How many of the messages below a summary have no text any more."""

    def former_identities(self, conversation_ids: Sequence[int]) -> dict[int, int]:
        """The identities that redacted messages had, and those they have now."""


class RemovalWriter(Protocol):
    """Changes of retention and redaction within one write transaction."""

    def begin_removal(self, kind: RemovalKind, requested_by: str, now: int) -> int:
        """Records that somebody removes something and returns the record's id."""

    def add_to_removal(
        self,
        removal_id: int,
        *,
        conversations: int = 0,
        messages: int = 0,
        summaries: int = 0,
        files: int = 0,
        bytes_removed: int = 0,
    ) -> None:
        """Adds to a record's counts."""

    def empty_messages(
        self,
        conversation_id: int,
        removal_id: int,
        notice: str,
        *,
        after_seq: int = 0,
        limit: int = 500,
        covered_only: bool = False,
    ) -> Emptied:
        """Removes the texts of a conversation's next messages; ``notice`` stands in their place.

        Their rows, identities, token counts and links stay. Those that no summary covers are hidden from then
        on, or left alone with ``covered_only``. Nothing else of the conversation changes.
        """

    def delete_conversation(self, conversation_id: int) -> None:
        """Deletes a conversation with all that belongs to it but payload records that others refer to."""

    def drop_unused_files(
        self, conversation_id: int, among: Collection[str] | None = None
    ) -> list[FileRecord]:
        """Deletes the payload records of a conversation that no message refers to, of all or among some ids."""

    def unreferenced(self, records: Sequence[FileRecord]) -> list[FileRecord]:
        """Those of deleted records whose bytes no other record needs; blobs are deleted here.

        Until the transaction ends no new record can come to need them.
        """

    def replace_message(self, message_id: int, message: NewMessage, removal_id: int) -> None:
        """Gives a message another content, identity and token count; its former identity is remembered.

        Its id, place, time, group, calls and links stay; the sums of the summaries above follow, and so does
        the conversation's revision, so that no summary of the former text is published. A message whose text was
        removed as a whole stays as it is.
        """

    def recount_message(self, head: MessageHead, tokens: int) -> None:
        """Gives a message another token count, unless it has another one than ``head`` by now.

        The sums of the summaries above, the context and the conversation's revision follow.
        """

    def replace_summary(self, summary: Summary, item_tokens: int, token_change: int) -> None:
        """Gives a summary another text, token count, and account of its making; the former text is not kept.

        ``item_tokens`` is what it costs in a context from now on, ``token_change`` how much more than before;
        the sums of those derived from it follow.
        """

    def replace_earlier_text(self, text: EarlierText) -> None:
        """Gives an earlier text of a summary other words and another token count."""

    def rename_files(self, conversation_id: int, names: Mapping[str, str]) -> None:
        """Puts other payload ids in the place of old ones in what summaries list; an empty one takes them out."""

    def replace_file(self, record: FileRecord) -> None:
        """Gives a payload's record other bytes and other words about them; id, owner and type stay."""

    def scrub_debt(self, conversation_id: int) -> None:
        """Forgets the last error's text of a conversation's compaction."""
