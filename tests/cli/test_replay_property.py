"""Any transcript that can be read can be replayed: bounded, valid, nothing lost; a second run stores nothing twice."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from effort import examples
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lcm_plugin.cli.replay.play import Options, run_replay
from lcm_plugin.cli.transcripts import read_transcripts

TEXTS = st.one_of(
    st.sampled_from(["", " ", "yes", "ok", "ok", '{"status": "ok"}', "<summary>x</summary>", "HEARTBEAT_OK"]),
    st.text(max_size=60),
    st.integers(5, 400).map(lambda count: "the harbour pump failed again " * count),
)
IDS = st.sampled_from(["call_1", "call_2", "exec:1"])


def call(name: str) -> dict[str, Any]:
    return {"id": name, "type": "function", "function": {"name": "shell", "arguments": '{"a": 1}'}}


MESSAGES = st.one_of(
    st.builds(lambda text: {"role": "system", "content": text}, st.text(max_size=30)),
    st.builds(lambda text: {"role": "user", "content": text}, TEXTS),
    st.builds(lambda text: {"role": "assistant", "content": text}, TEXTS),
    st.builds(
        lambda text, names: {"role": "assistant", "content": text, "tool_calls": [*map(call, names)]},
        st.one_of(st.none(), TEXTS),
        st.lists(IDS, min_size=1, max_size=3, unique=True),
    ),
    st.builds(lambda name, text: {"role": "tool", "tool_call_id": name, "content": text}, IDS, TEXTS),
    st.builds(lambda text: {"role": "user", "content": [{"type": "text", "text": text}], "x": 1}, TEXTS),
)


@pytest.mark.long
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(MESSAGES, min_size=1, max_size=60))
@example(
    [
        {"role": role, "content": role}
        for role in ("system", "user", "assistant", "system", "user", "assistant")
    ]
)
def test_any_transcript_replays(rows: list[dict[str, Any]]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "t.json"
        path.write_text(json.dumps(rows), encoding="utf-8")
        entries = read_transcripts([str(path)])
        options = Options((str(path),), 6_000, "agent:replay:main", f"{folder}/a.db", fresh_tail=8)
        report = run_replay(entries, options, lambda done: None).report
        again = run_replay(entries, options, lambda done: None).report
    assert report.holds, report.as_dict()
    assert report.proof.recovered == len(rows)
    assert again.proof == report.proof
