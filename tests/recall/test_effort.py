"""Searches that a person waits for: what very many rows hold is looked for in the newest of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from messages import user

from lcm_plugin import Engine, Session
from lcm_plugin.recall.textsearch import THOROUGH, Effort

pytestmark = pytest.mark.both_stores_under_ci

BOUNDED = Effort(proposed=20)
COMMON, RARE = range(60), (3, 17)


@pytest.fixture
def search(engine: Engine, session: Session) -> Callable[..., dict[str, Any]]:
    """Searches 60 messages that hold "harbour", of which two hold "zebra" too."""
    texts = [f"harbour number{n} {'zebra' if n in RARE else ''}" for n in COMMON]
    engine.ingest(session, [user(text) for text in texts])

    def run(pattern: str, effort: Effort = BOUNDED, **more: Any) -> dict[str, Any]:
        asked = {"pattern": pattern, "limit": 10, "context": 0, "scope": "messages", **more}
        return engine.recall.call(session, "lcm_grep", asked, effort=effort)

    return run


def ids(answer: dict[str, Any]) -> list[str]:
    return [hit["id"] for hit in answer["hits"]]


def test_the_newest_rows_come_for_a_word_that_too_many_hold(search: Callable[..., dict[str, Any]]) -> None:
    found = search("harbour")
    assert ids(found) == [f"msg_{60 - n}" for n in range(10)]
    seen = ids(found)
    while "next_cursor" in found:
        found = search("harbour", cursor=found["next_cursor"])
        seen += ids(found)
    assert sorted(seen, key=lambda ref: int(ref[4:])) == [f"msg_{n + 1}" for n in COMMON]
    assert found["total"] == len(COMMON)


def test_rows_with_a_rare_word_come_first_and_the_others_follow(
    search: Callable[..., dict[str, Any]],
) -> None:
    found = search("zebra harbour", limit=30)
    assert set(ids(found)[:2]) == {f"msg_{n + 1}" for n in RARE}
    assert len(set(ids(found))) == 30
    assert set(ids(search("harbour zebra", THOROUGH, limit=2))) == {f"msg_{n + 1}" for n in RARE}


@pytest.mark.parametrize("pattern", ["zebra", "number7", '"harbour number7"', "harbour zebra", "nothing"])
@pytest.mark.parametrize("sort", ["relevance", "recency"])
def test_what_few_rows_hold_is_ranked_as_without_a_bound(
    search: Callable[..., dict[str, Any]], pattern: str, sort: str
) -> None:
    bounded, thorough = (search(pattern, effort, sort=sort, limit=2) for effort in (BOUNDED, THOROUGH))
    assert ids(bounded) == ids(thorough)


def test_a_small_session_is_searched_alone_in_a_large_database(engine: Engine, session: Session) -> None:
    other = Session("agent:other:main")
    for n in range(3):
        engine.ingest(other, [user(f"harbour of others {n}.{m}") for m in range(20)])
        engine.ingest(session, [user(f"my harbour {n}")])
    found = engine.call_tool(session, "lcm_grep", {"pattern": "harbour", "all_conversations": False})
    assert len(found["hits"]) == found["total"] == 3
    assert all("my" in hit["snippet"] for hit in found["hits"])
    silent = Session("agent:main:silent")
    engine.ingest(silent, [user("not a word of it")])
    asked = {"pattern": "harbour", "all_conversations": False}
    assert engine.call_tool(silent, "lcm_grep", asked)["hits"] == []
