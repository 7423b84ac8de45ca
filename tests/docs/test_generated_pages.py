"""docs/commands.md and docs/configuration.md are what their scripts write."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from fakes.processes import run

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("name", ["commands", "configuration"])
def test_a_generated_page_is_up_to_date(name: str) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("LCM_")}
    done = run(DOCS / f"make_{name}.py", env=environment, strict=True)
    assert done.returncode == 0, done.stderr
    assert without_sizes(done.stdout) == without_sizes((DOCS / f"{name}.md").read_text(encoding="utf-8"))


def without_sizes(page: str) -> str:
    """The page without the size of the database, which differs between versions of SQLite."""
    return re.sub(r"[\d.]+ [KM]B$", "…", page, flags=re.MULTILINE)
