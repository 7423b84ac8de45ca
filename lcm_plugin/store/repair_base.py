"""The repair part of the store seam: what `doctor apply` may change. Each call is a whole by itself.

``refs`` are ids as findings name them (``msg_…``, ``sum_…``). A row that no longer breaks the rule is left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lcm_plugin.store.records import Summary


def message_ids(refs: Sequence[str]) -> list[int]:
    """The row ids of the messages among some refs."""
    return [int(ref.removeprefix("msg_")) for ref in refs if ref.startswith("msg_")]


class RepairWriter(Protocol):
    """Repairs within one write transaction. Each returns how many rows it changed."""

    def drop_dangling_items(self, conversation_id: int, refs: Sequence[str]) -> int:
        """Removes context items whose row is gone or belongs to another conversation."""

    def drop_covered_items(self, conversation_id: int, refs: Sequence[str]) -> int:
        """Removes raw items of messages that a summary covers already."""

    def restore_items(self, conversation_id: int, refs: Sequence[str]) -> int:
        """Puts messages that nothing reaches back into the context, where their place is free."""

    def restore_summary(self, summary: Summary, item_tokens: int) -> int:
        """Puts a summary that nothing reaches back into the context, unless another item covers its stretch."""

    def reorder_items(self, conversation_id: int, refs: Sequence[str]) -> int:
        """Moves context items back to the place of what they point to, where that place is free."""

    def copy_item_tokens(self, conversation_id: int, refs: Sequence[str]) -> int:
        """Gives raw items the token count of their message."""

    def recount(self, conversation_id: int) -> int:
        """Counts the context and the messages of a conversation again."""

    def recount_sources(self, conversation_id: int) -> int:
        """Works out again, from the leaves up, what each summary covers: counts, tokens, seqs and times."""

    def relink(self, conversation_id: int, refs: Sequence[str]) -> int:
        """Links leaves with the uncovered messages of their stretch, where that makes their number whole."""

    def recount_depths(self, conversation_id: int) -> int:
        """Gives condensed summaries whose sources have one depth the depth above it."""

    def free_lease(self, conversation_id: int) -> int:
        """Gives back a compaction lease whose holder is gone, and lets a stuck debt be tried at once."""

    def delete_blob(self, sha256: str) -> int:
        """Deletes bytes inside the database that no file record names."""

    def restore_schema(self) -> int:
        """Makes indexes and views that are missing or differ from this version's schema."""

    def known_digests(self, digests: Sequence[str]) -> list[str]:
        """Which of some SHA-256 digests a file record names."""

    def rebuild_index(self) -> bool:
        """Throws the full-text index away and has it made from the tables, now or by `index_pending`.

        False when pages of the old one could not be freed: then `Store.give_back_space` must follow.
        """

    def rewrite_summary(self, summary: Summary, item_tokens: int) -> None:
        """Replaces a summary's text and what is said of its making; its links and place stay.

        ``item_tokens`` is what it costs in a context from now on.
        """
