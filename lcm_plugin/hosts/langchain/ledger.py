"""What of a graph's messages is stored already.

A graph's state is the truth about what the conversation is; the store keeps all that was ever in it. A
graph gives every message an id, so that a message is stored once however often it is handed over. Without
a checkpointer a host may hand over a whole history under fresh ids: then the core compares by content.

A state may also go back: to an earlier checkpoint, or with a message edited. What it no longer holds at its
end is withdrawn from the context, and comes back when the state does. Messages that only left its beginning
or its middle (a trimmed state) stay in the context.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from sys import maxsize
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage

from lcm_plugin.forks import FreshLocks, join
from lcm_plugin.hosts.langchain.messages import HOST, role_of, to_core
from lcm_plugin.messages.convert import safe_repr
from lcm_plugin.types import HOST_DATA, Message, Session

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine
    from lcm_plugin.store.records import StoredMessage

_THREADS = 256
_LOOK_BACK = 512
_NOT_SAID = frozenset({"cache_control", "index"})


class Ledger(FreshLocks):
    """Stores what is new in the states of many threads. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        join(self)
        self._threads: OrderedDict[str, _Thread] = OrderedDict()

    def store(self, engine: Engine, session: Session, messages: Sequence[BaseMessage]) -> None:
        """Brings the store up to a state; what could not be stored is tried again next time."""
        with self._lock:
            thread = self._threads.setdefault(session.key, _Thread(session))
            self._threads.move_to_end(session.key)
            while len(self._threads) > _THREADS:
                self._threads.popitem(last=False)
        with thread.lock:
            thread.store(engine, messages)


class _Thread(FreshLocks):
    """One thread: what this process knows to be stored, by message id, with a mark of its content."""

    def __init__(self, session: Session) -> None:
        self.lock = threading.Lock()
        join(self)
        self._session = session
        self._marks: dict[str, int | None] = {}
        self._last: str | None = None

    def store(self, engine: Engine, messages: Sequence[BaseMessage]) -> None:
        known = self._known(engine, messages)
        marks = {message.id: _mark(message) for message in messages if message.id}
        edited = next(
            (n for n, m in enumerate(messages) if m.id and known.get(m.id) not in (None, marks[m.id])),
            None,
        )
        if known and (edited is not None or not self._goes_on(messages, known)):
            self._reconcile(engine, messages, len(messages) if edited is None else edited)
        if edited is not None:
            again = [
                _with_quiet_id(message) if message.id in known else to_core(message)
                for message in messages[edited:]
            ]
            engine.ingest(self._session, again, "all")
        elif fresh := [to_core(message) for message in messages if message.id not in known]:
            engine.ingest(self._session, fresh, "append")
        self._marks = {**known, **marks}
        self._last = messages[-1].id if messages else self._last

    def _known(self, engine: Engine, messages: Sequence[BaseMessage]) -> dict[str, int | None]:
        """The stored messages with their marks; a state that this process does not know is looked up."""
        if any(message.id in self._marks for message in messages):
            return self._marks
        self._last = None
        names = {f"{role_of(message)}:{message.id}": str(message.id) for message in messages if message.id}
        found = {names[name] for name in engine.record.known_ids(self._session, list(names))}
        newest = self._newest(engine)
        found |= {graph_id for _, graph_id in newest} & set(names.values())
        if found or not newest:
            return dict.fromkeys(found)
        engine.ingest(self._session, [_with_quiet_id(message) for message in messages], "sync")
        self._last = messages[-1].id if messages else None
        return {str(message.id): None for message in messages if message.id}

    def _goes_on(self, messages: Sequence[BaseMessage], known: Mapping[str, int | None]) -> bool:
        """Whether the state's newest stored message is the one that was stored last."""
        stored = [message.id for message in messages if message.id in known]
        return not stored or stored[-1] == self._last

    def _reconcile(self, engine: Engine, messages: Sequence[BaseMessage], until: int) -> None:
        """Withdraws the newest rows that the state lacks up to ``until``, and brings back what it holds again.

        Rows come back only in place of others: alone, they were hidden by the core (idle polls).
        """
        held = {message.id for message in messages[:until]}
        edited = {message.id for message in messages[until:]}
        rows = self._newest(engine)
        newest_of = {graph_id: row.head.seq for row, graph_id in rows if graph_id}
        kept = {
            row.head.seq for row, graph_id in rows if graph_id in held and newest_of[graph_id] == row.head.seq
        }
        end = max(kept, default=None)
        gone = [
            row
            for row, graph_id in rows
            if not row.head.hidden and graph_id and (graph_id in edited or (end and row.head.seq > end))
        ]
        back = [row for row, _ in rows if gone and row.head.seq in kept and row.head.hidden]
        engine.record.withdraw(self._session, [row.head.message_id for row in gone])
        engine.record.restore(self._session, [row.head.message_id for row in back])

    def _newest(self, engine: Engine) -> list[tuple[StoredMessage, str]]:
        """The newest rows that show a model something, with their ids in the graph ("" for none), in order."""
        rows = engine.record.newest(self._session, _LOOK_BACK)
        return [
            (row, _graph_id(engine, row) or "")
            for row in rows
            if any(part.text.strip() for part in row.parts)
        ]


def _graph_id(engine: Engine, row: StoredMessage) -> str | None:
    """The id of a stored message in the graph."""
    if row.head.host_id is not None:
        return row.head.host_id.partition(":")[2]
    data = engine.record.whole(row).get(HOST_DATA, {}).get(HOST, {})
    return str(data["id"]) if "id" in data else None


def _with_quiet_id(message: BaseMessage) -> Message:
    """The message with its id where the core does not take it for one that no other message has."""
    core = to_core(message)
    data = {HOST: {**core[HOST_DATA][HOST], "id": message.id}}
    return {key: value for key, value in core.items() if key != "id"} | {HOST_DATA: data}


def _mark(message: BaseMessage) -> int:
    """What changes when a message is edited; marks for a provider's cache do not count."""
    content: Any = message.content
    if isinstance(content, list):
        content = [
            {key: value for key, value in block.items() if key not in _NOT_SAID}
            if isinstance(block, dict)
            else block
            for block in content
        ]
    calls = [
        (call["id"], call["name"], safe_repr(call["args"], maxsize))
        for call in getattr(message, "tool_calls", ())
    ]
    return hash((message.type, safe_repr(content, maxsize), tuple(calls)))
