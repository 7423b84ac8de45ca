"""Codex's rollouts: items and events, compactions, roll-backs, sub-agents."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from imported_store import Imported, asides, words

from lcm_plugin.messages.parts import rebuild

KEY = "agent:codex:019a-thread"
FixtureFile = Callable[[str], Path]


def test_items_become_messages_and_calls_keep_their_results(
    imported: Imported, fixture_file: FixtureFile
) -> None:
    imported.bring(fixture_file("codex.jsonl"))
    rows = imported.active(KEY)
    calls = [call for row in rows for call in row.head.calls]
    assert calls == ["call_a", "call_b"]
    assert [answer for row in rows for answer in row.head.answers] == calls
    made = [rebuild(row)["tool_calls"][0] for row in rows if row.head.calls]
    assert made[0]["function"] == {"name": "shell", "arguments": '{"command":["cat","build.log"]}'}
    assert made[1]["custom"] == {"name": "apply_patch", "input": "*** Begin Patch"}


def test_events_that_repeat_an_item_are_counted_and_left_out(
    imported: Imported, fixture_file: FixtureFile
) -> None:
    report = imported.bring(fixture_file("codex.jsonl"))
    assert dict(report.repeats) == {
        "event_msg/user_message": 1,
        "event_msg/agent_message": 1,
        "event_msg/agent_reasoning": 1,
    }
    kinds = [kind for kind, _ in asides(imported.active(KEY))]
    assert kinds.count("step_finish") == 1
    assert "reasoning" in kinds


def test_an_event_that_repeats_nothing_is_kept(imported: Imported, tmp_path: Path) -> None:
    lines = [
        {"timestamp": "2026-05-03T12:00:00Z", "type": "session_meta", "payload": {"id": "t"}},
        {
            "timestamp": "2026-05-03T12:00:01Z",
            "type": "event_msg",
            "payload": {"type": "agent_message", "message": "alone"},
        },
    ]
    path = tmp_path / "rollout-x.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    imported.bring(path)
    kept = [block for _, block in asides(imported.active("agent:codex:t"))]
    assert kept[-1]["record"]["payload"]["message"] == "alone"


def test_a_compaction_is_a_leaf_and_rolled_back_turns_are_a_branch(
    imported: Imported, fixture_file: FixtureFile
) -> None:
    imported.bring(fixture_file("codex.jsonl"))
    summary_id, *rest = imported.context(KEY)
    assert summary_id.startswith("sum_")
    assert rest == ["Run the tests, here is the screen", "All green."]
    assert imported.archived(KEY) == [["Now delete the repository", "I would rather not."]]


def test_a_spawned_thread_names_its_parent(imported: Imported, fixture_file: FixtureFile) -> None:
    report = imported.bring(fixture_file("codex.jsonl"))
    assert report.conversations[0].kind == "sub-agent"
    assert report.conversations[0].parent == "agent:codex:019a-root"
    kind, head = asides(imported.active(KEY))[0]
    assert kind == "subtask"
    assert head["record"]["git"] == {"branch": "main"}


def test_the_bare_items_of_first_versions_are_read(imported: Imported, tmp_path: Path) -> None:
    lines = [
        {"id": "old-thread", "timestamp": "2025-07-01T00:00:00Z", "instructions": None},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c"},
        {"type": "function_call_output", "call_id": "c", "output": {"content": "done", "success": True}},
    ]
    path = tmp_path / "rollout-2025-07-01.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    imported.bring(path)
    rows = imported.active("agent:codex:old-thread")
    assert words(rows)[0] == "hi"
    assert rebuild(rows[-1]) == {"role": "tool", "tool_call_id": "c", "content": "done"}
