"""What a database derives from texts for searches, as far as those who change texts must know of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from lcm_plugin.store.tables.vectors import VectorTable


class DerivedIndexes(VectorTable):
    """The upkeep of indexes that the database does not keep by itself."""

    @abstractmethod
    def unindex_messages(self, message_ids: Sequence[int]) -> None:
        """Takes messages and their vectors out; call it before their texts change or their rows go."""

    @abstractmethod
    def reindex_messages(self, message_ids: Sequence[int]) -> None:
        """Puts messages back with the texts they have now."""

    @abstractmethod
    def unindex_summaries(self, summary_ids: Sequence[str]) -> None:
        """Takes summaries out; call it before their texts change or their rows go."""

    @abstractmethod
    def reindex_summaries(self, summary_ids: Sequence[str]) -> None:
        """Puts summaries back with the texts they have now."""

    @abstractmethod
    def unindex_conversation(self, conversation_id: int) -> None:
        """Takes all of a conversation out that does not go with its rows."""
