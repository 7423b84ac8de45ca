"""The page's programs run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[4] / "docs" / "hosts" / "langchain.md"


def run(arguments: list[str], folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_pages_programs_run(tmp_path: Path) -> None:
    agent, deep = re.findall(
        r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert run([agent], tmp_path).splitlines() == ["Noted.", "It is 7261."]
    assert run([deep], tmp_path).splitlines() == ["Hello. 2"]
    command = "from lcm_plugin.cli import main; main()"
    shown = run([command, "messages", "langchain:ann", "--database", "talk.db"], tmp_path)
    assert "The door code is 7261." in shown
