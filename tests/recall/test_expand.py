"""From summaries down to their messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from messages import call, result, user

from lcm_plugin import Engine, Session

pytestmark = pytest.mark.both_stores_under_ci


def expand(engine: Engine, session: Session, **arguments: Any) -> dict[str, Any]:
    return engine.call_tool(session, "lcm_expand", arguments)


@pytest.fixture
def compacted(open_engine: Callable[..., Engine], session: Session) -> Engine:
    engine = open_engine(
        leaf_chunk_tokens=300, fresh_tail_count=4, leaf_target_tokens=80, condensed_target_tokens=100
    )
    messages = []
    for n in range(60):
        messages += [
            user(f"On day {n} look at pond {n}."),
            call(f"c{n}"),
            result(f"c{n}", f"heron {n} caught {n} fish"),
        ]
    engine.ingest(session, messages)
    engine.compact(session, force=True)
    return engine


def top(engine: Engine, session: Session) -> str:
    return engine.context_items(session)[0].id


def test_one_level_gives_the_direct_sources(compacted: Engine, session: Session) -> None:
    answer = expand(compacted, session, summary_ids=[top(compacted, session)], token_cap=4_000)
    first, *rest = answer["items"]
    assert first["id"] == top(compacted, session)
    assert {item["depth"] for item in rest} == {first["depth"] - 1}
    assert answer["continue_with"] == [item["id"] for item in rest]


def test_deeper_levels_reach_the_messages(compacted: Engine, session: Session) -> None:
    items: list[dict[str, Any]] = []
    offset = 0
    while True:
        answer = expand(compacted, session, summary_ids=[top(compacted, session)], depth=9, offset=offset)
        assert answer["estimated_tokens"] <= 4_000
        items += answer["items"]
        if not answer["truncated"]:
            break
        assert answer["next_offset"] > offset
        offset = answer["next_offset"]
    texts = [item["content"] for item in items if item["kind"] == "message" and "content" in item]
    assert texts[0] == "On day 0 look at pond 0."
    assert "heron 0 caught 0 fish" in texts
    refs = [item["id"] for item in items]
    assert len(refs) == len(set(refs))


def test_messages_can_be_left_out(compacted: Engine, session: Session) -> None:
    answer = expand(
        compacted, session, summary_ids=[top(compacted, session)], depth=9, include_messages=False
    )
    assert {item["kind"] for item in answer["items"]} <= {"leaf", "condensed"}


def test_a_query_opens_the_summaries_that_fit(compacted: Engine, session: Session) -> None:
    answer = expand(compacted, session, query="pond 17")
    texts = " ".join(item.get("content", "") for item in answer["items"])
    assert "pond 17" in texts


def test_the_cap_of_the_setting_holds(
    compacted: Engine, open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine(max_expand_tokens=500)
    answer = expand(engine, session, summary_ids=[top(engine, session)], depth=9, token_cap=1_000_000)
    assert answer["estimated_tokens"] <= 500
    assert answer["truncated"]


def test_a_message_larger_than_the_cap_says_where_to_read_on(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine(leaf_min_fanout=1, fresh_tail_count=1, leaf_chunk_tokens=20_000)
    engine.ingest(session, [user("word " * 3_000), user("more " * 2_000), user("now")])
    engine.compact(session, force=True)
    answer = expand(engine, session, summary_ids=[top(engine, session)], token_cap=1_500)
    cut = next(item for item in answer["items"] if "read_on" in item)
    rest = engine.call_tool(
        session, "lcm_describe", {"id": cut["read_on"]["id"], "offset": cut["read_on"]["offset"]}
    )
    assert (cut["content"] + rest["content"]).startswith("word word")
    assert cut["content"] + rest["content"] == "word " * 3_000


@pytest.mark.parametrize("arguments", [{}, {"summary_ids": ["sum_0123456789abcdef"], "query": "x"}])
def test_ids_or_a_query_must_be_given(engine: Engine, session: Session, arguments: dict[str, Any]) -> None:
    assert "either summary_ids or query" in expand(engine, session, **arguments)["error"]
