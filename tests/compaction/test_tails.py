"""A tail is found once for all the looks of a turn, and never an old one."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import assistant, call, result, user

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.compaction.tail import RecentTails, Tail, TailBounds, fresh_tail
from lcm_plugin.store.protocol import Reader


def tails_of(engine: Engine, session: Session, tails: RecentTails) -> tuple[Tail, Tail]:
    """The remembered tail and the one that the rule finds now."""
    with engine.store.read() as reader:
        conversation = reader.find_conversation(session)
        assert conversation is not None
        found = fresh_tail(reader, conversation.conversation_id, TailBounds(4))
        return tails.of(reader, conversation, TailBounds(4)), found


def test_a_second_look_reads_nothing(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("Where is the key?"), assistant("Under the mat.")])
    tails = RecentTails()
    first, _ = tails_of(engine, session, tails)

    class Unreadable:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"the store was asked for {name}")

    reader: Reader = Unreadable()  # type: ignore[assignment]
    with engine.store.read() as real:
        conversation = real.find_conversation(session)
    assert conversation is not None
    assert tails.of(reader, conversation, TailBounds(4)) == first


def test_a_new_message_a_compaction_and_a_new_session_are_noticed(engine: Engine, session: Session) -> None:
    tails = RecentTails()
    for number in range(30):
        engine.ingest(session, [user(f"Question {number}: " + "which valve? " * 60), assistant("The third.")])
        remembered, found = tails_of(engine, session, tails)
        assert remembered == found
    engine.compact(session, force=True, budget=4_000)
    remembered, found = tails_of(engine, session, tails)
    assert remembered == found
    engine.new_session(session, retain_depth=0)
    remembered, found = tails_of(engine, session, tails)
    assert remembered == found == Tail()


SPEECH = st.sampled_from(("user", "assistant", "call", "hide", "show", "compact", "new", "elsewhere"))


@settings(max_examples=examples(20))
@given(
    acts=st.lists(st.tuples(SPEECH, st.integers(1, 90)), min_size=1, max_size=60),
    bounds=st.builds(TailBounds, st.integers(1, 8))
    | st.builds(TailBounds, st.integers(1, 8), st.integers(20, 600)),
)
def test_whatever_happened_between_two_looks_the_tail_is_the_rules(
    acts: list[tuple[str, int]], bounds: TailBounds
) -> None:
    session, tails = Session("agent:main:main"), RecentTails()
    with TemporaryDirectory() as folder:
        config = LcmConfig(database=str(Path(folder) / "lcm.db"), fresh_tail_count=2, leaf_chunk_tokens=200)
        with Engine.open(config) as engine, Engine.open(config) as other:
            for number, (act, size) in enumerate(acts):
                _do(other if act == "elsewhere" else engine, session, act, number, size)
                if size % 3:
                    continue
                with engine.store.read() as reader:
                    conversation = reader.find_conversation(session)
                    if conversation is None:
                        continue
                    found = fresh_tail(reader, conversation.conversation_id, bounds)
                    assert tails.of(reader, conversation, bounds) == found


def _do(engine: Engine, session: Session, act: str, number: int, size: int) -> None:
    words = f"{number} " + "valve " * size
    if act in ("user", "elsewhere"):
        engine.ingest(session, [user(words)], mode="append")
    elif act == "assistant":
        engine.ingest(session, [assistant(words), assistant(f"and {words}")], mode="append")
    elif act == "call":
        engine.ingest(session, [call(f"c{number}"), result(f"c{number}", words)], mode="append")
    elif act == "compact":
        engine.compact(session, force=True, budget=1_000)
    elif act == "new":
        engine.new_session(session, retain_depth=0)
    else:
        _hide_or_show(engine, session, act, size)


def _hide_or_show(engine: Engine, session: Session, act: str, back: int) -> None:
    with engine.store.write() as writer:
        conversation = writer.find_conversation(session)
        if conversation is None or not (
            heads := writer.heads(conversation.conversation_id, limit=back % 6 + 1)
        ):
            return
        change = writer.hide if act == "hide" else writer.show
        change(conversation.conversation_id, [heads[0].message_id], conversation.updated_at)
