"""The views: what a person asks a database with any SQL tool, on both databases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from databases import RawDatabase
from messages import assistant, call, result, user

from lcm_plugin import Engine, Session

pytestmark = pytest.mark.both_stores

SETTINGS = {"fresh_tail_count": 1, "leaf_chunk_tokens": 200, "leaf_min_fanout": 2, "condensed_min_fanout": 2}
FINISH = {"type": "step-finish", "reason": "stop", "cost": 0.02, "tokens": {"input": 10, "output": 5}}
BLOCKS = [
    {"type": "step-start", "snapshot": "abc"},
    {"type": "text", "text": "go"},
    {
        "type": "tool",
        "callID": "c1",
        "tool": "bash",
        "state": {"status": "completed", "input": {"cmd": "ls"}, "output": "a\nb", "title": "List"},
    },
    {
        "type": "tool",
        "callID": "c2",
        "tool": "bash",
        "state": {"status": "error", "input": {"cmd": "rm"}, "error": "denied"},
    },
    {"type": "patch", "hash": "deadbeef", "files": ["a.py", "b.py"]},
    {"type": "subtask", "prompt": "do it", "description": "sub", "agent": "general"},
    FINISH,
    {"type": "snapshot", "snapshot": "s1"},
]


@pytest.fixture
def ask(
    open_engine: Callable[..., Engine], raw_database: Callable[..., RawDatabase], session: Session
) -> Callable[[list[dict[str, Any]], str], list[Any]]:
    """Stores messages and returns the answer to a question about them."""

    def answer(messages: list[dict[str, Any]], question: str) -> list[Any]:
        open_engine(**SETTINGS).ingest(session, messages)
        return [tuple(row) for row in raw_database().rows(question)]

    return answer


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (
            "tool_name, tool_status, tool_input FROM parts WHERE tool_call_id = 'c1'",
            ("bash", "completed", '{"cmd":"ls"}'),
        ),
        ("tool_output, tool_title FROM parts WHERE tool_output IS NOT NULL", ("a\nb", "List")),
        (
            "tool_call_id, tool_error FROM parts WHERE tool_status = 'error' AND tool_input IS NULL",
            ("c2", "denied"),
        ),
        ("patch_hash, patch_files FROM parts WHERE type = 'patch'", ("deadbeef", '["a.py","b.py"]')),
        (
            "subtask_prompt, subtask_desc, subtask_agent FROM parts WHERE type = 'subtask'",
            ("do it", "sub", "general"),
        ),
        (
            "sum(step_cost) * 100, sum(step_tokens_in), sum(step_tokens_out), min(step_reason) FROM parts",
            (2, 10, 5, "stop"),
        ),
        ("snapshot_hash FROM parts WHERE type = 'snapshot'", ("s1",)),
        ("snapshot_hash FROM parts WHERE type = 'step_start'", ("abc",)),
        ("session_key, session_id FROM parts WHERE type = 'text'", ("agent:main:main", "run-1")),
    ],
)
def test_parts_have_the_fields_of_their_blocks(
    ask: Callable[..., list[Any]], question: str, answer: tuple[Any, ...]
) -> None:
    found = ask([{"role": "assistant", "content": BLOCKS}], f"SELECT {question}")
    assert found[0] == answer


def test_parts_of_other_providers_have_input_output_and_failure(ask: Callable[..., list[Any]]) -> None:
    messages = [
        call("t1", arguments='{"a":1}'),
        result("t1", "out"),
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "u1", "name": "shell", "input": {"a": 1}}],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "u1", "content": "no", "is_error": True}],
        },
    ]
    rows = ask(messages, "SELECT tool_call_id, tool_input, tool_output, tool_status FROM parts ORDER BY seq")
    assert rows == [
        ("t1", '{"a":1}', None, None),
        ("t1", None, "out", None),
        ("u1", '{"a":1}', None, None),
        ("u1", None, "no", "error"),
    ]


def test_parts_name_files_and_mark_what_is_ignored(ask: Callable[..., list[Any]]) -> None:
    content = [
        {"type": "text", "text": "hello", "ignored": True, "synthetic": False},
        {"type": "text", "text": "there", "synthetic": True},
        {"type": "file", "mime": "image/png", "filename": "a.png", "url": "https://example.org/a.png"},
    ]
    rows = ask(
        [{"role": "user", "content": content}, user("plain")],
        "SELECT type, is_ignored, is_synthetic, file_mime, file_name, file_url FROM parts ORDER BY seq, ordinal",
    )
    assert rows == [
        ("text", True, False, None, None, None),
        ("text", False, True, None, None, None),
        ("file", False, False, "image/png", "a.png", "https://example.org/a.png"),
        ("text", False, False, None, None, None),
    ]


def test_parts_can_be_read_although_a_message_is_damaged(
    open_engine: Callable[..., Engine], raw_database: Callable[..., RawDatabase], session: Session
) -> None:
    open_engine().ingest(session, [{"role": "assistant", "content": BLOCKS}])
    raw = raw_database()
    raw.change("UPDATE messages SET skeleton = ?", "{half")
    assert len(raw.rows("SELECT tool_title FROM parts")) == 10


def test_talk_reads_as_it_was_said(ask: Callable[..., list[Any]]) -> None:
    messages = [user("What time is it?"), assistant("Noon.", reasoning_content="I wonder.")]
    rows = ask(messages, "SELECT session_key, seq, role, text, at FROM talk ORDER BY seq")
    assert [row[:4] for row in rows] == [
        ("agent:main:main", 1, "user", "What time is it?"),
        ("agent:main:main", 2, "assistant", "Noon."),
    ]
    assert rows[0][4] == "2026-05-28T20:26:40.000Z"


def test_the_tree_and_the_context_show_what_stands_for_what(
    open_engine: Callable[..., Engine], raw_database: Callable[..., RawDatabase], session: Session
) -> None:
    engine = open_engine(**SETTINGS)
    engine.ingest(session, [user(f"{number} " + "some words of a long talk " * 8) for number in range(40)])
    assert engine.compact(session, force=True, budget=2_000).passes
    raw = raw_database()
    tree = raw.rows("SELECT summary_id, depth, condensed_into, sources, in_context FROM summary_tree")
    assert {row[1] for row in tree} >= {0, 1}
    by_id = {row[0]: row for row in tree}
    for summary_id, depth, into, sources, in_context in tree:
        assert sources
        assert bool(in_context) is (into is None)
        assert into is None or by_id[into][1] == depth + 1, summary_id
    items = raw.rows("SELECT item_type, summary_id, text FROM context_now ORDER BY ordinal")
    assert len(items) == len(engine.context_items(session))
    assert {row[1] for row in items if row[0] == "summary"} == {row[0] for row in tree if row[4]}
    assert all(row[2] for row in items)
    engine.reset_session(session)
    assert not raw.rows("SELECT 1 FROM context_now")


def test_a_view_that_is_missing_is_found_and_made_again(
    open_engine: Callable[..., Engine], raw_database: Callable[..., RawDatabase], session: Session
) -> None:
    engine = open_engine()
    raw_database().change("DROP VIEW talk")
    with engine.store.read() as reader:
        assert [fault.ref for fault in reader.schema_faults()] == ["talk"]
    with engine.store.write() as writer:
        assert writer.restore_schema() == 1
    assert raw_database().rows("SELECT count(*) FROM talk") == [(0,)]
