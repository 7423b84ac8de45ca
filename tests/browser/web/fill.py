"""Fills a database for the pages: ``python fill.py DATABASE``. Runs where this package is installed.

An incident of 591 messages, sessions imported from three tools, one full of tool calls, a hostile one, and one of 20,000
messages.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "web"))

from fakes.shell import run_here
from messages import assistant, user
from small_talk import tool_turn, turns
from three_sessions import HOSTILE

from lcm_plugin import Engine, LcmConfig, Session

TESTS = Path(__file__).resolve().parents[2]
FIXTURES = TESTS / "interchange" / "importers" / "fixtures"
LONG = 20_000


def shell(*arguments: str | Path) -> None:
    done = run_here(*arguments)
    if done.returncode:
        raise SystemExit(done.stderr)


def main(database: Path) -> None:
    shell("replay", TESTS.parent / "examples" / "incident.jsonl", "--budget", "16000", "--database", database)
    imported = [FIXTURES / f"{name}.jsonl" for name in ("claude-code", "codex", "openclaw")]
    shell("import", *imported, "--apply", "--database", database)
    with Engine.open(LcmConfig(database=str(database))) as engine:
        hostile = Session(f"agent:{HOSTILE}:x")
        engine.ingest(hostile, [user(HOSTILE), assistant(HOSTILE, reasoning_content=HOSTILE)])
        tools = Session("agent:main:tools")
        for number in range(20):
            engine.ingest(tools, [*tool_turn(number, 8, 200), assistant(f"Task {number} is done.")])
        engine.compact(tools, force=True, budget=16_000)
        taken_back = Session("agent:main:taken-back")
        told = [user("Keep this"), assistant("Kept"), user("Take this back"), assistant("Gone")]
        engine.ingest(taken_back, told, "whole")
        engine.ingest(taken_back, told[:2], "whole")
        for start in range(0, LONG // 2, 1_000):
            engine.ingest(Session("agent:main:long"), turns(1_000, tokens=20, start=start), "all")


main(Path(sys.argv[1]))
