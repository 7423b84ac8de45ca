"""The core talks to nobody: a whole busy session with every socket call forbidden."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

GUARD = """
import os, sys

def refuse(event, arguments):
    if event.startswith("socket.") and event not in ("socket.gethostname",):
        os.write(2, f"network: {event} {arguments}\\n".encode())
        os._exit(97)

sys.addaudithook(refuse)
"""
SESSION = """
import sys
from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.plugin import LcmPlugin
from lcm_plugin.types import Reset, Turn

lane = Session("agent:main:main", "run-1")
config = LcmConfig(
    database=sys.argv[1], fresh_tail_count=2, leaf_chunk_tokens=300, leaf_min_fanout=2, context_threshold=0.2,
    large_file_token_threshold=1_000, recall_scope="all",
)
plugin = LcmPlugin(config)
turns = []
for number in range(12):
    turns.append({"role": "user", "content": f"question {number} " + "and so on " * 30})
    assert plugin.before_turn(Turn(lane, turns, mode="sync", window=4_000)).messages
    turns += [
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": f"c{number}", "type": "function", "function": {"name": "look", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": "seen " * 40},
        {"role": "assistant", "content": f"answer {number}"},
    ]
    plugin.after_turn(Turn(lane, turns, mode="sync", window=4_000))
engine = plugin.engine
engine.wait_idle(60)
engine.ingest(lane, [{"role": "user", "content": "\\n".join(f"http://127.0.0.1:9/{n} line" for n in range(900))}])
engine.compact(lane, force=True)
for name, arguments in (
    ("lcm_grep", {"pattern": "question"}),
    ("lcm_grep", {"pattern": "que.tion", "mode": "regex"}),
    ("lcm_describe", {"id": "msg_1"}),
    ("lcm_expand", {"query": "question"}),
    ("lcm_expand_query", {"query": "question", "prompt": "what was asked?"}),
):
    answer = plugin.lcm_call_tool(lane, name, arguments)
    assert "error" not in answer, (name, answer)
for command in ("status", "tree", "doctor", "config", "backup", "new", "undo", "prune --older-than 0m"):
    plugin.lcm_run_command(lane, f"/lcm {command}")
assert engine.check().ok
from lcm_plugin.maintenance.selection import Selection
engine.retention.apply(engine.retention.plan(Selection()), "me")
plugin.before_reset(Reset(lane, "new", 1))
plugin.before_reset(Reset(lane, "reset"))
plugin.session_end(lane, "deleted")
plugin.close()
print("done")
"""


@pytest.mark.long
def test_a_busy_session_opens_no_socket(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", GUARD + SESSION, str(tmp_path / "lcm.db")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    assert done.stdout.strip() == "done"


@pytest.mark.parametrize("call", ["socket.socket()", "socket.getaddrinfo('localhost', 80)"])
def test_the_guard_would_notice(call: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"{GUARD}\nimport socket\n{call}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 97
    assert "network: socket." in done.stderr
