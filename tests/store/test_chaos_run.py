"""Some seconds of hosts and workers that are killed, and a server that goes away: nothing lost or doubled.

``python benchmarks/chaos.py`` lets sixteen processes do so for two minutes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import effort
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.long
def test_kills_and_a_server_that_goes_away_lose_and_double_nothing() -> None:
    seed = effort.seed()
    command = [sys.executable, str(ROOT / "benchmarks" / "chaos.py"), "--json", "--seed", str(seed)]
    size = ["--seconds", "8", "--processes", "4", "--conversations", "20"]
    done = subprocess.run([*command, *size], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    assert report["faults"] == [], f"seed {seed}"
    assert (report["lost"], report["doubled"]) == (0, 0)
    assert report["kills"] >= 2
    assert report["away_s"] > 0
    assert report["acknowledged"] > 50
    assert report["summaries"] > 0
