"""What of a run's messages is stored already.

pydantic-ai gives messages no ids and may put copies in their place, but every part has the time at which it
was made. An id made from what a message says and when is the same for every copy and in every process, so
that a message is stored once however often it is handed over; equal ones in one history are numbered.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lcm_plugin.forks import FreshLocks, join
from lcm_plugin.hosts.pydantic_ai.content import HOST, dumps
from lcm_plugin.hosts.pydantic_ai.messages import INSTRUCTIONS_ID, dump, instructions_id, to_core
from lcm_plugin.lru import LruCache
from lcm_plugin.messages.blocks import text_of
from lcm_plugin.types import HOST_DATA, Message

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage


_SESSIONS = 64
_ANCHORS = 8


class Recorders:
    """One recorder for each session, so that a history handed over run after run is looked at once. Thread-safe."""

    def __init__(self) -> None:
        self._of: LruCache[str, Recorder] = LruCache(_SESSIONS)

    def of(self, session_key: str) -> Recorder:
        """The session's recorder; the one that was used longest ago makes room for it."""
        return self._of.get(session_key) or self._of.put_new(session_key, Recorder())

    def forget(self) -> None:
        """The database was closed: it may be another one next time."""
        self._of.clear()


class Recorder(FreshLocks):
    """Finds the new messages in the histories of one session. Hold its ``lock`` from `listing` to `stored`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        join(self)
        # The ids of the list that was stored last, and of the one that was looked at last.
        self._stored: list[str] = []
        self._listed: list[str] = []
        self._instructions: set[str] = set()
        # The messages are kept with their conversions, so that an id() is never another message's.
        self._converted: dict[int, tuple[ModelMessage, list[Message]]] = {}

    def listing(self, messages: Sequence[ModelMessage], asked_model: str | None = None) -> list[Message]:
        """A run's list as core messages, from a little before its newest request and where it differs from the last."""
        known = self._converted
        missing = [message for message in messages if id(message) not in known]
        self._converted = {id(one): known[id(one)] for one in messages if id(one) in known}
        for message, dumped in zip(missing, dump(missing), strict=True):
            self._converted[id(message)] = (
                message,
                [{**core, "id": _id(core)} for core in to_core(dumped, asked_model)],
            )
        found = list(self._numbered(messages))
        self._listed = [message["id"] for message in found]
        pairs = enumerate(zip(self._listed, self._stored, strict=False))
        fresh = next((n for n, (one, known) in pairs if one != known), min(len(found), len(self._stored)))
        asked = next((n for n in range(len(found) - 1, -1, -1) if found[n]["role"] == "user"), 0)
        return found[max(0, min(fresh, asked) - _ANCHORS) :]

    def converted(self, messages: Sequence[ModelMessage]) -> list[Message]:
        """What of a run's list was looked at, as core messages."""
        known = self._converted
        return [core for one in messages if id(one) in known for core in known[id(one)][1]]

    @property
    def goes_on(self) -> bool:
        """Whether the list that was looked at is another one than what was stored last."""
        return bool(self._listed) and self._listed != self._stored

    def stored(self, messages: Sequence[Message]) -> None:
        """These are in the database now."""
        self._stored = self._listed
        headers = (_header(message) for message in messages)
        self._instructions.update(
            instructions_id(header["instructions"]) for header in headers if "instructions" in header
        )

    def _numbered(self, messages: Sequence[ModelMessage]) -> Iterator[Message]:
        seen: Counter[str] = Counter()
        for message in messages:
            for core in self._converted[id(message)][1]:
                seen[core["id"]] += 1
                number = seen[core["id"]]
                named = core if number == 1 else {**core, "id": f"{core['id']}.{number}"}
                yield self._without_known_instructions(named)

    def _without_known_instructions(self, message: Message) -> Message:
        header = _header(message)
        text = header.get("instructions")
        if text is None or (known := instructions_id(text)) not in self._instructions:
            return message
        short = {key: item for key, item in header.items() if key != "instructions"} | {
            INSTRUCTIONS_ID: known
        }
        return {**message, HOST_DATA: {HOST: {**message[HOST_DATA][HOST], "request": short}}}


def _id(message: Message) -> str:
    """Made of what versions of the host leave alone: words, times and call ids."""
    data = message[HOST_DATA][HOST]
    says = [message["role"], message.get("timestamp") or _header(message).get("timestamp")]
    if message["role"] == "tool":
        says.append(message["tool_call_id"])
    elif message["content"] == "":
        says.append(data.get("part"))
    else:
        says += [text_of(message), [call["id"] for call in message.get("tool_calls", ())]]
    return hashlib.blake2b(dumps(says).encode("utf-8", "surrogatepass"), digest_size=9).hexdigest()


def _header(message: Message) -> dict[str, Any]:
    header: dict[str, Any] = message[HOST_DATA][HOST].get("request", {})
    return header
