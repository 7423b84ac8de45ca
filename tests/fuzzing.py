"""The fuzzer of ``benchmarks/fuzz_hosts.py``, for tests that play a few of its talks."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import effort

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"


def play(host: str, folder: Path, examples: int = 8) -> None:
    """Plays some talks with odd messages, other ones at each run but in CI; fails naming the example."""
    seed = effort.seed()
    counts = _loaded("fuzz_hosts").run(host, examples, seed, folder)
    assert counts["examples"] == examples
    assert counts["odd"] > 0


def _loaded(name: str) -> ModuleType:
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    return importlib.import_module(name)
