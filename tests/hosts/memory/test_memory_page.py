"""The page's programs run as they stand, and what it says of the second run is so."""

from __future__ import annotations

import re
from pathlib import Path

from fakes import processes

from lcm_plugin import Memory

PAGE = Path(__file__).parents[3] / "docs" / "hosts" / "your-own-loop.md"
SYNC, ASYNC = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def run(program: str, folder: Path) -> list[str]:
    done = processes.run("-c", program, cwd=folder, strict=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_program_finds_again_what_it_was_told_and_goes_on_in_a_second_run(tmp_path: Path) -> None:
    assert run(SYNC, tmp_path) == ["Noted.", "It is 7261."]
    with Memory(tmp_path / "talk.db") as memory:
        assert len(memory.messages()) == 6
    again = SYNC.replace("call_1", "call_2")
    assert run(again, tmp_path) == ["Noted.", "It is 7261."]
    with Memory(tmp_path / "talk.db") as memory:
        assert len(memory.messages()) == 12
        assert [m["content"] for m in memory.messages() if m["role"] == "user"][:2] == [
            "The door code is 7261.",
            "What is the door code?",
        ]


def test_the_loop_is_ten_lines() -> None:
    loop = SYNC.split("\n\n\n")[-1].strip().splitlines()
    assert len(loop) == 10


def test_the_async_program_runs(tmp_path: Path) -> None:
    assert run(ASYNC, tmp_path) == [
        "You said: The door code is 7261.",
        "You said: What is the door code?",
    ]
