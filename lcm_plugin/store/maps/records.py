"""A map: one prompt over many items, each with an answer of its own; its rows, and what a store does with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

MapState = Literal["running", "stopped", "done"]
ItemState = Literal["open", "running", "done", "failed"]


@dataclass(frozen=True, slots=True)
class MapRecord:
    """A map and its sums. ``answer_schema`` and ``options`` are JSON; ``cost`` is millionths of a dollar.

    ``source`` says in words where the items came from, ``reason`` why a stopped one was stopped.
    """

    map_id: str
    conversation_id: int
    prompt: str
    answer_schema: str
    model: str
    options: str
    source: str
    created_at: int
    state: MapState = "running"
    reason: str = ""
    updated_at: int = 0
    items: int = 0
    done: int = 0
    failed: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: int = 0

    @property
    def left(self) -> int:
        """Items that have no answer yet and did not fail."""
        return self.items - self.done - self.failed

    @property
    def spent(self) -> int:
        """Tokens of all calls, prompts and answers."""
        return self.tokens_in + self.tokens_out


@dataclass(frozen=True, slots=True)
class NewItem:
    """An item as it is added. ``item_key`` is equal where item, prompt, schema and model are."""

    ref: str
    content: str
    item_key: str
    tokens: int


@dataclass(frozen=True, slots=True)
class MapItem:
    """One item; ``place`` counts from 1. ``answer`` is JSON once its state is ``done``."""

    map_id: str
    place: int
    ref: str
    content: str
    item_key: str
    tokens: int
    state: ItemState
    answer: str | None
    error: str
    attempts: int
    tokens_in: int
    tokens_out: int
    cost: int
    model: str


@dataclass(frozen=True, slots=True)
class Settlement:
    """What came of one attempt at an item: its new state, and what the attempt alone cost."""

    place: int
    state: ItemState
    answer: str | None = None
    error: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    cost: int = 0
    model: str = ""
    counts: bool = True

    @property
    def attempts(self) -> int:
        """1 for an attempt that counts, 0 for one that the provider only put off."""
        return int(self.counts)


class MapReader(Protocol):
    """Queries of maps."""

    def map(self, map_id: str) -> MapRecord | None:
        """A map with its sums."""

    def maps(self, conversation_ids: Sequence[int] | None, *, limit: int = 50) -> list[MapRecord]:
        """The maps of some conversations, or of all with None, newest first."""

    def running_maps(self, *, limit: int = 16) -> list[MapRecord]:
        """The maps that are to be worked on, oldest first."""

    def map_items(
        self, map_id: str, *, after: int = 0, limit: int, state: ItemState | None = None
    ) -> list[MapItem]:
        """Items behind a place, in order; with ``state`` only those in it."""

    def map_holders(self, map_id: str) -> list[str]:
        """Who holds items of a map now."""


class MapWriter(Protocol):
    """Changes of maps."""

    def add_map(self, record: MapRecord) -> None:
        """Stores a map without items."""

    def add_map_items(self, record: MapRecord, after: int, items: Sequence[NewItem]) -> None:
        """Appends items behind a place, with the answer of an equal item where there is one already."""

    def claim_map_items(self, map_id: str, owner: str, now: int, lease_ms: int, limit: int) -> list[MapItem]:
        """Takes up to so many items that are open, or whose lease ran out."""

    def release_map_items(self, map_id: str, owner: str) -> int:
        """Opens the items again that somebody holds."""

    def settle_map_items(self, map_id: str, settled: Sequence[Settlement], now: int) -> None:
        """Stores outcomes and adds them to the map's sums. An item that is done stays as it is."""

    def reopen_failed_items(self, map_id: str) -> int:
        """Opens the items again that failed."""

    def set_map_state(self, map_id: str, state: MapState, reason: str, options: str, now: int) -> None:
        """Starts, stops or ends a map."""

    def remove_map(self, map_id: str) -> None:
        """Deletes a map with its items."""

    def replace_map_text(self, record: MapRecord) -> None:
        """Gives a map another prompt, schema and source."""

    def replace_map_item(self, item: MapItem) -> None:
        """Gives an item another content, answer and error."""
