"""A few talks with odd messages through each adapter that needs no host; ``python benchmarks/fuzz_hosts.py`` plays more."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "fuzz_hosts.py"


@pytest.fixture(scope="module")
def fuzz() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fuzz_hosts", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fuzz_hosts"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("host", ["plugin", "hermes", "bub"])
def test_odd_messages_lose_double_and_stop_nothing(fuzz: ModuleType, tmp_path: Path, host: str) -> None:
    seed = 1 if os.environ.get("CI") else int.from_bytes(os.urandom(3))
    counts = fuzz.run(host, 8, seed, tmp_path)
    assert counts["examples"] == 8
    assert counts["odd"] > 0
