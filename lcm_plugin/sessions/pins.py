"""Pins: texts that stand word for word in every context of a session, after ``/new`` too, until ``/reset``."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lcm_plugin.characters import storable
from lcm_plugin.config import LcmConfig
from lcm_plugin.errors import InputError, NotFound
from lcm_plugin.events import EventBus
from lcm_plugin.ingest.redaction import Redactor
from lcm_plugin.messages.markup import pin_block
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.recall.scope import family
from lcm_plugin.sessions.access import Access
from lcm_plugin.sessions.conversations import SessionDirectory
from lcm_plugin.sessions.kinds import find_conversation, open_conversation
from lcm_plugin.store.protocol import Reader, Store
from lcm_plugin.store.records import Conversation
from lcm_plugin.store.retry import retry_lost
from lcm_plugin.store.session_keys import is_cron
from lcm_plugin.types import Pin, Session

_ID = re.compile(r"(?:pin_)?([0-9a-f]{8})|(msg_\d{1,18})", re.ASCII)
_MESSAGE = re.compile(r"msg_(\d{1,18})", re.ASCII)
_SHOWN_CHARACTERS = 40
ALL = "all"


@dataclass(frozen=True, slots=True)
class PinBoard:
    """The pins of a session, oldest first, and how many tokens they may take together."""

    pins: tuple[Pin, ...]
    allowed: int

    @property
    def used(self) -> int:
        """Tokens that they take."""
        return sum(pin.tokens for pin in self.pins)


def pins_of(reader: Reader, conversation: Conversation) -> tuple[Pin, ...]:
    """The pins that stand in a conversation's contexts: those made since the session's last reset.

    A run of a cron lane has only its own.
    """
    if is_cron(conversation.session_key):
        return tuple(reader.pins_of(conversation.conversation_id))
    return tuple(reader.pins(conversation.session_key))


class Pins:
    """Adds, lists and removes pins. Thread-safe.

    ``room`` gives the tokens that the newest known model call of a conversation has beside its overhead.
    """

    def __init__(
        self,
        config: LcmConfig,
        store: Store,
        directory: SessionDirectory,
        counter: TokenCounter,
        room: Callable[[Reader, Conversation | None], int],
        events: EventBus,
        clock: Callable[[], int],
    ) -> None:
        self._most = config.standing_tokens
        self._redactor = Redactor(config.redact_patterns)
        self._store = store
        self._directory = directory
        self._counter = counter
        self._room = room
        self._events = events
        self._clock = clock

    def board(self, session: Session) -> PinBoard:
        """The session's pins; none for a session that is ignored."""
        if self._directory.access(session) is Access.NONE:
            return PinBoard((), 0)
        keyed = self._directory.keyed(session)
        with self._store.read() as reader:
            return self._board(reader, keyed)

    def pin(self, session: Session, what: str, by: str = "user") -> Pin:
        """Pins a text, or the words of a message given as ``msg_…``; what is pinned already stays as it is.

        Raises `InputError` when there is no room for it, naming what to unpin, and for a session that may not be
        written to; `NotFound` for a message that is not in the session's history.
        """
        self._check_writable(session)
        keyed, now = self._directory.keyed(session), self._clock()

        def add() -> tuple[Pin, bool]:
            with self._store.write() as writer:
                pin = self._made(writer, keyed, what, by, now)
                board = self._board(writer, keyed)
                known = next((one for one in board.pins if one.pin_id == pin.pin_id), None)
                if known is not None:
                    return known, False
                _check_room(board, pin)
                conversation = open_conversation(writer, keyed, now)
                added = replace(pin, conversation_id=conversation.conversation_id)
                writer.add_pin(added)
                return added, True

        pin, is_new = retry_lost(add, idempotent=True)
        if is_new:
            self._tell("pin.added", keyed, pin)
        return pin

    def unpin(self, session: Session, names: Sequence[str], by: str = "user") -> list[Pin]:
        """Removes pins by their ids, by the ids of pinned messages, or ``all``, and returns them.

        An agent can remove only what an agent pinned. Raises `NotFound` for what is not pinned; then all stay.
        """
        self._check_writable(session)
        keyed = self._directory.keyed(session)

        def remove() -> list[Pin]:
            with self._store.write() as writer:
                pins = [pin for pin in self._board(writer, keyed).pins if by == "user" or pin.pinned_by == by]
                found = _named(pins, names)
                writer.remove_pins(found)
                return found

        removed = retry_lost(remove)
        for pin in removed:
            self._tell("pin.removed", keyed, pin)
        return removed

    def _check_writable(self, session: Session) -> None:
        if not session.key and not session.id:
            raise InputError("a session needs a key or an id")
        access = self._directory.access(session)
        if access is not Access.FULL:
            raise InputError(
                f"the session is {access}: nothing of it may be written, so nothing can be pinned"
            )

    def _board(self, reader: Reader, session: Session) -> PinBoard:
        conversation = find_conversation(reader, session)
        if conversation is not None:
            pins = pins_of(reader, conversation)
        else:
            pins = () if is_cron(session.key) else tuple(reader.pins(session.key))
        used = sum(pin.tokens for pin in pins)
        return PinBoard(pins, self._most(self._room(reader, conversation) + used))

    def _made(self, reader: Reader, session: Session, what: str, by: str, now: int) -> Pin:
        """The pin, of no conversation yet."""
        named = _MESSAGE.fullmatch(what.strip())
        number = int(named.group(1)) if named else None
        text, speaker = (self._redactor.text(what.strip()), "")
        if number is not None:
            text, speaker = _words_of(reader, session, number)
        text = storable(text)
        if not text.strip():
            raise InputError("there are no words to pin")
        seed = f"{number if number is not None else ''}:{text}"
        pin_id = f"pin_{hashlib.sha256(seed.encode()).hexdigest()[:8]}"
        pin = Pin(pin_id, 0, text, 0, now, by, number, storable(speaker))
        return replace(pin, tokens=pin_tokens(pin, self._counter))

    def _tell(self, event: str, session: Session, pin: Pin) -> None:
        self._events.emit(
            event,
            conversation_id=pin.conversation_id,
            session_key=session.key,
            session_id=session.id,
            pin_id=pin.pin_id,
            tokens=pin.tokens,
            pinned_by=pin.pinned_by,
        )


def pin_tokens(pin: Pin, counter: TokenCounter) -> int:
    """What a pin costs in a context."""
    return counter.message({"role": "user", "content": pin_block(pin)})


def _check_room(board: PinBoard, pin: Pin) -> None:
    free = board.allowed - board.used
    if pin.tokens <= free:
        return
    limit = (
        f"pins may take {board.allowed:,} tokens (standingMaxTokens, at most a tenth of the context's room)"
    )
    if pin.tokens > board.allowed:
        raise InputError(f"this takes {pin.tokens:,} tokens, and {limit}")
    held = "; ".join(
        f"{one.pin_id}, {one.tokens:,} tokens: {' '.join(one.text.split())[:_SHOWN_CHARACTERS]!r}"
        for one in board.pins
    )
    raise InputError(
        f"this takes {pin.tokens:,} tokens, and {limit}, of which {max(free, 0):,} are free; unpin some first: {held}"
    )


def _named(pins: Sequence[Pin], names: Sequence[str]) -> list[Pin]:
    if [name.lower() for name in names] == [ALL]:
        return list(pins)
    found: dict[tuple[int, str], Pin] = {}
    for name in names:
        match = _ID.fullmatch(name.strip())
        wanted = f"pin_{match.group(1)}" if match and match.group(1) else name.strip()
        same = [pin for pin in pins if wanted in (pin.pin_id, pin.source)]
        if not same:
            raise NotFound(f"there is no pin {name.strip()[:_SHOWN_CHARACTERS]!r} that can be removed here")
        found.update({(pin.conversation_id, pin.pin_id): pin for pin in same})
    return list(found.values())


def _words_of(reader: Reader, session: Session, message_id: int) -> tuple[str, str]:
    """A message's words and who said them; `NotFound` outside of the session's history."""
    row = reader.search_rows("message", [message_id]).get(message_id)
    if row is None or row.conversation_id not in {one.conversation_id for one in family(reader, session)}:
        raise NotFound(f"msg_{message_id} was not found in this session's history")
    return row.text, row.sender or row.role
