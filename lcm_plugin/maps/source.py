"""What a map is made over, as it is asked for, and the items that this stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from lcm_plugin.config import LcmConfig
from lcm_plugin.errors import InputError
from lcm_plugin.files.externalise import PayloadStore
from lcm_plugin.maps.items import Item, ItemReader
from lcm_plugin.maps.splitting import Split
from lcm_plugin.recall.grep import senders_named
from lcm_plugin.recall.scope import Scope, unanswered_request
from lcm_plugin.recall.service import Recall
from lcm_plugin.recall.times import parse_time
from lcm_plugin.sessions.kinds import find_conversation
from lcm_plugin.store.maps.records import MapRecord
from lcm_plugin.store.protocol import Reader, Store
from lcm_plugin.store.search import Filter
from lcm_plugin.types import Session

_PAGE = 200


@dataclass(frozen=True, slots=True)
class MapSource:
    """Items of a map: ``items`` as they are, what ``ids`` name, else all messages that fit the other fields.

    ``items`` are (place, text) pairs. ``since`` and ``before`` are times as `lcm_grep` takes them. ``split`` says how
    files are split; None goes by their names. Without ``current_turn`` the running turn's messages are left out.
    """

    items: Iterable[Item] | None = None
    ids: Sequence[str] = ()
    query: str = ""
    roles: Sequence[str] = ()
    sender: str = ""
    tool_name: str = ""
    since: str = ""
    before: str = ""
    split: Split | None = None
    all_conversations: bool = False
    conversation_id: int | None = None
    label: str = ""
    current_turn: bool = False

    def __str__(self) -> str:
        """In words, for lists of maps."""
        if self.label or self.items is not None:
            return self.label or "given items"
        if self.ids:
            return ", ".join(self.ids)[:200]
        parts = [f"messages with {self.query!r}" if self.query else "messages"]
        parts += [f"of {self.sender}"] if self.sender else []
        parts += [f"of role {', '.join(self.roles)}"] if self.roles else []
        parts += [f"of tool {self.tool_name}"] if self.tool_name else []
        parts += [f"since {self.since}"] if self.since else []
        parts += [f"before {self.before}"] if self.before else []
        return " ".join(parts)[:200]


@dataclass(frozen=True, slots=True)
class Sources:
    """Reads the items of a source, as far as a session may read."""

    config: LcmConfig
    store: Store
    recall: Recall
    payloads: PayloadStore
    clock: Callable[[], int]
    find_map: Callable[[Reader, Session, str], MapRecord] = field(repr=False)

    def items(self, session: Session, source: MapSource) -> Iterator[Item]:
        """The items in order. Raises `InputError` and `NotFound` for what cannot be read."""
        if source.items is not None:
            yield from source.items
            return
        found = self._found(session, source) if source.query and not source.ids else ()
        with self.store.read() as reader:
            scope = self.recall.scope(reader, session, source.all_conversations, source.conversation_id)
            items = ItemReader(
                reader,
                scope,
                self.payloads.read_file,
                lambda opened, ref: self.find_map(opened, session, ref),
            )
            if source.ids:
                yield from items.named(source.ids, source.split)
            elif source.query:
                yield from items.listed(found)
            elif scope.conversation_ids:
                yield from items.filtered(self._filter(reader, session, scope, source))

    def _found(self, session: Session, source: MapSource) -> list[str]:
        """The ids of all messages that a search finds."""
        arguments: dict[str, Any] = {
            "pattern": source.query,
            "limit": _PAGE,
            "context": 0,
            "roles": list(source.roles) or None,
            "sender": source.sender or None,
            "tool_name": source.tool_name or None,
            "since": source.since or None,
            "before": source.before or None,
            "all_conversations": source.all_conversations,
            "conversation_id": source.conversation_id,
            "current_turn": source.current_turn,
        }
        refs: dict[str, None] = {}
        cursor: str | None = None
        while True:
            answer = self.recall.call(session, "lcm_grep", arguments | {"cursor": cursor})
            if "error" in answer:
                raise InputError(f"query: {answer['error']}")
            refs |= dict.fromkeys(hit["id"] for hit in answer["hits"] if hit["id"].startswith("msg_"))
            cursor = answer.get("next_cursor")
            if not cursor:
                return list(refs)

    def _filter(self, reader: Reader, session: Session, scope: Scope, source: MapSource) -> Filter:
        now, zone = self.clock(), self.config.timezone
        request = None
        if not source.current_turn:
            own = find_conversation(reader, session)
            request = unanswered_request(reader, own.conversation_id if own else None)
        return Filter(
            scope.filter_ids,
            tuple(source.roles) or None,
            source.tool_name or None,
            parse_time(source.since or None, now, zone, "since"),
            parse_time(source.before or None, now, zone, "before"),
            request.message_id - 1 if request else None,
            self._senders(reader, scope, source.sender),
        )

    def _senders(self, reader: Reader, scope: Scope, sender: str) -> tuple[str, ...] | None:
        if not sender:
            return None
        names = senders_named(sender, reader.message_senders(scope.filter_ids))
        if not names:
            raise InputError(f"sender: nobody named {sender!r} wrote here")
        return names
