"""User messages that a host merged after a restart are told apart by what the store has of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.hosts.hermes.pieces import stored_pieces

LANE = Session("agent:main:cli:s1", "s1")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine.open(LcmConfig(database=str(tmp_path / "lcm.db"))) as opened:
        opened.ingest(LANE, [user("one"), {"role": "assistant", "content": "Noted: one"}])
        yield opened


def test_what_follows_an_unanswered_message_is_new(engine: Engine) -> None:
    engine.ingest(LANE, [user("two")])
    assert stored_pieces(engine, LANE, "two\n\nthree\n\nin two paragraphs") == (
        "two",
        "three\n\nin two paragraphs",
    )


def test_messages_that_stand_one_after_the_other_in_the_store_are_those_again(engine: Engine) -> None:
    engine.ingest(LANE, [user("two\n\nwith a break"), user("three"), {"role": "assistant", "content": "ok"}])
    assert stored_pieces(engine, LANE, "two\n\nwith a break\n\nthree") == ("two\n\nwith a break", "three")


def test_a_message_is_itself_when_it_was_stored_as_a_whole_or_only_begins_like_another(
    engine: Engine,
) -> None:
    engine.ingest(LANE, [user("one\n\ntwo"), {"role": "assistant", "content": "ok"}])
    assert stored_pieces(engine, LANE, "one\n\ntwo") == ("one\n\ntwo",)
    assert stored_pieces(engine, LANE, "one\n\nthree") == ("one\n\nthree",)
    assert stored_pieces(engine, Session("agent:main:cli:s2", "s2"), "one\n\ntwo") == ("one\n\ntwo",)
