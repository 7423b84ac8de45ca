"""A session's live items in the core's record, from the newest back.

The record is append-only. Taking back an item withdraws its message from the context and keeps its row; the
items that stood before it in the same message go on in a new row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lcm_plugin.hosts.openai_agents.items import Item, StoredItems, assistant_message, stored_items
from lcm_plugin.hosts.openai_agents.shown import shown_items
from lcm_plugin.messages.blocks import is_instruction
from lcm_plugin.messages.presentable import presentable
from lcm_plugin.types import Message, Session

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine

_PAGE = 64


@dataclass(frozen=True, slots=True)
class LiveRow:
    """A stored message that still counts, and its items that do: a copy of earlier reasoning does not."""

    message_id: int
    message: Message
    stored: StoredItems
    shows_nothing: bool

    @property
    def items(self) -> tuple[Item, ...]:
        """The items, in order."""
        return self.stored.items if self.stored.rest else self.stored.items[self.stored.copied :]


def live_rows(engine: Engine, session: Session) -> Iterator[LiveRow]:
    """The messages that count, newest first, read in pages."""
    before: int | None = None
    while page := engine.record.newest(session, _PAGE, before_seq=before, standing=True):
        for row in reversed(page):
            message = engine.record.whole(row)
            shows_nothing = presentable(message) is None
            # Instructions that later ones replaced are hidden, and are items of the session all the same.
            if shows_nothing or not row.head.hidden or is_instruction(row.head.role):
                yield LiveRow(row.head.message_id, message, _stored(message), shows_nothing)
        before = page[0].head.seq


def newest_items(engine: Engine, session: Session, limit: int | None) -> list[Item]:
    """The newest items as they came in, oldest first; all of them without a limit."""
    found: list[Item] = []
    for row in live_rows(engine, session):
        if limit is not None and len(found) >= limit:
            break
        found += reversed(row.items)
    found = found if limit is None else found[:limit]
    return found[::-1]


def take_back(engine: Engine, session: Session) -> Item | None:
    """Takes the newest item back and returns it; None when there is none."""
    for row in live_rows(engine, session):
        if not row.items:
            continue
        *rest, last = row.items
        engine.record.withdraw(session, [row.message_id])
        if rest:
            engine.ingest(session, [assistant_message(rest, copied=len(rest), rest=True)], "all")
        return last
    return None


def record_items(engine: Engine, session: Session) -> list[Item]:
    """Every item that was ever added to the conversation, also those taken back, in order."""
    return [
        item
        for message in engine.messages(session)
        for stored in (_stored(message),)
        for item in stored.items[stored.copied :]
    ]


def _stored(message: Message) -> StoredItems:
    """A message's items; of one that another host wrote, as a model would be shown it."""
    return stored_items(message) or StoredItems(tuple(shown_items([message])))
