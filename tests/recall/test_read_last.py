"""What a context of ours shows of two values: the newer one is read last, whatever a search showed between them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from fakes.speech import turn
from messages import assistant, call, result, user

from lcm_plugin import Engine, Session

OLD = "The boathouse is inspected on 3 March 2027 at 12:29 (slot 1033)."
NEW = "Correction: The boathouse is inspected on 465003."
QUESTION = "When is the boathouse inspected?"
SETTINGS: dict[str, Any] = {
    "fresh_tail_count": 20,
    "leaf_chunk_tokens": 400,
    "leaf_target_tokens": 40,
    "leaf_min_fanout": 2,
}


@pytest.fixture
def engine(open_engine: Callable[..., Engine]) -> Engine:
    return open_engine(**SETTINGS)


def tell(engine: Engine, session: Session) -> None:
    """Something is compacted; both values stand in view, in the order in which they were said."""
    for number in range(30):
        engine.ingest(session, [user(turn(number, 60)), assistant("Noted.")])
    for said in (OLD, NEW, "The orchard is green."):
        engine.ingest(session, [user(said), assistant("Noted.")])
    assert engine.compact(session, force=True).compacted


def search(engine: Engine, session: Session, pattern: str) -> str:
    """A turn in which the model searches; returns what it was answered."""
    found = json.dumps(engine.call_tool(session, "lcm_grep", {"pattern": f'"{pattern}"', "limit": 1}))
    name = f"call-{pattern}"
    asked = [user(f"Look for {pattern}."), call(name, "lcm_grep", json.dumps({"pattern": pattern}))]
    engine.ingest(session, [*asked, result(name, found), assistant("Found.")])
    return found


def quoted(engine: Engine, session: Session) -> str:
    """The quotes beside the question."""
    engine.ingest(session, [user(QUESTION)])
    said = [str(one.get("content")) for one in engine.assemble(session, 20_000).messages]
    engine.ingest(session, [assistant("I see.")])
    return "".join(text for text in said if text.startswith("<recalled>"))


def test_a_value_in_view_is_quoted_behind_the_older_one_that_a_search_showed(
    engine: Engine, session: Session
) -> None:
    tell(engine, session)
    found = search(engine, session, "slot 1033")
    assert OLD in found.replace("**", "")
    assert NEW not in found.replace("**", "")
    block = quoted(engine, session)
    assert NEW in block
    assert OLD not in block


def test_a_value_that_stands_behind_the_search_is_not_quoted_again(engine: Engine, session: Session) -> None:
    tell(engine, session)
    search(engine, session, "slot 1033")
    search(engine, session, "465003")
    assert quoted(engine, session) == ""
