"""Pinned texts: what stands word for word in every context of a session, until it is unpinned or reset."""

from __future__ import annotations

from collections.abc import Sequence

from lcm_plugin.store.tables.conversations import SINCE_RESET
from lcm_plugin.store.transaction import Transaction
from lcm_plugin.types import Pin

# Types that both databases know.
PINS_SCHEMA = """
CREATE TABLE pins (
    conversation_id bigint NOT NULL REFERENCES conversations ON DELETE CASCADE,
    pin_id text NOT NULL,
    text text NOT NULL,
    tokens integer NOT NULL,
    created_at bigint NOT NULL,
    pinned_by text NOT NULL,
    message_id bigint,
    speaker text NOT NULL DEFAULT '',
    PRIMARY KEY (conversation_id, pin_id)
);
ALTER TABLE conversations ADD COLUMN plan_id bigint;
"""
_COLUMNS = "pin_id, conversation_id, text, tokens, created_at, pinned_by, message_id, speaker"
_FAMILY = f"SELECT conversation_id FROM conversations WHERE {SINCE_RESET}"


class PinTable(Transaction):
    """Reads and changes of pins."""

    def pins(self, session_key: str) -> list[Pin]:
        rows = self.all(
            f"SELECT {_COLUMNS} FROM pins WHERE conversation_id IN ({_FAMILY}) ORDER BY created_at, pin_id",
            key=session_key,
        )
        return [Pin(*row) for row in rows]

    def pins_of(self, conversation_id: int) -> list[Pin]:
        rows = self.all(
            f"SELECT {_COLUMNS} FROM pins WHERE conversation_id = :here ORDER BY created_at, pin_id",
            here=conversation_id,
        )
        return [Pin(*row) for row in rows]

    def add_pin(self, pin: Pin) -> None:
        self.run(
            f"INSERT INTO pins ({_COLUMNS}) VALUES (:pin, :here, :text, :tokens, :at, :by, :message, :speaker) "
            "ON CONFLICT DO NOTHING",
            pin=pin.pin_id,
            here=pin.conversation_id,
            text=pin.text,
            tokens=pin.tokens,
            at=pin.created_at,
            by=pin.pinned_by,
            message=pin.message_id,
            speaker=pin.speaker,
        )

    def remove_pins(self, pins: Sequence[Pin]) -> None:
        self.run_many(
            "DELETE FROM pins WHERE conversation_id = :here AND pin_id = :pin",
            [{"here": pin.conversation_id, "pin": pin.pin_id} for pin in pins],
        )

    def replace_pin(self, pin: Pin) -> None:
        self.run(
            "UPDATE pins SET text = :text, tokens = :tokens, speaker = :speaker "
            "WHERE conversation_id = :here AND pin_id = :pin",
            text=pin.text,
            tokens=pin.tokens,
            speaker=pin.speaker,
            here=pin.conversation_id,
            pin=pin.pin_id,
        )

    def hand_over_pins(self, conversation_id: int) -> None:
        """Gives the pins of a conversation that is about to be deleted to the active one of its family, if any."""
        row = self.one(
            "SELECT session_key FROM conversations WHERE conversation_id = :here", here=conversation_id
        )
        heir = row and self.one(
            f"SELECT conversation_id FROM conversations WHERE active AND session_key = :key AND conversation_id <> :here "
            f"AND :here IN ({_FAMILY})",
            key=row[0],
            here=conversation_id,
        )
        if heir:
            self.run(
                "UPDATE pins SET conversation_id = :heir WHERE conversation_id = :here AND pin_id NOT IN "
                "(SELECT pin_id FROM pins WHERE conversation_id = :heir)",
                heir=heir[0],
                here=conversation_id,
            )
