"""What an agent may map: stored files, summaries, times; and where the answers are found again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from messages import call, result, user

from lcm_plugin import Engine, Session
from lcm_plugin.errors import ModelError
from lcm_plugin.maps.source import MapSource
from lcm_plugin.maps.tools import MAP_TOKENS, REDUCE_TOKENS
from lcm_plugin.types import CompletionRequest

Open = Callable[..., Engine]
TEXT = {"type": "string"}


def echo(request: CompletionRequest) -> str:
    """Answers with the item's first line."""
    return json.dumps(str(request.messages[1]["content"]).split("\n")[1])


def mapped(engine: Engine, session: Session, **arguments: Any) -> list[str]:
    """The items of a map that an agent makes."""
    made = engine.call_tool(session, "lcm_map", {"prompt": "Which?", "schema": TEXT, **arguments})
    assert "handle" in made, made
    return [item.content for item in engine.maps.items(made["handle"])]


FILES = {
    "lines": ("\n".join(f"line {n} about herons" for n in range(300)), 300, "line 0 about herons"),
    "csv": (
        "id,text\n" + "".join(f"{n},the heron sleeps\n" for n in range(300)),
        300,
        '{"id": "0", "text": "the heron sleeps"}',
    ),
    "json": (
        json.dumps([{"id": n, "bird": "heron"} for n in range(300)]),
        300,
        '{"id": 0, "bird": "heron"}',
    ),
    "markdown": (
        "".join(f"# Heron {n}\nIt sleeps.\n\n" for n in range(300)),
        300,
        "# Heron 0\nIt sleeps.",
    ),
}


@pytest.mark.parametrize("split", FILES)
def test_a_stored_file_is_mapped_by_its_parts(open_engine: Open, session: Session, split: str) -> None:
    engine = open_engine(completer=echo, maps=True, large_file_token_threshold=1_000)
    text, number, first = FILES[split]
    engine.ingest(session, [user("look"), call("c1"), result("c1", text)])
    shown = engine.call_tool(session, "lcm_describe", {"id": "msg_3"})["content"]
    [file_id, *_] = re.findall(r"file_[0-9a-f]{16}", shown)
    items = mapped(engine, session, ids=[file_id], split=split)
    assert (len(items), items[0]) == (number, first)


def test_a_summary_stands_for_the_messages_that_it_was_made_from(open_engine: Open, session: Session) -> None:
    engine = open_engine(maps=True, fresh_tail_count=4, leaf_chunk_tokens=900, leaf_target_tokens=200)
    engine.ingest(session, [user(f"Heron {n}. {'It sleeps. ' * 20}") for n in range(30)])
    assert engine.compact(session, force=True, budget=3_000).passes
    [first, *_] = [one.id for one in engine.context_items(session) if one.kind == "summary"]
    with engine.store.read() as reader:
        sources, waiting = list[int](), [first]
        while waiting:
            sources += reader.source_messages(waiting[0])
            waiting = [*waiting[1:], *reader.source_summaries(waiting[0])]
    assert len(sources) > 3
    items = mapped(engine, session, ids=[first])
    assert [item.split(".")[0] for item in items] == [f"user: Heron {n - 1}" for n in sorted(sources)]


def test_messages_of_a_month_are_mapped(open_engine: Open, session: Session) -> None:
    engine = open_engine(completer=echo, maps=True)
    days = ("2026-02-28T23:00:00Z", "2026-03-01T08:00:00Z", "2026-03-31T20:00:00Z", "2026-04-01T00:00:00Z")
    engine.ingest(session, [user(f"on {day[:10]}", created_at=day) for day in days])
    items = mapped(engine, session, since="2026-03-01", before="2026-04-01")
    assert items == ["user: on 2026-03-01", "user: on 2026-03-31"]


def test_rows_of_a_map_are_searched_and_read_by_their_places(open_engine: Open, session: Session) -> None:
    engine = open_engine(completer=echo, maps=True)
    items = [(f"item {n}", f"row {n} is\nabout {'an ibis' if n == 33 else 'herons'}") for n in range(1, 61)]
    record = engine.map(session, MapSource(items=items), "Which?", TEXT)
    for arguments in ({"pattern": "ibis"}, {"pattern": "an ib[a-z]s", "mode": "regex"}):
        found = engine.call_tool(session, "lcm_grep", arguments | {"file_ids": [record.map_id]})
        [hit] = found["hits"]
        assert (hit["kind"], hit["id"], hit["line"]) == ("map", record.map_id, 33)
    row = engine.call_tool(session, "lcm_describe", {"id": record.map_id, "offset": hit["line"] - 1})["rows"][
        0
    ]
    assert (row["ref"], row["answer"]) == ("item 33", "row 33 is")
    other = Session("agent:other:main", "x")
    engine.ingest(other, [user("hello"), user("what of it?")])
    refused = engine.call_tool(other, "lcm_grep", {"pattern": "ibis", "file_ids": [record.map_id]})
    assert refused["error_code"] == "NOT_FOUND"


@pytest.mark.parametrize("word", ["longish ", "長い言葉", "🜁"])
def test_answers_of_the_tools_keep_their_caps_whatever_stands_in_a_map(
    open_engine: Open, session: Session, word: str
) -> None:
    def model(request: CompletionRequest) -> str:
        if "bad" in str(request.messages[1]["content"]):
            raise ModelError(word * 200)
        return json.dumps({"a": word * 200, "b": [word * 50] * 9})

    schema = {"type": "object", "properties": {"a": TEXT, "b": {"type": "array"}}}
    engine = open_engine(completer=model, maps=True)
    items = [(f"{word * 30}{n}", f"{'bad' if n % 2 else 'good'} {n}") for n in range(40)]
    made = engine.maps.create(session, MapSource(items=items), f"{word * 100}?", schema)
    engine.maps.run(made.map_id)
    shown = engine.call_tool(session, "lcm_map", {"handle": made.map_id})
    assert shown["sample"]
    assert shown["errors"]

    def size(answer: Any) -> int:
        return engine.count_tokens(json.dumps(answer, ensure_ascii=False))

    assert size(shown) <= MAP_TOKENS
    named = f"SELECT a AS '{word * 100}', a, a, a, a, a, a, a FROM answers"  # noqa: S608 - a word of the test
    for sql in ("SELECT * FROM answers", named):
        counted = engine.call_tool(session, "lcm_reduce", {"handles": [made.map_id], "sql": sql})
        assert counted["rows"]
        assert size(counted) <= REDUCE_TOKENS
    many = ", ".join(f"1 AS '{word * 5}{n}'" for n in range(90))
    refused = engine.call_tool(session, "lcm_reduce", {"handles": [made.map_id], "sql": f"SELECT {many}"})
    assert "name fewer" in refused["error"]
    read = engine.call_tool(session, "lcm_describe", {"id": made.map_id, "token_cap": 400})
    assert read["rows"]
    assert size(read) <= 600
