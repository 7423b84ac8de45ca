"""Reading one thing by its id, whole, page by page."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from messages import assistant, call, result, user

from lcm_plugin import Engine, Session

pytestmark = pytest.mark.both_stores_under_ci


def describe(engine: Engine, session: Session, ref: Any, **arguments: Any) -> dict[str, Any]:
    return engine.call_tool(session, "lcm_describe", {"id": ref, **arguments})


def refs(engine: Engine, session: Session) -> list[str]:
    return [item.id for item in engine.context_items(session)]


def read_all(engine: Engine, session: Session, ref: str, cap: int = 100) -> str:
    """A message's or file's text, page by page."""
    text, offset = "", 0
    while True:
        page = describe(engine, session, ref, offset=offset, token_cap=cap)
        text += page["content"] if "content" in page else "".join(part["text"] for part in page["parts"])
        if "next_offset" not in page:
            return text
        assert page["next_offset"] > offset
        offset = page["next_offset"]


@pytest.fixture
def compacted(open_engine: Callable[..., Engine], session: Session) -> Engine:
    engine = open_engine(
        leaf_chunk_tokens=300, fresh_tail_count=4, leaf_target_tokens=80, condensed_target_tokens=100
    )
    engine.ingest(session, [user(f"On day {n} the heron of pond {n} caught {n} fish.") for n in range(160)])
    engine.compact(session, force=True)
    return engine


def test_a_message_is_read_word_for_word(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("  héllo\n\tworld 静 \n", name="Ann")])
    view = describe(engine, session, "msg_1")
    assert view["content"] == "  héllo\n\tworld 静 \n"
    assert (view["role"], view["sender"], view["kind"]) == ("user", "Ann", "message")


@pytest.mark.parametrize("text", ["word " * 5_000, "静" * 3_000, "x" * 20_000, "🚀é\n" * 2_000])
def test_a_long_message_comes_in_pages_that_join_to_the_whole(
    engine: Engine, session: Session, text: str
) -> None:
    engine.ingest(session, [user(text)])
    assert read_all(engine, session, "msg_1", 1_000) == text


def test_a_page_stays_within_its_cap(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("several words of text " * 2_000)])
    page = describe(engine, session, "msg_1", token_cap=200)
    assert engine.count_tokens(page["content"]) <= 200
    assert page["truncated"]


def test_a_page_is_never_larger_than_the_setting(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine(max_expand_tokens=300)
    engine.ingest(session, [user("several words of text " * 2_000)])
    page = describe(engine, session, "msg_1", token_cap=100_000)
    assert engine.count_tokens(page["content"]) <= 300


def test_the_parts_of_a_message_are_shown(engine: Engine, session: Session) -> None:
    engine.ingest(
        session, [user("go"), call("c1", "look", '{"at": "pond"}', "I look"), result("c1", "water")]
    )
    view = describe(engine, session, "msg_2")
    assert [(part["path"], part["text"]) for part in view["parts"]] == [
        ("content", "I look"),
        ("tool_calls.0.function.arguments", '{"at": "pond"}'),
    ]
    assert view["parts"][1]["tool_name"] == "look"
    assert describe(engine, session, "msg_3")["content"] == "water"


def test_what_a_database_cannot_hold_is_given_escaped(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("a\x00b\ud83d")])
    assert json.loads(describe(engine, session, "msg_1")["exact"]) == "a\x00b\ud83d"


def test_other_keys_of_a_message_are_shown(engine: Engine, session: Session) -> None:
    engine.ingest(session, [assistant("hi", custom={"deep": [1, 2]})])
    assert describe(engine, session, "msg_1")["other_keys"] == {"custom": {"deep": [1, 2]}}


def test_a_summary_tells_what_it_covers_and_what_it_was_made_of(compacted: Engine, session: Session) -> None:
    top = refs(compacted, session)[0]
    view = describe(compacted, session, top)
    assert view["id"] == top
    assert view["depth"] >= 1
    assert view["covered"].startswith("msg_1-msg_")
    assert view["level"] == "extractive"
    assert [cost["depth"] for cost in view["source_costs"]] == [view["depth"] - 1] * len(view["source_costs"])
    assert len(view["sources"].split()) == len(view["source_costs"])
    source = describe(compacted, session, view["sources"].split()[0])
    assert [one["id"] for one in source["derived"]] == [top]


def test_a_copied_reference_is_understood(compacted: Engine, session: Session) -> None:
    text = next(
        m["content"] for m in compacted.assemble(session, 20_000).messages if "<summary " in m["content"]
    )
    assert describe(compacted, session, text)["id"] == refs(compacted, session)[0]


def test_several_ids_come_together(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("one"), user("two"), user("three")])
    for ids in (["msg_1", "msg_3"], "msg_1, msg_3", "msg_1 and msg_3"):
        assert [item["content"] for item in describe(engine, session, ids)["items"]] == ["one", "three"]
    assert len(describe(engine, session, "msg_1-msg_3")["items"]) == 3


def test_several_ids_share_the_cap(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("word " * 150) for _ in range(5)])
    answer = describe(engine, session, "msg_1-msg_5", token_cap=200)
    assert len(answer["items"]) < 5
    assert [item["id"] for item in answer["items"]] + answer["continue_with"] == [
        f"msg_{n}" for n in range(1, 6)
    ]


def test_a_file_is_described_and_read(open_engine: Callable[..., Engine], session: Session) -> None:
    engine = open_engine(large_file_token_threshold=1_000)
    lines = [f"line {n}: the heron number {n} sleeps" for n in range(1, 801)]
    text = "\n".join(lines)
    engine.ingest(session, [user("look"), call("c1"), result("c1", text)])
    reference = describe(engine, session, "msg_3")["content"]
    view = describe(engine, session, reference.splitlines()[0])
    assert view["kind"] == "file"
    assert view["bytes"] == len(text)
    assert view["complete"]
    assert read_all(engine, session, view["id"], 3_000) == text
    part = describe(engine, session, view["id"], start_line=10, end_line=12)
    assert part["content"].splitlines() == lines[9:12]
    raw = describe(engine, session, view["id"], start_byte=0, end_byte=6)
    assert base64.b64decode(raw["base64"]) == b"line 1"
    assert "are empty" in describe(engine, session, view["id"], start_line=5_000)["error"]


def test_text_inside_files_is_searched(open_engine: Callable[..., Engine], session: Session) -> None:
    engine = open_engine(large_file_token_threshold=1_000)
    text = "\n".join(f"line {n}: nothing" if n != 333 else "line 333: the ibis landed" for n in range(800))
    engine.ingest(session, [user("look"), call("c1"), result("c1", text)])
    for arguments in ({"pattern": "ibis"}, {"pattern": r"ibis \w+", "mode": "regex"}):
        hits = engine.call_tool(session, "lcm_grep", arguments | {"scope": "files"})["hits"]
        assert [(hit["kind"], hit["line"]) for hit in hits] == [("file", 334)]
    file_id = hits[0]["id"]
    one = engine.call_tool(
        session, "lcm_grep", {"pattern": "ibis", "file_ids": [f"[LCM File: {file_id} | x"]}
    )
    assert len(one["hits"]) == 1
    missing = engine.call_tool(
        session, "lcm_grep", {"pattern": "ibis", "file_ids": ["file_0123456789abcdef"]}
    )
    assert missing["error_code"] == "NOT_FOUND"


def test_a_fact_inside_a_text_that_moved_is_found_by_a_plain_search(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine(large_file_token_threshold=1_000)
    text = "\n".join(f"row {n}: nothing" if n != 333 else "row 333: the ibis landed" for n in range(800))
    engine.ingest(session, [user("look"), call("c1"), result("c1", text), user("what of the heron?")])
    for arguments in ({"pattern": "ibis landed"}, {"pattern": "ibis", "mode": "regex"}):
        found = engine.call_tool(session, "lcm_grep", arguments)
        assert [(hit["kind"], hit["line"]) for hit in found["hits"]] == [("file", 334)]
        assert (found["total"], found["total_is_exact"]) == (1, True)
    assert "**ibis** landed" in engine.command(session, "/lcm grep ibis").text
    assert "ibis" in str(
        engine.call_tool(session, "lcm_expand_query", {"prompt": "where did the ibis land?"})
    )
    both = engine.call_tool(session, "lcm_grep", {"pattern": "heron ibis"})
    assert [hit["kind"] for hit in both["hits"]] == ["message", "file"]


def test_files_that_were_left_out_of_a_search_are_counted(
    open_engine: Callable[..., Engine], session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine(large_file_token_threshold=1_000)
    for number in range(5):
        text = "\n".join(f"file {number} row {n}: nothing" for n in range(400))
        engine.ingest(session, [call(f"c{number}"), result(f"c{number}", text)])
    asked = {"pattern": "ibis", "roles": ["tool"]}
    found = engine.call_tool(session, "lcm_grep", asked)
    assert not found["total_is_exact"]
    assert any(note.startswith("5 file(s) were not searched") for note in found["notices"])
    monkeypatch.setattr("lcm_plugin.recall.grep.MOST_FILES", 2)
    found = engine.call_tool(session, "lcm_grep", {"pattern": "ibis"})
    assert any(note.startswith("3 file(s) were not searched") for note in found["notices"])
    monkeypatch.setattr("lcm_plugin.recall.grep.FILES_SECONDS", 0.0)
    found = engine.call_tool(session, "lcm_grep", {"pattern": "ibis"})
    assert any(note.startswith("5 file(s) were not searched") for note in found["notices"])
