"""Whatever was said, compacted, pruned, undone and reset: an export and a copy hold all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from databases import FreshDatabase
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from messages import assistant, call, result, user

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.interchange.transfer.jsonl_read import load_jsonl
from lcm_plugin.interchange.transfer.jsonl_write import write_jsonl
from lcm_plugin.interchange.transfer.migrate import Side, migrate
from lcm_plugin.interchange.transfer.payloads import PayloadPlace
from lcm_plugin.store.transfer import conversation_ids, table_hashes

SESSIONS = (Session("agent:a:main", "r-1"), Session("agent:b:ä\u2028/x", "r-2"))
SETTINGS: dict[str, Any] = {
    "fresh_tail_count": 2,
    "leaf_chunk_tokens": 120,
    "leaf_target_tokens": 40,
    "condensed_target_tokens": 50,
    "leaf_min_fanout": 2,
    "condensed_min_fanout": 2,
    "large_file_token_threshold": 1_000,
}
words = st.text(st.characters(codec=None), max_size=30)
talk = st.tuples(st.just("talk"), st.lists(words, min_size=1, max_size=6))
acts = st.sampled_from(["compact", "new", "undo", "reset", "tools", "large"]).map(lambda name: (name, None))
steps = st.lists(st.tuples(st.integers(0, 1), talk | acts), min_size=1, max_size=14)


def play(engine: Engine, history: list[tuple[int, tuple[str, Any]]]) -> None:
    for number, (who, (act, said)) in enumerate(history):
        session = SESSIONS[who]
        if act == "talk":
            for text in said:
                engine.ingest(
                    session, [user(f"{text} {'some more words ' * 8}{number}"), assistant(text or "-")]
                )
        elif act == "tools":
            engine.ingest(
                session, [call(f"c{number}", "look", '{"a": "\\u0000"}'), result(f"c{number}", "found")]
            )
        elif act == "large":
            engine.ingest(session, [user(f"{number} line of a long text\n" * 900)])
        elif act == "compact":
            engine.compact(session, force=True, budget=1_000)
        elif act == "new":
            engine.new_session(session, number % 3)
        elif act == "undo":
            engine.undo_new(session)
        else:
            engine.reset_session(session)


@contextmanager
def silent(title: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    yield lambda done: None


def side(engine: Engine) -> Side:
    return Side(engine.store, PayloadPlace(engine.payloads.folder), engine.check)


def hashes(engine: Engine) -> dict[str, str]:
    with engine.store.read() as reader:
        return table_hashes(reader)


@pytest.mark.parametrize(
    ("store", "read_into", "copied_into"),
    [
        ("sqlite", "sqlite", "sqlite"),
        pytest.param("sqlite", "postgres", "postgres", marks=pytest.mark.long),
        ("postgres", "sqlite", "sqlite"),
        pytest.param("postgres", "postgres", "postgres", marks=pytest.mark.long),
    ],
)
@settings(
    max_examples=examples(6, 3),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(history=steps)
def test_an_export_and_a_copy_are_equal_to_any_database(
    fresh_database: FreshDatabase,
    store: str,
    read_into: str,
    copied_into: str,
    history: list[tuple[int, tuple[str, Any]]],
) -> None:
    with ExitStack() as closing:

        def opened(name: str, kind: str) -> Engine:
            database = closing.enter_context(fresh_database(name, kind))
            return closing.enter_context(Engine.open(LcmConfig(database=database, **SETTINGS)))

        source, read, copied = (
            opened("source", store),
            opened("read", read_into),
            opened("copied", copied_into),
        )
        play(source, history)
        lines: list[bytes] = []
        with source.store.read() as reader:
            chosen = list(conversation_ids(reader))
            place = PayloadPlace(source.payloads.folder)
            write_jsonl(reader, place, lines.append, conversations=chosen, whole=True, now=1)
        load_jsonl(lines, read.store, PayloadPlace(read.payloads.folder))
        migrate(side(source), side(copied), silent)
        assert hashes(source) == hashes(read) == hashes(copied)
        for session in SESSIONS:
            told = source.messages(session)
            assert read.messages(session) == told
            assert copied.messages(session) == told
        assert read.check().ok
        assert copied.check().ok
