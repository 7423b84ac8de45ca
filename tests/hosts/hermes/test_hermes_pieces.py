"""User messages that a host merged after a restart are told apart by what the host and the store have of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.hosts.hermes.messages import Merges, from_host
from lcm_plugin.hosts.hermes.pieces import pieces_of, replies_of

LANE = Session("agent:main:cli:s1", "s1")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def reply(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def pieces_of_text(engine: Engine, said: str, *recorded: dict[str, Any]) -> tuple[str, ...]:
    return pieces_of(engine, LANE, said, lambda: recorded)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine.open(LcmConfig(database=str(tmp_path / "lcm.db"))) as opened:
        opened.ingest(LANE, [user("one"), {"role": "assistant", "content": "Noted: one"}])
        yield opened


def test_what_follows_an_unanswered_message_is_new(engine: Engine) -> None:
    engine.ingest(LANE, [user("two")])
    assert pieces_of_text(engine, "two\n\nthree\n\nin two paragraphs") == (
        "two",
        "three\n\nin two paragraphs",
    )


def test_messages_that_stand_one_after_the_other_in_the_store_are_those_again(engine: Engine) -> None:
    engine.ingest(LANE, [user("two\n\nwith a break"), user("three"), {"role": "assistant", "content": "ok"}])
    assert pieces_of_text(engine, "two\n\nwith a break\n\nthree") == ("two\n\nwith a break", "three")


def test_a_message_is_itself_when_it_was_stored_as_a_whole_or_only_begins_like_another(
    engine: Engine,
) -> None:
    engine.ingest(LANE, [user("one\n\ntwo"), {"role": "assistant", "content": "ok"}])
    assert pieces_of_text(engine, "one\n\ntwo") == ("one\n\ntwo",)
    assert pieces_of_text(engine, "one\n\nthree") == ("one\n\nthree",)
    assert pieces_of(engine, Session("agent:main:cli:s2", "s2"), "one\n\ntwo", list) == ("one\n\ntwo",)


def test_a_message_that_only_the_host_heard_is_apart_from_the_next(engine: Engine) -> None:
    told = [user("one"), reply("Noted: one"), user("two\n\nwith a break")]
    said = "two\n\nwith a break\n\nthree\n\nfour"
    assert pieces_of_text(engine, said, *told) == ("two\n\nwith a break", "three\n\nfour")
    assert pieces_of_text(engine, said, *told, user("three"), user("four"), reply("ok")) == (
        "two\n\nwith a break",
        "three",
        "four",
    )


def test_the_host_knows_the_rest_of_which_the_store_has_the_beginning(engine: Engine) -> None:
    engine.ingest(LANE, [user("two")])
    told = [user("one"), reply("Noted: one"), user("two"), user("three")]
    assert pieces_of_text(engine, "two\n\nthree\n\nfour", *told) == ("two", "three", "four")


def test_what_the_host_recorded_as_one_message_or_answered_in_between_is_one(engine: Engine) -> None:
    assert pieces_of_text(engine, "two\n\nthree", user("two\n\nthree ")) == ("two\n\nthree",)
    assert pieces_of_text(engine, "two\n\nthree", user("two"), reply("ok"), user("three")) == (
        "two\n\nthree",
    )


def test_what_a_compaction_wrote_down_as_one_is_apart_again(engine: Engine) -> None:
    engine.ingest(LANE, [user("two"), user("three")])
    told = [user("one"), reply("Noted: one"), user("two\n\nthree")]
    assert pieces_of_text(engine, "two\n\nthree", *told) == ("two", "three")
    assert pieces_of_text(engine, "two\n\nthree\n\nfour", *told, user("four")) == ("two", "three", "four")


def test_a_recorded_message_that_begins_like_the_newest_one_is_another(engine: Engine) -> None:
    engine.ingest(LANE, [user("two")])
    told = [user("one"), reply("Noted: one"), user("two"), user("two\n\nand more")]
    assert pieces_of_text(engine, "two\n\ntwo\n\nand more", *told) == ("two", "two\n\nand more")


def test_a_new_session_asks_the_host_too(tmp_path: Path) -> None:
    with Engine.open(LcmConfig(database=str(tmp_path / "new.db"))) as opened:
        assert pieces_of_text(opened, "one\n\ntwo", user("one"), user("two")) == ("one", "two")


def calling(*ids: str, text: str = "") -> dict[str, Any]:
    calls = [{"id": one, "type": "function", "function": {"name": "todo", "arguments": "{}"}} for one in ids]
    return {"role": "assistant", "content": text, "tool_calls": calls}


def test_replies_that_the_host_merged_are_the_ones_it_recorded_in_the_stores_order(engine: Engine) -> None:
    engine.ingest(LANE, [user("two"), user("three"), reply("to three"), reply("to two\nin two lines")])
    told = [user("two"), user("three"), reply("to two\nin two lines"), reply("to three ")]
    merged = reply("to two\nin two lines\nto three")
    assert replies_of(engine, LANE, merged, lambda: told) == [told[3], told[2]]
    assert replies_of(engine, Session("agent:main:cli:s2", "s2"), merged, lambda: told) == told[2:]


def test_calls_that_the_host_merged_are_taken_apart_too(engine: Engine) -> None:
    told = [user("two"), calling("a"), calling("b", text="and that")]
    assert replies_of(engine, LANE, calling("a", "b", text="and that"), lambda: told) == told[1:]


def test_a_reply_that_is_stored_or_recorded_as_one_stays_one(engine: Engine) -> None:
    engine.ingest(LANE, [user("two"), reply("in\nlines")])
    told = [user("two"), reply("in"), reply("lines")]
    assert not replies_of(engine, LANE, reply("in\nlines"), lambda: told)
    assert not replies_of(engine, LANE, reply("other\nlines"), lambda: told)


def test_a_list_with_merged_replies_stands_for_the_talk_they_came_from() -> None:
    apart = [reply("one"), reply("two")]
    asked: list[str] = []

    def replies(merged: dict[str, Any]) -> list[dict[str, Any]]:
        asked.append(merged["content"])
        return apart

    merges = Merges(replies=replies)
    listing = [user("both"), reply("one\ntwo"), user("and now"), reply("a new one\nin two lines")]
    for _ in range(2):
        assert from_host(listing, merges) == [user("both"), *apart, *listing[2:]]
    assert asked == ["one\ntwo"]
