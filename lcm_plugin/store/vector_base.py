"""The vector part of the store seam: what a model made of messages, for search by meaning.

All of it is derived. The tables come into being with the first vector, hold the vectors of one model only, and can
be thrown away at any time. A message's vectors are one byte string, which only the embedder can read; it is empty
for a message without text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol


class VectorReader(Protocol):
    """Queries. A database without vectors answers like an empty one."""

    def vector_model(self) -> str | None:
        """The name of the model whose vectors are stored; None when there are none."""

    def vectors(self, message_ids: Sequence[int]) -> dict[int, bytes]:
        """The vectors of messages by id; those that have none yet are left out."""

    def vectors_within(self, conversation_ids: Sequence[int] | None) -> Iterator[list[tuple[int, bytes]]]:
        """All vectors of some conversations, streamed in batches; of all with None."""

    def messages_without_vectors(self, model: str, limit: int) -> list[int]:
        """The oldest messages that this model has not seen, in order."""


class VectorWriter(Protocol):
    """Changes."""

    def store_vectors(self, model: str, vectors: Mapping[int, bytes]) -> None:
        """Stores what `messages_without_vectors` named; those of another model are thrown away first."""

    def forget_vectors(self, message_ids: Sequence[int]) -> None:
        """Throws vectors away; call it before texts change. The messages are then without vectors again."""
