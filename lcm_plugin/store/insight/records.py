"""What people look at: totals, which conversations changed, and what summaries cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lcm_plugin.store.insight.contexts import SentContext
from lcm_plugin.store.insight.texts import EarlierText
from lcm_plugin.store.records import Conversation, StoreStatus, Summary


@dataclass(frozen=True, slots=True)
class SummaryBill:
    """What summaries of one model and level read and wrote, in tokens, texts that others replaced included.

    ``made_ms`` is how long those took of which that is known, ``newest_at`` when the last summary was made.
    """

    model: str
    level: str
    count: int
    read: int
    written: int
    made_ms: int
    newest_at: int


@dataclass(frozen=True, slots=True)
class Action:
    """What a person did to a conversation through pages: who, when, what about, and how it ended; never any text of it."""

    action_id: str
    conversation_id: int | None
    created_at: int
    requested_by: str
    action: str
    about: str
    outcome: str


class InsightReader(Protocol):
    """Queries for people. None of them reads the texts of messages."""

    def cleared_results(self, conversation_id: int) -> tuple[int, int]:
        """How many cleared results stand in the context, and how many tokens fewer they take."""

    def status(self) -> StoreStatus:
        """Totals of the whole database, without a scan of the messages."""

    def conversations_used_since(self, since: int, *, limit: int) -> list[Conversation]:
        """The conversations that were changed at or after a time, the newest change first."""

    def summary_counts(self, conversation_id: int) -> dict[int, int]:
        """How many summaries a conversation has, by depth."""

    def fallback_causes(self, conversation_id: int) -> dict[str, int]:
        """How many summaries were extracted where a model was to write them, by cause."""

    def summary_bill(self, conversation_id: int | None) -> list[SummaryBill]:
        """What the summaries of a conversation (None: of all) cost, by model and level."""

    def actions(self, conversation_id: int | None, *, limit: int) -> list[Action]:
        """The newest actions on a conversation (None: on any), newest first."""

    def earlier_texts(self, conversation_id: int, summary_id: str | None = None) -> list[EarlierText]:
        """The texts that one summary, or all summaries of a conversation, had before; the oldest of each first."""

    def sent_contexts(
        self, conversation_id: int, *, turn: int | None = None, limit: int
    ) -> list[SentContext]:
        """What the calls of the newest turns were given, newest first; with ``turn`` only of that one."""

    def newest_making_ms(self, *, conversations: int) -> list[int]:
        """How long the contexts on record took to make, in ms, of the conversations that were used last."""

    def last_stored_at(self) -> int | None:
        """When something was stored last in the whole database, in ms; None for never."""


class InsightWriter(InsightReader, Protocol):
    """Changes."""

    def add_action(self, action: Action) -> None:
        """Records what a person did."""

    def change_text(
        self, old: Summary, new: Summary, item_tokens: int, token_change: int, by: str, now: int
    ) -> bool:
        """Gives a summary another text and keeps the old one as an earlier text. False when it is not ``old`` any more.

        ``by`` is the person who did it, empty for a model; the amounts are those of `RemovalWriter.replace_summary`.
        """

    def keep_sent_context(self, context: SentContext, keep: int) -> None:
        """Keeps what a call was given as that of its turn, and forgets all but the newest ``keep`` turns.

        A turn is known by its request; its number is given here, and its calls are counted.
        """
