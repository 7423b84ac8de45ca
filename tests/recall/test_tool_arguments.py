"""Whatever a model calls a tool with, the answer is a dict that a client can encode."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from messages import assistant, call, result, user

from lcm_plugin import Engine, Session
from lcm_plugin.recall.tools import (
    DescribeArguments,
    ExpandArguments,
    ExpandQueryArguments,
    GrepArguments,
    is_recall_tool,
)

pytestmark = pytest.mark.both_stores_under_ci

MODELS = {
    "lcm_grep": GrepArguments,
    "lcm_describe": DescribeArguments,
    "lcm_expand": ExpandArguments,
    "lcm_expand_query": ExpandQueryArguments,
}
EXAMPLES = examples(60)


def cyclic() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["me"] = [value]
    return value


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(5_000):
        value = [value]
    return value


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


ODD = [cyclic, deep, Hostile, lambda: 10**5000, lambda: b"\xff", lambda: datetime(2026, 5, 1), lambda: {1, 2}]
WORDS = ["lamp", "\ud83d", "a\ud83db", "\x00", "sum_", "msg_1", "msg_1-msg_99999999999999999999", "file_", "(", "a{1000}",
         "\\p{", "\"", "字", "2026-05-01", "yesterday", "..", "", " ", "*", "NEAR(", "-1", "e" * 5_000]  # fmt: skip
values = st.recursive(
    st.sampled_from(WORDS)
    | st.text(max_size=6)
    | st.integers()
    | st.sampled_from([2**31, 2**63, -(2**70), 10**30, 1e308, float("nan"), True, None])
    | st.sampled_from(["regex", "full_text", "summaries", "both", "files", "recency", "hybrid"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


def arguments(tool: str) -> st.SearchStrategy[dict[Any, Any]]:
    names = list(MODELS[tool].model_fields)
    needed = {"lcm_grep": "pattern", "lcm_describe": "id", "lcm_expand_query": "prompt"}.get(tool)
    known = st.fixed_dictionaries(
        {needed: st.sampled_from(WORDS) | values} if needed else {},
        optional={name: values for name in names if name != needed},
    )
    few = known.flatmap(
        lambda whole: st.lists(st.sampled_from([*whole, None]), max_size=3).map(
            lambda keep: {k: v for k, v in whole.items() if k in keep or k == needed}
        )
    )
    return few | st.dictionaries(st.text(max_size=5) | st.integers(), values, max_size=3)


@pytest.fixture
def talk(engine: Engine, session: Session) -> Engine:
    said = [
        user("where is the lamp?"),
        call("c1"),
        result("c1", "on the shelf " * 20),
        assistant("a lamp \ud83d"),
    ]
    engine.ingest(session, said * 3, "all")
    engine.compact(session, force=True)
    return engine


@pytest.mark.parametrize("tool", MODELS)
def test_every_argument_gets_an_answer(talk: Engine, session: Session, tool: str) -> None:
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(arguments(tool))
    def answered(given: dict[Any, Any]) -> None:
        assert_answered(talk.call_tool(session, tool, given))

    answered()


@pytest.mark.long
@pytest.mark.parametrize("tool", MODELS)
@pytest.mark.parametrize("make", ODD, ids=range(len(ODD)))
def test_what_is_no_json_gets_an_answer(
    talk: Engine, session: Session, tool: str, make: Callable[[], Any]
) -> None:
    for name in MODELS[tool].model_fields:
        assert "error" in assert_answered(
            talk.call_tool(session, tool, {"pattern": "x", "id": "x", name: make()})
        )
    assert "error" in assert_answered(talk.call_tool(session, tool, make()))


@pytest.mark.parametrize(
    "given",
    [
        {"pattern": "lamp", "tool_name": "\ud83d"},
        {"pattern": "\ud83d", "mode": "regex"},
        {"pattern": "lamp \ud83d"},
        {"pattern": "lamp", "roles": ["\ud83d"]},
        {"pattern": "lamp", "file_ids": ["\ud83d"], "scope": "files"},
        {"pattern": "lamp", "since": "\ud83d"},
        {"pattern": "lamp", "cursor": "\ud83d"},
        {"pattern": "lamp", "conversation_id": 2**70},
    ],
)
def test_a_lone_surrogate_or_a_huge_number_is_no_failure_of_the_search(
    talk: Engine, session: Session, given: dict[str, Any]
) -> None:
    answer = assert_answered(talk.call_tool(session, "lcm_grep", given))
    assert answer.get("error_code") in (None, "INVALID_ARGUMENTS", "NOT_FOUND")


def test_a_fault_inside_a_tool_is_an_error_result(
    talk: Engine, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> Any:
        raise ZeroDivisionError("a secret detail")

    monkeypatch.setattr(talk.recall, "_grep", failing)
    answer = talk.call_tool(session, "lcm_grep", {"pattern": "lamp"})
    assert answer == {"error": "the tool failed: ZeroDivisionError", "error_code": "FAILED"}


def assert_answered(answer: dict[str, Any]) -> dict[str, Any]:
    json.dumps(answer, ensure_ascii=False).encode()
    assert answer.get("error_code") != "FAILED"
    return answer


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("lcm_grep", True),
        ("mcp__lcm__lcm_expand", True),
        ("lcm_map", True),
        ("lcm_pin", True),
        ("grep", False),
        (None, False),
    ],
)
def test_the_answers_of_all_our_tools_are_known_by_their_names(name: str | None, own: bool) -> None:
    assert is_recall_tool(name) is own
