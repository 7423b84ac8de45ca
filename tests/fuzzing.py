"""The fuzzer of ``benchmarks/fuzz_hosts.py``, for tests that play a few of its talks."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import effort

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"


def play(host: str, folder: Path, problems_in: Callable[[Any], list[str]], examples: int = 8) -> None:
    """Plays some talks with odd messages, other ones at each run but in CI; fails naming the example.

    ``problems_in`` says what providers would refuse of a context in the host's own objects.
    """
    seed = effort.seed()
    counts = _loaded("fuzz_hosts").run(host, examples, seed, folder, problems_in)
    assert counts["examples"] == examples
    assert counts["odd"] > 0


def _loaded(name: str) -> ModuleType:
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    return importlib.import_module(name)
