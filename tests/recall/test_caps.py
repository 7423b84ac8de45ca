"""The whole answer of every tool, as a host sends it, stays within its cap; paging returns all that did not fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from messages import assistant, call, result, user

from lcm_plugin import Engine, Session

pytestmark = pytest.mark.both_stores_under_ci

LONG = 'where the heron of the pond slept, "quoted"\n\tand 静かな池 🚀 \\ ' * 60
REPORT = "\n".join(f"line {n}: the heron number {n} sleeps in the willow" for n in range(900))
EXAMPLES = examples(60)


def tokens(engine: Engine, answer: dict[str, Any]) -> int:
    return engine.count_tokens(json.dumps(answer, ensure_ascii=False))


@pytest.fixture
def history(open_engine: Callable[..., Engine], session: Session) -> Engine:
    """Short and long messages, many parts, escapes, keys of the host's own, a file, and summaries over them."""
    engine = open_engine(
        large_file_token_threshold=5_000, leaf_chunk_tokens=900, fresh_tail_count=4, leaf_target_tokens=200
    )
    said = [user(f"On day {n} the heron caught {n} fish in pond {n}.", name="Ann") for n in range(60)]
    many = assistant(None, tool_calls=[])
    many["tool_calls"] = [
        {"id": f"c{n}", "type": "function", "function": {"name": "look", "arguments": f'{{"pond": "{n}"}}'}}
        for n in range(30)
    ]
    said += [
        user(LONG, name="Nadja " * 12),
        assistant(LONG, custom={"note": "x " * 900}),
        many,
        *(result(f"c{n}", f"water {n}\x00") for n in range(30)),
        call("f1"),
        result("f1", REPORT),
        *(user(f"the heron again, {n}: {LONG[: n * 40]}") for n in range(20)),
    ]
    engine.ingest(session, said)
    engine.compact(session, force=True)
    return engine


def test_every_answer_stays_within_its_cap(history: Engine, session: Session) -> None:
    count = len(history.messages(session))
    file_id = history.call_tool(session, "lcm_grep", {"pattern": "heron", "scope": "files"})["hits"][0]["id"]
    summary_ids = [item.id for item in history.context_items(session) if item.kind == "summary"]
    numbers = st.integers(1, count)
    ranges = st.tuples(numbers, numbers).map(lambda pair: f"msg_{min(pair)}-msg_{max(pair)}")
    ids = st.lists(
        numbers.map("msg_{}".format) | ranges | st.sampled_from([*summary_ids, file_id]),
        min_size=1,
        max_size=5,
    )
    caps = st.integers(100, 600) | st.integers(100, 4_000)
    asked = st.one_of(
        st.tuples(st.just("lcm_describe"), st.fixed_dictionaries({"id": ids, "token_cap": caps})),
        st.tuples(
            st.just("lcm_expand"),
            st.fixed_dictionaries({
                "summary_ids": st.lists(st.sampled_from(summary_ids), min_size=1, max_size=4),
                "depth": st.integers(0, 3), "offset": st.integers(0, 30), "token_cap": caps,
            }),
        ),
        st.tuples(
            st.just("lcm_grep"),
            st.fixed_dictionaries({
                "pattern": st.sampled_from(["heron", "where did the heron sleep?", "zzheron willoww pnod"]),
                "scope": st.sampled_from(["messages", "both", "summaries", "files"]),
                "limit": st.integers(1, 60), "context": st.integers(0, 3), "token_cap": st.integers(300, 4_000),
            }),
        ),
        st.tuples(
            st.just("lcm_expand_query"),
            st.fixed_dictionaries({
                "prompt": st.sampled_from(["heron", "where did the heron sleep?"]),
                "max_tokens": caps, "token_cap": caps,
            }),
        ),
    )  # fmt: skip

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(asked, st.none() | st.integers(1_200, 9_000))
    def fits(one: tuple[str, dict[str, Any]], most_chars: int | None) -> None:
        tool, arguments = one
        answer = history.call_tool(session, tool, arguments, most_chars)
        assert "error" not in answer, answer
        cap = arguments["max_tokens"] if tool == "lcm_expand_query" else arguments["token_cap"]
        assert tokens(history, answer) <= cap, answer
        assert most_chars is None or len(json.dumps(answer, ensure_ascii=False)) <= most_chars

    fits()


def test_the_default_answers_of_reading_tools_stay_within_the_setting(
    history: Engine, session: Session
) -> None:
    summaries = [item.id for item in history.context_items(session) if item.kind == "summary"]
    for tool, arguments in (
        ("lcm_expand", {"summary_ids": summaries, "depth": 9, "token_cap": 4_000}),
        ("lcm_describe", {"id": "msg_1-msg_60"}),
        ("lcm_describe", {"id": f"msg_1-msg_{len(history.messages(session))}"}),
    ):
        answer = history.call_tool(session, tool, arguments)
        assert answer["truncated"]
        assert 2_500 < tokens(history, answer) <= 4_000


def test_pages_for_a_receiver_of_few_characters_hold_every_hit_once(
    history: Engine, session: Session
) -> None:
    """A host that hands its model no more than so many characters gets pages of whole hits, also as its limit changes."""
    asked = {"pattern": "heron", "limit": 60}
    wide = [hit["id"] for hit in history.call_tool(session, "lcm_grep", asked)["hits"] if "line" not in hit]
    shown: list[str] = []
    cursor: dict[str, Any] = {}
    for most in [2_000, 3_000] * 60:
        answer = history.call_tool(session, "lcm_grep", asked | cursor, most)
        assert len(json.dumps(answer, ensure_ascii=False)) <= most
        shown += [hit["id"] for hit in answer["hits"]]
        if "next_cursor" not in answer:
            break
        cursor = {"cursor": answer["next_cursor"]}
    assert len(shown) == len(set(shown))
    assert [one for one in shown if one.startswith("msg_")][: len(wide)] == wide


@pytest.mark.parametrize("cap", [100, 260, 900])
def test_what_did_not_fit_is_named_and_read_on(history: Engine, session: Session, cap: int) -> None:
    count = len(history.messages(session))
    ids: list[str] = [f"msg_1-msg_{count}"]
    shown: list[str] = []
    while ids:
        answer = history.call_tool(session, "lcm_describe", {"id": ids, "token_cap": cap})
        # One left alone comes as itself.
        items = answer.get("items", [answer])
        shown += [item["id"] for item in items]
        if answer.get("not_named"):
            ids = [f"msg_{len(shown) + 1}-msg_{count}"]
        else:
            ids = answer.get("continue_with", [])
    assert shown == [f"msg_{n}" for n in range(1, count + 1)]


@pytest.mark.parametrize(
    ("scope", "cap"), [("messages", 300), ("both", 400), ("files", 300), ("files", 1_000)]
)
def test_pages_under_a_small_cap_hold_every_hit_once(
    history: Engine, session: Session, scope: str, cap: int
) -> None:
    asked = {"pattern": "heron", "scope": scope, "context": 0}
    wide = history.call_tool(session, "lcm_grep", asked | {"limit": 200})
    narrow: list[Any] = []
    cursor: dict[str, Any] = {}
    while True:
        answer = history.call_tool(session, "lcm_grep", asked | {"token_cap": cap} | cursor)
        assert answer["hits"]
        narrow += [(hit["id"], hit.get("line")) for hit in answer["hits"]]
        if "next_cursor" not in answer:
            break
        cursor = {"cursor": answer["next_cursor"]}
    found = [(hit["id"], hit.get("line")) for hit in wide["hits"]]
    assert len(narrow) == len(set(narrow))
    # The first page of messages also shows lines of files, as far as there is room.
    assert {one for one in found if one[1] is None or scope == "files"} <= set(narrow)
