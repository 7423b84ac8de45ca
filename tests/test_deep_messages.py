"""Whatever walks message data gets through any depth of nesting: each entry, from ingest to a copy of the database."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.shell import run_here

from lcm_plugin import Engine, LcmConfig, LcmPlugin, Session, Turn
from lcm_plugin.messages.validate import validate

pytestmark = pytest.mark.sqlite_only
LANE = Session("agent:main:deep", "run-1")
DEPTHS = [990, 3_000, pytest.param(100_000, marks=pytest.mark.long)]


def nested(depth: int, end: Any = "deep lantern") -> Any:
    for _ in range(depth):
        end = [end]
    return end


def call(arguments: Any) -> dict[str, Any]:
    function = {"name": "look", "arguments": arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
    }


RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "seen"}
FORMS: dict[str, Callable[[int], list[dict[str, Any]]]] = {
    "content": lambda depth: [{"role": "user", "content": nested(depth)}],
    "a block": lambda depth: [{"role": "user", "content": [{"type": "odd", "value": nested(depth)}]}],
    "another key": lambda depth: [{"role": "user", "content": "look", "extra": nested(depth)}],
    "arguments": lambda depth: [call({"places": nested(depth)}), RESULT],
    "arguments as text": lambda depth: [call("[" * depth), RESULT],
    "a result": lambda depth: [call("{}"), {**RESULT, "content": nested(depth)}],
    "a text": lambda depth: [{"role": "user", "content": "[" * depth + "]" * depth}],
}


@pytest.fixture(scope="module", params=DEPTHS)
def deep(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A conversation with one message of each form, and enough around them to be compacted."""
    config = LcmConfig(
        database=str(tmp_path_factory.mktemp("deep") / "lcm.db"),
        fresh_tail_count=2,
        leaf_chunk_tokens=400,
        leaf_min_fanout=2,
    )
    with Engine.open(config) as engine:
        said: list[dict[str, Any]] = []
        for name, make in FORMS.items():
            odd = make(request.param)
            talk = [
                {"role": "user", "content": f"about {name}"},
                *odd,
                {"role": "assistant", "content": "so it is"},
            ]
            report = engine.ingest(LANE, talk)
            assert report.stored == len(talk)
            assert report.broken == ()
            said += talk
        assert engine.ingest(LANE, said, "sync").stored == 0, "each is known again"
        yield engine


@pytest.mark.parametrize("budget", [2_000, 100_000])
def test_a_context_is_made_and_can_be_sent(deep: Engine, budget: int) -> None:
    context = deep.assemble(LANE, budget)
    assert validate([*context.messages, {"role": "user", "content": "and?"}]) == []
    json.dumps(context.messages, ensure_ascii=False).encode()


@pytest.mark.long
def test_the_hooks_take_and_show_it(deep: Engine) -> None:
    plugin = LcmPlugin(engine=deep)
    for name, make in FORMS.items():
        session = Session(f"agent:main:{name}")
        turn = Turn(session, [{"role": "user", "content": "begin"}, *make(3_000)], window=16_000)
        context = plugin.before_turn(turn)
        assert context is not None
        assert context.prefix_epoch, f"{name}: it is a context of ours"
        assert plugin.after_turn(turn) is None
        assert deep.messages(session)


def test_it_is_found_and_read(deep: Engine) -> None:
    for number in range(1, len(deep.messages(LANE)) + 1):
        assert "error" not in deep.call_tool(LANE, "lcm_describe", {"id": f"msg_{number}"})
    for mode in ("full_text", "regex"):
        assert "error" not in deep.call_tool(LANE, "lcm_grep", {"pattern": "lantern", "mode": mode})
    assert isinstance(deep.call_tool(LANE, "lcm_grep", {"pattern": nested(3_000)}), dict)
    assert isinstance(deep.call_tool(LANE, "lcm_expand_query", {"prompt": "what about the lantern?"}), dict)


def test_it_is_compacted_checked_and_copied(deep: Engine, tmp_path: Path) -> None:
    assert deep.compact(LANE, force=True, budget=2_000).compacted
    assert deep.check(LANE).findings == ()
    assert deep.command(LANE, "/lcm doctor").ok
    stored = deep.messages(LANE)
    source, copy, file = str(deep.config.database), str(tmp_path / "copy.db"), str(tmp_path / "talk.jsonl")
    for arguments in (
        ["export", "--output", str(tmp_path / "talk.md"), "--database", source],
        ["export", "--output", file, "--database", source],
        ["import", file, "--apply", "--database", copy],
        ["doctor", "--database", copy],
    ):
        done = run_here(*arguments)
        assert done.returncode == 0, f"{arguments}: {done.output}"
    with Engine.open(LcmConfig(database=copy)) as engine:
        assert engine.messages(LANE) == stored
