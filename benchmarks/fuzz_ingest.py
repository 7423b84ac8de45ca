"""Fuzzes ingest with arbitrary JSON-like messages.

    python benchmarks/fuzz_ingest.py [--examples 2000] [--seed 0] [--database URL] [--json]

Every example is a batch for a fresh conversation of one database. It must be stored as a whole or be refused with
`InputError` and leave nothing behind. What was stored must come back equal, must be known when it is handed over
again, and must compact without an exception. Every context must be one that every provider takes, in JSON and UTF-8;
those from which an exchange had to be left out are counted as mended. A failing batch is shrunk by Hypothesis and
printed; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import base64
import json
import logging
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.errors import InputError
from lcm_plugin.events import Event
from lcm_plugin.messages.convert import to_message
from lcm_plugin.messages.table import KEYED, TYPES
from lcm_plugin.messages.validate import validate

ROLES = [
    "user",
    "user",
    "assistant",
    "assistant",
    "tool",
    "tool",
    "system",
    "developer",
    "function",
    "model",
    "odd role",
]
WORDS = [
    "hello",
    "é漢字",
    "a\ud83d",
    "\x00",
    "\u202eabc",
    "<|endoftext|>",
    "</summary>",
    "[LCM File: file_",
    "HEARTBEAT_OK",
]
BLOCK_TYPES = [*TYPES, "file", "mystery", "step-start", "new_tool_result", "", None]
BLOCK_KEYS = [
    "text",
    "image_url",
    "thinking",
    "signature",
    "input",
    "output",
    "name",
    "content",
    "source",
    "data",
    "state",
]
ID_KEYS = ["id", "call_id", "tool_use_id", "toolCallId", "callID"]
IDS = ["c1", "c2", "exec:1"]
# What looping and careless models write.
ARGUMENTS = ["[" * 3_000, "[" * 900 + "]" * 900, '{"a": NaN}', '{"a": "\\ud83d"}', "{", "[]", ""]
KEYS = [
    "text",
    "content",
    "type",
    "id",
    "name",
    "input",
    "arguments",
    "url",
    "data",
    "mime_type",
    "a.b",
    "back\\slash",
    "",
]


def values(careless: bool = False) -> st.SearchStrategy[Any]:
    """Anything a JSON parser may produce; with ``careless`` also what a host should not hand over."""
    blob = st.binary(min_size=1, max_size=900).map(lambda data: base64.b64encode(data).decode())
    words = st.one_of(
        st.text(max_size=40),
        st.sampled_from(WORDS),
        blob,
        blob.map(lambda text: "data:image/png;base64," + text),
        st.sampled_from(["word ", "字", "x", "=\n"]).flatmap(
            lambda word: st.integers(1, 4_000).map(lambda count: word * count)
        ),
    )
    numbers = st.integers() | st.floats() | st.booleans() | st.none()
    odd = st.sampled_from([b"bytes", {1, 2}, object(), 1j, {1: "a"}, {None: 1}])
    return st.recursive(
        words | numbers | odd if careless else words | numbers,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.tuples(inner, inner)
            | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=6), inner, max_size=4)
        ),
        max_leaves=8,
    )


def messages(careless: bool = False) -> st.SearchStrategy[Any]:
    """A message with anything in any place; with ``careless`` also what is no message."""
    anything = values(careless)
    nothing = st.sampled_from([[], "", " ", None, {}])
    ids = st.sampled_from(IDS) | anything
    typed = st.fixed_dictionaries(
        {"type": st.sampled_from(BLOCK_TYPES)},
        optional=dict.fromkeys(BLOCK_KEYS, anything | nothing) | dict.fromkeys(ID_KEYS, ids),
    )
    inside = dict.fromkeys(("name", "input", "args", "content", "response"), anything)
    held = st.fixed_dictionaries({}, optional=inside | dict.fromkeys(("toolUseId", "id"), ids))
    keyed = st.dictionaries(st.sampled_from(list(KEYED)), held | anything, min_size=1, max_size=2)
    block = typed | typed | keyed
    arguments = st.just("{}") | anything | st.sampled_from(ARGUMENTS)
    calls = st.lists(
        st.fixed_dictionaries(
            {"id": st.sampled_from(["c1", "c2", "exec:1"]) | anything},
            optional={
                "type": st.just("function"),
                "function": st.fixed_dictionaries({"name": st.just("run") | anything, "arguments": arguments})
                | anything,
            },
        )
        | anything,
        max_size=3,
    )
    shaped = st.fixed_dictionaries(
        {
            "role": st.sampled_from(ROLES),
            "content": anything | nothing | st.lists(block | nothing, max_size=3),
        },
        optional={
            "parts": st.lists(block, max_size=2),
            "model": st.sampled_from(["a", "b"]),
            "tool_calls": calls,
            "tool_call_id": st.sampled_from(["c1", "c2", "exec:1"]) | anything,
            "name": anything,
            "reasoning_content": anything,
            "refusal": anything,
            "function_call": anything,
            "created_at": anything,
            "extra": anything,
        },
    )
    return (
        shaped | st.dictionaries(st.text(max_size=8), anything, max_size=4) | anything if careless else shaped
    )


def batches() -> st.SearchStrategy[list[Any]]:
    """What a host hands over at once, one in six times carelessly."""
    good = st.lists(messages(), min_size=1, max_size=6)
    return st.one_of(good, good, good, good, good, st.lists(messages(careless=True), max_size=3))


class Fuzzer:
    """Runs batches through one engine and counts how they ended."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.outcomes: Counter[str] = Counter()
        self._number = 0
        self._run = time.time_ns()
        engine.events.subscribe(self._note)

    def _note(self, event: Event) -> None:
        self.outcomes["contexts mended"] += event.name == "assembly.mended"

    def run(self, batch: list[Any]) -> None:
        """One batch; raises when a promise is broken."""
        self._number += 1
        session = Session(f"fuzz:{self._run}:{self._number}")
        try:
            report = self._engine.ingest(session, batch)
        except InputError as error:
            if not str(error):
                raise AssertionError("an error without a word") from error
            assert self._engine.messages(session) == [], "a refused batch left something behind"
            self.outcomes["refused"] += 1
            return
        self.outcomes["stored"] += 1
        self.outcomes["messages"] += report.stored
        kept = self._engine.messages(session)
        assert report.stored == len(kept)
        assert_kept([to_message(message)[0] for message in batch], kept)
        again = self._engine.ingest(session, batch, "sync")
        assert again.stored == 0, f"{again.stored} of {len(batch)} stored twice"
        for budget in (64, 2_000, 100_000):
            self._assemble(session, budget)
        self._engine.compact(session, force=True)
        assert same(self._engine.messages(session), kept), "compaction changed what is stored"

    def _assemble(self, session: Session, budget: int) -> None:
        messages = self._engine.assemble(session, budget).messages
        assert validate(messages) == [], "a context that no provider takes"
        json.dumps(messages, ensure_ascii=False, allow_nan=False).encode()
        self.outcomes["contexts"] += 1


def assert_kept(batch: list[Any], kept: list[Any]) -> None:
    """What is stored is the batch in its order; only a bare copy of the reply before it may be missing."""
    position = 0
    for index, message in enumerate(batch):
        if position < len(kept) and same(message, kept[position]):
            position += 1
        else:
            before = batch[index - 1] if index else {}
            assert message.get("role") == before.get("role") == "assistant", f"message {index} is lost"
    assert position == len(kept), "something was stored that nobody handed over"


def same(one: Any, other: Any) -> bool:
    """Equal as JSON: tuples are lists, NaN is NaN, the order of keys counts."""
    return json.dumps(one) == json.dumps(other)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--examples", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--database", help="a PostgreSQL URL instead of a SQLite file")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        config = LcmConfig(
            database=options.database or str(Path(folder) / "fuzz.db"),
            large_file_token_threshold=1_000,
            fresh_tail_count=2,
            leaf_min_fanout=1,
            leaf_chunk_tokens=400,
        )
        with Engine.open(config) as engine:
            fuzzer = Fuzzer(engine)

            @seed(options.seed)
            @settings(
                max_examples=options.examples,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
                phases=[Phase.generate, Phase.shrink],
            )
            @given(batch=batches())
            def fuzz(batch: list[Any]) -> None:
                fuzzer.run(batch)

            started = time.perf_counter()
            try:
                fuzz()
            except Exception:  # noqa: BLE001 - whatever a broken promise raises is the finding
                traceback.print_exc()
                return 1
            result = {**fuzzer.outcomes, "seconds": round(time.perf_counter() - started, 1)}
    print(
        json.dumps(result) if options.json else ", ".join(f"{key} {value:,}" for key, value in result.items())
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
