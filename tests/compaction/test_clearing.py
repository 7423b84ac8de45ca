"""Old results that can be read again are cut to a few words before anything is summarised, and nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from databases import FreshDatabase
from effort import examples
from fakes.shell import run_here
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from messages import assistant, result, user

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.compaction.rereadable import only_reads
from lcm_plugin.config.defaults import READING_TOOLS
from lcm_plugin.messages.markup import stub_id_of
from lcm_plugin.messages.validate import validate
from lcm_plugin.types import Message

pytestmark = pytest.mark.both_stores_under_ci

Open = Callable[..., Engine]
BUDGET = 16_000
LONG = "src/harbour.py: def open_gate(ship): return ship.draught < 4\n" * 40
SMALL = {
    "fresh_tail_count": 8,
    "leaf_trigger_tokens": 2_000,
    "verbatim_tokens": 1_000,
    "active_recall": "off",
}


def made(call_id: str, tool: str, **arguments: Any) -> Message:
    function = {"name": tool, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


def turn(number: int, tool: str, text: Any = LONG, **arguments: Any) -> list[Message]:
    name = f"call_{number}"
    return [
        user(f"Question {number}?"),
        made(name, tool, **arguments),
        result(name, text),
        assistant(f"Answer {number}."),
    ]


def cleared_ids(engine: Engine, session: Session) -> set[str]:
    shown = engine.assemble(session, BUDGET).messages
    return {ref for message in shown if (ref := stub_id_of(str(message.get("content"))))}


def test_what_a_tool_gives_again_is_cleared_and_nothing_is_summarised(
    open_engine: Open, session: Session
) -> None:
    engine = open_engine(**SMALL)
    talk = [part for n in range(10) for part in turn(n, "read_file", path=f"{n}.py")]
    engine.ingest(session, talk)
    before = engine.assemble(session, BUDGET)
    done = engine.compact(session, budget=BUDGET)
    after = engine.assemble(session, BUDGET)
    assert done.compacted
    assert done.summaries == ()
    assert "old results cleared" in done.detail
    assert done.tokens_after == after.tokens + engine.count_tokens([talk[-1]]) < before.tokens
    assert after.tokens == engine.count_tokens(after.messages)
    assert engine.messages(session) == talk
    assert validate(after.messages) == []
    assert engine.check(session).findings == ()
    read = engine.call_tool(session, "lcm_expand", {"summary_ids": ["msg_3"]})
    assert LONG.strip() in json.dumps(read).replace("\\n", "\n")
    text = engine.command(session, "/lcm").text
    assert "cleared: " in text


@pytest.mark.parametrize(
    ("tool", "text", "arguments"),
    [
        ("write_file", LONG, {}),
        ("bash", LONG, {"command": "make install"}),
        ("read_file", "Error: no such file\n" + LONG, {}),
        ("bash", LONG + "exit code: 2", {"command": "cat a"}),
        ("read_file", json.dumps({"output": LONG, "exit_code": 1}), {}),
        ("read_file", "a short result", {}),
        ("todo_read", LONG, {}),
    ],
)
def test_what_was_done_failed_or_is_short_stays_whole(
    open_engine: Open, session: Session, tool: str, text: str, arguments: dict[str, Any]
) -> None:
    engine = open_engine(**SMALL, keep_latest_of=["todo*"])
    talk = turn(0, tool, text, **arguments)
    engine.ingest(session, [*talk, *(part for n in range(1, 10) for part in turn(n, "read_file"))])
    engine.compact(session, budget=BUDGET)
    assert cleared_ids(engine, session)
    assert talk[2] in engine.assemble(session, BUDGET).messages


def test_an_exit_state_in_the_middle_stays_in_view(open_engine: Open, session: Session) -> None:
    engine = open_engine(**SMALL)
    text = f"{'x ' * 60}\nexit code: 0\n{LONG[:200]}" + "y " * 150
    engine.ingest(session, turn(0, "bash", text, command="ls -l | head"))
    engine.ingest(session, [part for n in range(1, 10) for part in turn(n, "read_file")])
    engine.compact(session, budget=BUDGET)
    shown = next(m for m in engine.assemble(session, BUDGET).messages if m.get("tool_call_id") == "call_0")
    assert stub_id_of(shown["content"]) == "msg_3"
    assert "exit code: 0" in shown["content"]


def test_results_in_blocks_are_cleared_where_they_stand(open_engine: Open, session: Session) -> None:
    engine = open_engine(**SMALL)
    for n in range(10):
        use = {"type": "tool_use", "id": f"u{n}", "name": "mcp__files__get_text", "input": {}}
        given = {"type": "tool_result", "tool_use_id": f"u{n}", "content": [{"type": "text", "text": LONG}]}
        asked = {"type": "text", "text": f"And then {n}?"}
        engine.ingest(
            session,
            [
                user(f"Start {n}."),
                assistant([use]),
                {"role": "user", "content": [given, asked]},
                assistant("Ok."),
            ],
        )
    engine.compact(session, budget=BUDGET)
    shown = engine.assemble(session, BUDGET).messages
    first = next(
        m for m in shown if isinstance(m["content"], list) and m["content"][0]["type"] == "tool_result"
    )
    assert stub_id_of(str(first["content"][0]["content"])) == "msg_3"
    assert first["content"][1]["text"] == "And then 0?"
    assert validate(shown) == []


def test_nothing_is_cleared_without_tools_named(open_engine: Open, session: Session) -> None:
    engine = open_engine(**SMALL, clear_results_of=[])
    engine.ingest(session, [part for n in range(10) for part in turn(n, "read_file")])
    assert engine.compact(session, budget=BUDGET).summaries
    assert not cleared_ids(engine, session)


def test_the_running_turn_is_never_cleared(open_engine: Open, session: Session) -> None:
    engine = open_engine(**SMALL)
    engine.ingest(session, [user("Read all of it.")])
    for n in range(12):
        engine.ingest(session, turn(n, "read_file")[1:3])
    engine.compact(session, budget=BUDGET)
    assert not cleared_ids(engine, session)


def test_a_talk_without_such_results_is_compacted_as_without_clearing(open_engine: Open) -> None:
    shown = []
    for name, globs in (("on", list(READING_TOOLS)), ("off", [])):
        engine, session = open_engine(**SMALL, clear_results_of=globs), Session(f"agent:main:{name}")
        engine.ingest(session, [part for n in range(10) for part in turn(n, "write_file")])
        assert engine.compact(session, budget=BUDGET).summaries
        shown.append([message["role"] for message in engine.assemble(session, BUDGET).messages])
    assert shown[0] == shown[1]


def test_what_is_cleared_stays_so_over_new_its_undo_and_a_move_to_another_database(
    open_engine: Open, database: str, session: Session, tmp_path: Path
) -> None:
    engine = open_engine(**SMALL)
    engine.ingest(session, [part for n in range(10) for part in turn(n, "read_file")])
    engine.compact(session, budget=BUDGET)
    before = engine.assemble(session, BUDGET).messages
    assert engine.new_session(session, 0).dropped_messages
    assert engine.undo_new(session)
    assert engine.assemble(session, BUDGET).messages == before
    assert engine.check(session).findings == ()
    copy = tmp_path / "copy.db"
    done = run_here("migrate-store", database, copy)
    assert done.returncode == 0, done.stderr
    with Engine.open(LcmConfig(database=str(copy), **SMALL)) as moved:
        assert moved.assemble(session, BUDGET).messages == before


def test_an_undone_compaction_brings_its_sources_back_as_they_stood(
    open_engine: Open, session: Session
) -> None:
    engine = open_engine(**SMALL)
    engine.ingest(session, [part for n in range(10) for part in turn(n, "read_file")])
    engine.compact(session, budget=BUDGET)
    before = engine.assemble(session, BUDGET).messages
    assert engine.compact(session, budget=BUDGET, force=True).summaries
    assert not engine.undo_compaction(session).refusal
    assert engine.assemble(session, BUDGET).messages == before
    assert engine.check(session).findings == ()


@pytest.mark.long
@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    turns=st.lists(
        st.tuples(st.sampled_from(["read_file", "write_file", "search"]), st.integers(1, 60), st.booleans()),
        min_size=12,
        max_size=24,
    )
)
def test_contexts_only_grow_between_compactions_and_a_restart_shows_the_same(
    fresh_database: FreshDatabase, session: Session, turns: list[tuple[str, int, bool]]
) -> None:
    with fresh_database() as database, Engine.open(LcmConfig(database=database, **SMALL)) as engine:
        now = play(engine, session, turns)
        with Engine.open(LcmConfig(database=database, **SMALL)) as again:
            assert again.assemble(session, BUDGET).messages == now


def play(engine: Engine, session: Session, turns: list[tuple[str, int, bool]]) -> list[Message]:
    """Goes through the turns, compacts what is due, and returns the context at the end."""
    seen: list[Message] = []
    told: list[Message] = []
    for number, (tool, length, fails) in enumerate(turns):
        text = ("Error: " if fails else "") + LONG[:60] * length
        added = turn(number, tool, text)
        told += added
        engine.ingest(session, added[:3])
        shown = engine.assemble(session, BUDGET).messages
        assert shown[: len(seen)] == seen
        assert validate(shown) == []
        engine.ingest(session, added[3:])
        compacted = engine.evaluate(session, BUDGET).due and engine.compact(session, budget=BUDGET).compacted
        seen = [] if compacted else shown
    assert engine.messages(session) == told
    assert engine.check(session).findings == ()
    return engine.assemble(session, BUDGET).messages


@pytest.mark.parametrize(
    ("command", "reads"),
    [
        ("ls -la", True),
        ("git -C /srv log --oneline | head -3", True),
        ("cd src && grep -rn 'x' . 2>/dev/null", True),
        ("sed -n 1,40p a.py; wc -l a.py", True),
        ("sed -i s/a/b/ a.py", False),
        ("cat a > b", False),
        ("find . -name '*.pyc' -delete", False),
        ("git push", False),
        ("git push log", False),
        ("kubectl -n prod get pods", True),
        ("kubectl delete logs", False),
        ("grep -i 'a|b' a.py", True),
        ("grep 'open", False),
        ("fd x -x rm", False),
        ("sort -uo a a", False),
        ("ls\nrm x", False),
        ("ls\npwd", True),
        ("ls & rm x", False),
        ("cat <(rm x)", False),
        ("echo $(rm -r x)", False),
        ("python run.py", False),
        ("", False),
    ],
)
def test_a_shell_is_known_by_its_command(command: str, reads: bool) -> None:
    assert only_reads(READING_TOOLS, "Bash", json.dumps({"command": command})) is reads
    assert only_reads(READING_TOOLS, "shell", {"command": ["bash", "-lc", command]}) is reads
