"""A process killed in the middle of ingest loses nothing that was acknowledged and halves nothing."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from fakes.processes import piped

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.types import Message

pytestmark = pytest.mark.both_stores

SESSION = Session("agent:main:main", "run-1")
TURNS = 400
HOST = """
import sys
from lcm_plugin import Engine, LcmConfig
from test_ingest_killed import SESSION, TURNS, turn
with Engine.open(LcmConfig(database=sys.argv[1], large_file_token_threshold=1_000)) as engine:
    for number in range(int(sys.argv[2]), TURNS):
        engine.ingest(SESSION, turn(number))
        print(number, flush=True)
"""


def turn(number: int) -> list[Message]:
    """A turn whose tool result moves to a file."""
    made = {"id": f"call_{number}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    return [
        {"role": "user", "content": f"question {number}"},
        {"role": "assistant", "content": None, "tool_calls": [made]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": f"line {number}\n" * 2_000},
        {"role": "assistant", "content": f"answer {number}"},
    ]


def killed_after(database: str, first: int, acknowledged: int) -> int:
    """Runs a host from turn ``first`` on, kills it after so many turns, and says the last one it acknowledged."""
    with piped("-c", HOST, database, str(first), strict=True) as (host, printed):
        last = first - 1
        for line in printed:
            last = int(line)
            if last - first + 1 >= acknowledged:
                host.send_signal(signal.SIGKILL)
                break
        rest = printed.read().split()
    return int(rest[-1]) if rest else last


@pytest.mark.parametrize("kills", [(1, 5, 17)])
def test_every_acknowledged_turn_is_there_once_and_whole(
    database_named: Callable[[str], str], kills: tuple[int, ...]
) -> None:
    database, first = database_named("lcm"), 0
    for acknowledged in kills:
        last = killed_after(database, first, acknowledged)
        assert last >= first + acknowledged - 1
        with Engine.open(LcmConfig(database=database, large_file_token_threshold=1_000)) as engine:
            rows = engine.messages(SESSION)
            turns = len(rows) // 4
            # The turn in flight may be stored whole or not at all.
            assert last + 1 <= turns <= last + 2
            assert rows == [message for number in range(turns) for message in turn(number)]
            everything = [message for number in range(turns + 2) for message in turn(number)]
            assert engine.ingest(SESSION, everything, "sync").stored == 8
            assert engine.messages(SESSION) == everything
        first = turns + 2
