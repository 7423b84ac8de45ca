"""What the hosts of a chaos run keep themselves: each talk in a file of its own, safe from any kill.

A line is written and flushed to the disk before the host goes on: a message before a hook is told of it, an
acknowledgement after the hook returned. A talk that hosts take turns in is locked while one works on it; a lock
ends with its process. In a room several hosts talk at once, and each process keeps a file of what it said there.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Literal

from lcm_plugin import Session

Message = dict[str, Any]
Style = Literal["list", "list with ids", "newest", "delta", "delta with ids", "room"]
STYLES: tuple[Style, ...] = ("list", "list with ids", "newest", "delta", "delta with ids")
NEWEST = 24
_WORDS = (
    "harbour",
    "lantern",
    "copper",
    "meadow",
    "signal",
    "ferry",
    "orchard",
    "gravel",
    "window",
    "compass",
    "ledger",
    "timber",
    "valley",
    "anchor",
    "bridge",
    "candle",
    "barrel",
    "saddle",
    "mirror",
    "kettle",
    "garden",
    "tunnel",
    "basket",
)
_REPEATS = ("Yes.", "Go on.", "And then?")


@dataclass(slots=True)
class Run:
    """The host's list since it last began anew; the first ``stored`` messages were acknowledged."""

    messages: list[Message] = field(default_factory=list)
    stored: int = 0


@dataclass(slots=True)
class Talk:
    """One talk as its journal tells it. ``runs`` are parted by resets; ``resets`` counts those with a new session.

    ``holder`` is the process that had the last turn, ``asked`` a reset of which nobody knows whether it was done.
    """

    path: Path
    key: str
    style: Style
    runs: list[Run] = field(default_factory=lambda: [Run()])
    resets: int = 0
    holder: str = ""
    asked: Literal["", "new", "reset"] = ""

    @property
    def run(self) -> Run:
        """The host's present list."""
        return self.runs[-1]

    @property
    def session(self) -> Session:
        """As the host names it now."""
        return Session(self.key, f"run-{self.resets}")

    def say(self, *messages: Message) -> None:
        """Adds to the host's list."""
        self.run.messages.extend(messages)
        self._write({"said": list(messages)})

    def acknowledge(self, count: int) -> None:
        """Notes how many of the list are stored."""
        if count > self.run.stored:
            self.run.stored = count
            self._write({"stored": count})

    def take(self, holder: str) -> None:
        """Notes whose turn it is."""
        if holder != self.holder:
            self.holder = holder
            self._write({"holder": holder})

    def ask_reset(self, kind: Literal["new", "reset"]) -> None:
        """Notes that a reset is on its way."""
        self.asked = kind
        self._write({"asked": kind})

    def settle_reset(self, *, done: bool) -> None:
        """Notes how the reset went; when it was done the list begins anew."""
        self._write({"done": done})
        self._reset(done)

    def _reset(self, done: bool) -> None:
        if done:
            self.runs.append(Run())
            self.resets += self.asked == "reset"
        self.asked = ""

    def _write(self, line: dict[str, Any]) -> None:
        data = json.dumps(line, ensure_ascii=False).encode() + b"\n"
        number = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(number, data)
            os.fsync(number)
        finally:
            os.close(number)

    def _read(self, line: dict[str, Any]) -> None:
        match line:
            case {"said": messages}:
                self.run.messages.extend(messages)
            case {"stored": count}:
                self.run.stored = count
            case {"holder": holder}:
                self.holder = holder
            case {"asked": kind}:
                self.asked = kind
            case {"done": done}:
                self._reset(done)


def read_talk(path: Path, key: str, style: Style) -> Talk:
    """A talk from its journal; half a line that a kill left is cut off."""
    talk = Talk(path, key, style)
    if not path.exists():
        return talk
    data = path.read_bytes()
    whole = data.rpartition(b"\n")[0]
    if len(whole) + 1 < len(data):
        os.truncate(path, len(whole) + 1 if whole else 0)
    for line in whole.split(b"\n"):
        if line:
            talk._read(json.loads(line))
    return talk


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[bool]:
    """Whether a talk could be taken; it is one's own until the block ends."""
    number = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(number)


class Sayings:
    """New messages, each with a word that no other has, for ``style`` with ids of the host's own."""

    def __init__(self, rng: Random, name: str, style: Style) -> None:
        self._rng = rng
        self._name = name
        self._ids = style in ("list with ids", "delta with ids", "room")
        self._repeats = style in ("list", "list with ids")
        self._count = 0
        self._said = 0

    def user(self) -> Message:
        """A question, or now and then words that were said before."""
        if self._repeats and self._rng.random() < 0.1:
            return self._message("user", self._rng.choice(_REPEATS))
        return self._message("user", self._text())

    def answer(self) -> Message:
        """The model's answer."""
        return self._message("assistant", self._text(large=0.02))

    def calls(self) -> tuple[Message, list[Message]]:
        """A message with calls of tools, and their results."""
        ids = [self._word() for _ in range(self._rng.randint(1, 2))]
        calls = [
            {"id": one, "type": "function", "function": {"name": "look", "arguments": '{"at": "it"}'}}
            for one in ids
        ]
        asked = self._message("assistant", None) | {"tool_calls": calls}
        return asked, [self._message("tool", self._text(large=0.02)) | {"tool_call_id": one} for one in ids]

    def _message(self, role: str, content: str | None) -> Message:
        self._said += 1
        message: Message = {"role": role, "content": content}
        return message | {"id": f"{self._name}-{self._said}"} if self._ids else message

    def _word(self) -> str:
        self._count += 1
        return f"{self._name}x{self._count}"

    def _text(self, large: float = 0.0) -> str:
        words = [self._rng.choice(_WORDS) for _ in range(self._rng.randint(20, 70))]
        if self._rng.random() < large:
            words *= 30  # moved out into a file
        return f"{self._word()}: {' '.join(words)}."


def open_calls(messages: list[Message]) -> list[str]:
    """The ids of calls at the end of a list that were not answered."""
    answered: set[str] = set()
    for message in reversed(messages):
        if message["role"] == "tool":
            answered.add(message["tool_call_id"])
            continue
        return [call["id"] for call in message.get("tool_calls") or () if call["id"] not in answered]
    return []


def unique_word(message: Message) -> str | None:
    """The word that only this message has."""
    text = message.get("content")
    first = text.partition(":")[0] if isinstance(text, str) else ""
    return first if "x" in first and " " not in first else None
