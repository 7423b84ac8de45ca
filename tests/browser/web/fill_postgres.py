"""A PostgreSQL server that holds talk with tools, for the pages: ``python fill_postgres.py``.

It prints the URL and ends when its input does.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from messages import assistant
from postgres_server import running_server
from small_talk import tool_turn, turns

from lcm_plugin import Engine, LcmConfig, Session

MAIN, TOOLS = Session("agent:main:main"), Session("agent:main:tools")

with running_server() as url:
    with Engine.open(LcmConfig(database=url, fresh_tail_count=8, leaf_min_fanout=2)) as engine:
        engine.ingest(MAIN, turns(30))
        engine.compact(MAIN, force=True, budget=2_000)
        engine.ingest(TOOLS, [*tool_turn(1, 6, 60), assistant("Task 1 is done.")])
    print(url, flush=True)
    sys.stdin.read()
