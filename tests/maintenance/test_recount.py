"""Databases whose rows were counted otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
from messages import assistant, call, result, user
from small_talk import turns

from lcm_plugin import Engine, Session
from lcm_plugin.messages.encodings import ENCODING
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.types import ContextItem

pytestmark = pytest.mark.both_stores

Open = Callable[..., Engine]
SMALL = {"fresh_tail_count": 6, "leaf_target_tokens": 150, "condensed_target_tokens": 200}


class Counted(NamedTuple):
    """All that is counted of a session."""

    messages: list[int]
    summaries: list[tuple[int, int, int]]
    items: list[ContextItem]
    raw: int
    summary: int


def counted(engine: Engine, session: Session) -> Counted:
    with engine.store.read() as reader:
        [conversation] = reader.conversations()
        number = conversation.conversation_id
        heads = reader.heads(number, limit=1_000)
        summaries = reader.list_summaries(number)
    return Counted(
        [head.tokens for head in heads],
        [(s.tokens, s.source_tokens, s.message_tokens) for s in summaries],
        engine.context_items(session),
        conversation.raw_tokens,
        conversation.summary_tokens,
    )


def filled(engine: Engine, session: Session) -> None:
    engine.ingest(session, [{"role": "system", "content": "Be kind, and brief."}, *turns(40)])
    engine.ingest(
        session, [user("look"), call("c1"), result("c1", "found " * 900), assistant("There it is.")]
    )
    assert engine.compact(session, force=True, budget=4_000).compacted


def test_rows_that_were_counted_from_above_are_counted_again(
    open_engine: Open, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        text = TokenCounter.text
        patch.setattr(TokenCounter, "text", lambda self, words: 2 * text(self, words))
        engine = open_engine(**SMALL)
        filled(engine, session)
    wrong = counted(engine, session)
    assert not engine.recount.finished
    events: list[tuple[str, object]] = []
    engine.subscribe(lambda event: events.append((event.name, event.fields.get("rows"))))
    engine.schedule_compaction(session, 1_000_000)
    assert engine.wait_idle(60)
    assert engine.recount.finished
    right = counted(engine, session)
    assert sum(right.messages) < 0.7 * sum(wrong.messages)
    assert right.messages == [engine.count_tokens(one) for one in engine.messages(session)]
    assert (right.raw, right.summary) < (wrong.raw, wrong.summary)
    assert engine.check().findings == ()
    assert [name for name, _ in events if name == "tokens.recounted"] == ["tokens.recounted"]


def test_it_goes_on_where_it_was_stopped_and_is_done_once(open_engine: Open, session: Session) -> None:
    engine = open_engine(**SMALL)
    filled(engine, session)
    before = counted(engine, session)
    engine.recount.run(lambda: True)
    assert not engine.recount.finished
    engine.recount.run(lambda: False)
    assert engine.recount.finished
    assert counted(engine, session) == before, "what was counted by the encoding stays as it is"
    with engine.store.read() as reader:
        assert reader.guard("encoding") == {"name": ENCODING}
