"""A process that dies between any two steps of a turn, again and again: every message keeps one row.

The steps are the host's, in its order (version 0.19.0): what it writes to its own records and when, which
neighbours it merges, and what it tells the engine. The core and its database are real.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from effort import examples
from fakes.answers import summary_of
from fakes.validity import text_of
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lcm_plugin import CompletionRequest, CompletionResult, LcmConfig
from lcm_plugin.hosts.hermes.completer import AuxiliaryCompleter
from lcm_plugin.hosts.hermes.engine import HermesEngine
from lcm_plugin.hosts.hermes.runtime import Runtime

Message = dict[str, Any]

WINDOW = 4_000
SETTINGS = {
    "context_threshold": 0.4,
    "fresh_tail_count": 4,
    "leaf_chunk_tokens": 500,
    "leaf_target_tokens": 100,
    "summary_max_calls_per_window": 1_000_000,
}
_FIRST = "first"
_LAST = "That was all."
_RESULT = '{"todos": "watered"}'


class Killed(Exception):
    """The process is gone."""


class Summaries(AuxiliaryCompleter):
    def __call__(self, request: CompletionRequest) -> CompletionResult:
        return CompletionResult(summary_of(text_of(request.messages[-1]["content"])), "fake-model")


class Records:
    """The host's own database: the rows of each session that are part of its context."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Message]] = {_FIRST: []}
        self.parents: dict[str, str] = {}
        self.newest = _FIRST
        self.ever: list[Message] = []

    def append(self, session_id: str, message: Message) -> None:
        self.rows[session_id].append(_plain(message))
        self.ever.append(_plain(message))

    def replace(self, session_id: str, messages: Sequence[Message]) -> None:
        self.rows[session_id] = [_plain(message) for message in messages]
        self.ever.extend(self.rows[session_id])

    def get_messages_as_conversation(
        self, session_id: str, repair_alternation: bool = False
    ) -> list[Message]:
        loaded = [_stripped(row) for row in self.rows[session_id]]
        if repair_alternation:
            merge_neighbours(loaded)
        return loaded

    def get_session(self, session_id: str) -> Message | None:
        ended = "compression" if session_id in self.parents.values() else None
        return {"parent_session_id": self.parents.get(session_id), "end_reason": ended}


def _plain(message: Message) -> Message:
    return copy.deepcopy({key: value for key, value in message.items() if not key.startswith("_")})


def _stripped(row: Message) -> Message:
    loaded = copy.deepcopy(row)
    if loaded["role"] != "tool" and isinstance(loaded.get("content"), str):
        loaded["content"] = loaded["content"].strip()
    return loaded


def merge_neighbours(messages: list[Message]) -> None:
    """The host's repair: users' messages that follow each other become one, in place; so do assistants'."""
    merged: list[Message] = []
    for message in messages:
        before = merged[-1] if merged else {}
        if before.get("role") == message["role"] == "user":
            before["content"] += "\n\n" + message["content"]
        elif before.get("role") == message["role"] == "assistant":
            before["tool_calls"] = [*before.get("tool_calls", ()), *message.get("tool_calls", ())]
            before["content"] = "\n".join(filter(None, (before["content"], message["content"])))
        else:
            merged.append(message)
    messages[:] = merged


class Process:
    """One life of the host: an agent that goes on with a session until it is killed at a step."""

    def __init__(self, records: Records, runtime: Runtime, steps: int | None, in_place: bool) -> None:
        self.records = records
        self.in_place = in_place
        self._left = steps
        self.session_id = records.newest
        self.messages = records.get_messages_as_conversation(self.session_id, repair_alternation=True)
        self._written = {id(message) for message in self.messages}
        self.engine = copy.deepcopy(HermesEngine(runtime))
        self.engine.update_model("fake-model", WINDOW)
        self.engine.bind_session_state(session_db=records, session_id=self.session_id)
        self.engine.on_session_start(self.session_id, platform="cli")

    def step(self) -> None:
        """Dies here when it is time to."""
        if self._left == 0:
            raise Killed
        if self._left is not None:
            self._left -= 1

    def write(self) -> None:
        """Writes down what is new in the list."""
        for message in self.messages:
            if id(message) not in self._written:
                self._written.add(id(message))
                self.records.append(self.session_id, message)
                self.step()

    def say(self, text: str, reply: str, calls: Sequence[str]) -> None:
        """A turn: the model calls a tool for each of ``calls``, then answers ``reply``."""
        self.messages.append({"role": "user", "content": text})
        self.step()
        self.compact()
        self.write()
        for call in calls:
            self.ask()
            function = {"name": "todo", "arguments": "{}"}
            call_it = {"id": call, "type": "function", "function": function}
            self.messages.append({"role": "assistant", "content": "", "tool_calls": [call_it]})
            self.write()
            self.messages.append({"role": "tool", "tool_call_id": call, "content": _RESULT})
            self.write()
            self.compact()
        self.ask()
        self.messages.append({"role": "assistant", "content": reply})
        self.write()
        self.engine.after_turn(self.messages)
        self.step()

    def ask(self) -> None:
        """One request to the model."""
        self.compact()
        merge_neighbours(self.messages)
        self.engine.before_request(self.messages, {})
        self.step()
        self.engine.update_from_response({"prompt_tokens": self.tokens(), "completion_tokens": 10})
        self.step()

    def tokens(self) -> int:
        return len(str(self.messages)) // 4

    def compact(self) -> None:
        """Asks for a smaller list where the host does, and rewrites its records to it."""
        if not self.engine.should_compress(self.tokens()):
            return
        before = self.messages
        smaller = self.engine.compress(before, current_tokens=self.tokens())
        self.step()
        if smaller == before:
            return
        self.engine.on_session_end(self.session_id, before)
        self.step()
        old = self.session_id
        if not self.in_place:
            self.write()
            self.session_id = f"{old}+"
            self.records.parents[self.session_id] = old
            self.records.newest = self.session_id
            self.records.rows[self.session_id] = []
            self.step()
        self.records.replace(self.session_id, smaller)
        self.messages = smaller
        self._written = {id(message) for message in smaller}
        self.step()
        self.engine.on_session_start(self.session_id, boundary_reason="compression", old_session_id=old)
        self.step()


def said_in(records: Records, said: Sequence[str]) -> int:
    """How many turns, in order, the host has on disk in any form."""
    texts = [text_of(row.get("content")) for row in records.ever if row["role"] == "user"]
    return next((at for at, text in enumerate(said) if not any(text in row for row in texts)), len(said))


def words(number: int, paragraphs: bool) -> str:
    talk = " ".join(f"garden{number}x{word}" for word in range(20))
    return f"Note {number:03d}. {talk}" + (f"\n\nAnd a paragraph, {number:03d}." if paragraphs else "")


lives = st.lists(st.integers(0, 6) | st.integers(0, 40), min_size=1, max_size=10)
turns = st.lists(st.tuples(st.booleans(), st.sampled_from([0, 0, 0, 1, 2])), min_size=8, max_size=25)
KILLED_BEFORE_AND_AFTER_A_COMPACTION = {
    "in_place": False,
    "turns": [(number == 10, {5: 2, 8: 1, 10: 2, 13: 2}.get(number, 0)) for number in range(17)],
    "lives": [4, 4, 29, 3, 40, 29, 6],
}


@pytest.mark.long
@settings(max_examples=examples(12), deadline=None)
@example(**KILLED_BEFORE_AND_AFTER_A_COMPACTION)
@given(in_place=st.booleans(), turns=turns, lives=lives)
def test_every_message_keeps_one_row_whenever_the_process_dies(
    tmp_path_factory: pytest.TempPathFactory,
    in_place: bool,
    turns: list[tuple[bool, int]],
    lives: list[int],
) -> None:
    database = tmp_path_factory.mktemp("kills") / "lcm.db"
    said = [words(number, paragraphs) for number, (paragraphs, _) in enumerate(turns)]
    records, made = Records(), 0
    for steps in (*lives, None):
        runtime = Runtime(lambda: _config(database), Summaries(), patience=30)
        process = Process(records, runtime, steps, in_place)
        try:
            for number in range(said_in(records, said), len(said)):
                made += 1
                calls = [f"call_{made}_{index}" for index in range(turns[number][1])]
                process.say(said[number], f"Reply {made}.", calls)
            if steps is None:
                process.say(_LAST, "Goodbye.", ())
        except Killed:
            pass
        finally:
            runtime.close()
    check(database, [*said, _LAST], records)


def _config(database: Path) -> LcmConfig:
    return LcmConfig(database=str(database), **SETTINGS)


def check(database: Path, said: list[str], records: Records) -> None:
    """One row per message that was said, answered or called; and the graph is sound."""
    runtime = Runtime(lambda: _config(database), Summaries(), patience=30)
    engine = runtime.engine()
    assert engine is not None
    (conversation,) = engine.library.conversations()
    rows = [engine.library.whole(row) for row in engine.library.messages(conversation.conversation_id)]
    findings = engine.check().findings
    runtime.close()
    assert [row["content"] for row in rows if row["role"] == "user"] == said
    replies = [row["content"] for row in rows if row["role"] == "assistant" and not row.get("tool_calls")]
    calls = [call["id"] for row in rows for call in row.get("tool_calls", ())]
    results = [row["tool_call_id"] for row in rows if row["role"] == "tool"]
    for kind, recorded in (
        (replies, {row["content"] for row in records.ever if _is_reply(row)}),
        (calls, {call["id"] for row in records.ever for call in row.get("tool_calls", ())}),
        (results, {row["tool_call_id"] for row in records.ever if row.get("content") == _RESULT}),
    ):
        assert len(set(kind)) == len(kind)
        assert recorded <= set(kind)
    assert findings == ()


def _is_reply(row: Message) -> bool:
    return row["role"] == "assistant" and not row.get("tool_calls")
