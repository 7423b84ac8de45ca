"""The page's program runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[4] / "docs" / "hosts" / "openai-agents.md"


def test_the_pages_program_runs(tmp_path: Path) -> None:
    programs = re.findall(
        r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert len(programs) == 1
    done = subprocess.run(
        [sys.executable, "-c", programs[0]], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["Noted.", "It is 7261."], done.stderr
    command = [sys.executable, "-c", "from lcm_plugin.cli import main; main()", "messages"]
    shown = subprocess.run(
        [*command, "openai-agents:ann", "--database", "talk.db"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "The door code is 7261." in shown.stdout
