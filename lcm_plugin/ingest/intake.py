"""A host's messages made ready to be stored: converted, without secrets, without the host's own notes.

No message holds up its neighbours: one that cannot be taken apart goes on as a broken record.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from collections.abc import Set as AnySet
from dataclasses import dataclass, replace
from itertools import compress
from operator import attrgetter
from typing import Any, TypeVar

from lcm_plugin.errors import EngineClosed, StoreError
from lcm_plugin.ingest.host_noise import StandingTexts
from lcm_plugin.ingest.matching import Incoming
from lcm_plugin.ingest.redaction import Redactor
from lcm_plugin.ingest.rows import incoming_of
from lcm_plugin.messages.blocks import Call, calls_of
from lcm_plugin.messages.conversions import Conversions, Grown, ListConversions
from lcm_plugin.messages.convert import NoMessage, broken_record, rough_size, to_message
from lcm_plugin.messages.markup import own_ref
from lcm_plugin.types import Message

# What no single message is to blame for.
NOT_THE_MESSAGE = (StoreError, EngineClosed, MemoryError, OSError)
_T = TypeVar("_T")
_FEW, _SHORT = 32, 65_536


@dataclass(frozen=True, slots=True)
class Taken:
    """A message that can be compared and stored. ``notes`` say what was converted, ``fault`` why it is broken.

    ``ours`` is the id in it when it has the form of a text that we made, ``only_notes``: it holds nothing but a host's.
    """

    message: Message
    item: Incoming
    notes: tuple[str, ...] = ()
    fault: str = ""
    ours: str | None = None
    only_notes: bool = False


@dataclass(slots=True)
class Batch:
    """What a host handed over at once, in order; ``places`` are where it stood in what the host handed over."""

    taken: Grown[Taken]
    places: Sequence[int]

    def put(self, index: int, one: Taken) -> None:
        """Another form of a message takes its place."""
        self.taken = Grown([*self.taken[:index], one, *self.taken[index + 1 :]])

    @property
    def messages(self) -> list[Message]:
        """The messages."""
        return [one.message for one in self.taken]

    @property
    def incoming(self) -> Grown[Incoming]:
        """What is compared of each; nobody may change the list."""
        taken = self.taken
        return Grown(taken.column("item", attrgetter("item")), taken.line, taken.shared)

    @property
    def ours(self) -> dict[int, str]:
        """The ids in messages that have the form of texts that we made, by place."""
        refs = self.taken.column("ours", attrgetter("ours"))
        return {index: refs[index] for index in compress(range(len(refs)), refs)}

    @property
    def is_short(self) -> bool:
        """Whether making rows of all the messages costs less than finding out first which of them are new."""
        return len(self.taken) <= _FEW and rough_size(self.messages) <= _SHORT

    def converted(self, indices: Iterable[int]) -> tuple[str, ...]:
        """What was converted in some of the messages."""
        return tuple(f"{self._place(index)}{note}" for index in indices for note in self.taken[index].notes)

    def broken(self, indices: Iterable[int]) -> tuple[str, ...]:
        """Why some of the messages could not be stored whole."""
        return tuple(
            f"{self._place(index)}: {self.taken[index].fault}" for index in indices if self.taken[index].fault
        )

    def calls(self, ids: AnySet[str]) -> dict[str, Call]:
        """The calls in it with some ids."""
        found: dict[str, Call] = {}
        for one in reversed(self.taken if ids else ()):
            if not ids.isdisjoint(one.item.calls):
                found = {call.id: call for call in calls_of(one.message) if call.id in ids} | found
                if len(found) == len(ids):
                    break
        return found

    def _place(self, index: int) -> str:
        return f"message {self.places[index]}"


class Intake:
    """Takes messages in. Thread-safe."""

    def __init__(self, redactor: Redactor, standing: StandingTexts) -> None:
        self._redactor = redactor
        self._standing = standing
        # For lists: what is handed over once need not be known again.
        self._known = Conversions(self._read)
        self._lists: ListConversions[object, Taken] = ListConversions(exact=True)

    def take(self, messages: Sequence[object], grows: Hashable = None) -> Batch:
        """The messages without those that hold nothing but a host's notes.

        ``grows`` names a list that comes again, longer. Raises `InputError` naming what is no message at all.
        """

        if grows is None:
            found = Grown([self._one(self._read, message, place) for place, message in enumerate(messages)])
        else:
            found = self._lists(grows, messages, lambda place: self._one(self._known, messages[place], place))
        notes = found.column("only_notes", attrgetter("only_notes"))
        if not any(notes):
            return Batch(found, range(len(found)))
        places = [index for index, one in enumerate(found) if not one.only_notes]
        return Batch(Grown([found[index] for index in places]), places)

    def take_ours(self, messages: Sequence[Message]) -> Batch:
        """Messages that come from a store of ours."""
        taken = [Taken(message, incoming_of(message, self._standing)) for message in messages]
        return Batch(Grown(taken), range(len(taken)))

    def storable(self, value: object) -> Message:
        """One message as it may be written to a disk; a broken record for what is none."""
        try:
            return self._one(self._read, value, 0).message
        except NoMessage as error:
            return self._redactor.message(broken_record(value, error))

    def spoil(self, one: Taken, error: Exception) -> Taken:
        """The message as a broken record, which is still the same message when it comes again."""
        broken = self._broken(one.message, error)
        item = replace(broken.item, identity=one.item.identity, host_id=one.item.host_id)
        return replace(broken, item=item, notes=one.notes)

    def _one(self, read: Callable[[object], Taken], value: object, place: int) -> Taken:
        try:
            return read(value)
        except NoMessage as error:
            raise NoMessage(f"message {place}: {error}") from None
        except NOT_THE_MESSAGE:
            raise
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the others are stored
            return self._broken(value, error)

    def _read(self, value: object) -> Taken:
        return with_room_to_recurse(lambda: self._converted(value))

    def _converted(self, value: object) -> Taken:
        message, notes = to_message(value)
        message = self._redactor.message(message)
        return Taken(
            message,
            incoming_of(message, self._standing),
            notes,
            ours=own_ref(message),
            only_notes=self._standing.is_only_notes(message),
        )

    def _broken(self, value: object, error: Exception) -> Taken:
        record = self._redactor.message(broken_record(value, error))
        return Taken(record, incoming_of(record, self._standing), fault=type(error).__name__)


def with_room_to_recurse(work: Callable[[], _T]) -> _T:
    """The result of ``work``, on a thread of its own when the caller's stack is nearly used up."""
    try:
        return work()
    except RecursionError:
        outcome: list[Any] = []

        def run() -> None:
            try:
                outcome.extend((True, work()))
            except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
                outcome.extend((False, error))

        thread = threading.Thread(target=run, name="lcm-stack", daemon=True)
        thread.start()
        thread.join()
    worked, value = outcome
    if worked:
        result: _T = value
        return result
    raise value
