"""The page's program runs as it stands, and what it says of the second run is so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[4] / "docs" / "hosts" / "pydantic-ai.md"
[PROGRAM] = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def run(*command: str, folder: Path) -> list[str]:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_pages_program_finds_again_what_it_was_told(tmp_path: Path) -> None:
    assert run(sys.executable, "-c", PROGRAM, folder=tmp_path) == [
        "Noted.",
        "It is 7261.",
        "6 messages stored",
    ]
    again = run(sys.executable, "-c", PROGRAM, folder=tmp_path)
    assert again[-1] == "12 messages stored"
    lcm = str(Path(sys.executable).with_name("lcm"))
    shown = run(lcm, "messages", "agent:ann:main", "--database", "talk.db", folder=tmp_path)
    assert any("The door code is 7261." in line for line in shown)
