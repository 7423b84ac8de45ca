"""The example transcript is what its generator writes, and holds what the demo needs."""

from __future__ import annotations

import json
from pathlib import Path

from fakes.processes import run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def messages() -> list[dict]:
    return [json.loads(line) for line in (EXAMPLES / "incident.jsonl").read_text("utf-8").splitlines()]


def test_the_file_is_what_the_generator_writes(tmp_path: Path) -> None:
    copy = tmp_path / "incident.jsonl"
    assert run(EXAMPLES / "make_incident.py", "--out", copy).returncode == 0
    assert copy.read_bytes() == (EXAMPLES / "incident.jsonl").read_bytes()


def test_every_call_is_answered_right_after_it() -> None:
    open_calls: list[str] = []
    for message in messages():
        if message["role"] == "tool":
            assert message["tool_call_id"] == open_calls.pop(0)
            continue
        assert not open_calls
        open_calls = [call["id"] for call in message.get("tool_calls", ())]
    assert not open_calls


def test_it_has_what_makes_a_session_hard() -> None:
    rows = messages()
    calls = [message["tool_calls"] for message in rows if message.get("tool_calls")]
    texts = [message["content"] for message in rows if isinstance(message["content"], str)]
    assert 550 <= len(rows) <= 650
    assert any(len(group) > 1 for group in calls)
    assert max(map(len, texts)) > 15_000
    assert any(isinstance(message["content"], list) for message in rows)
    assert any(not text.isascii() for text in texts)
    names = [call["id"] for group in calls for call in group]
    assert len(names) == len(set(names))
