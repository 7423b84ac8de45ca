"""The repair part of the store seam: what `doctor apply` may change. Each call is a whole by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lcm_plugin.store.records import Summary


class RepairWriter(Protocol):
    """Repairs within one write transaction. Each returns how many rows it changed."""

    def drop_dangling_items(self, conversation_id: int) -> int:
        """Removes context items whose row is gone or belongs to another conversation."""

    def drop_covered_items(self, conversation_id: int) -> int:
        """Removes raw items of messages that a summary covers already."""

    def restore_items(self, conversation_id: int) -> int:
        """Puts messages that nothing reaches back into the context, where their place is free."""

    def copy_item_tokens(self, conversation_id: int) -> int:
        """Gives every raw item the token count of its message."""

    def recount(self, conversation_id: int) -> int:
        """Counts the context and the messages of a conversation again."""

    def recount_sources(self, conversation_id: int) -> int:
        """Counts again, from the leaves up, how many messages and nodes each summary covers."""

    def free_lease(self, conversation_id: int) -> int:
        """Gives back a compaction lease whose holder is gone."""

    def rewrite_summary(self, summary: Summary, item_tokens: int) -> None:
        """Replaces a summary's text and what is said of its making; its links and place stay.

        ``item_tokens`` is what it costs in a context from now on.
        """

    def summaries_to_rewrite(self, conversation_id: int) -> Sequence[str]:
        """Summaries that a model failed to write, and all that were made from them, sources first."""
