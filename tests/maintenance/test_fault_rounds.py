"""Fifty rounds of kills, full disks, I/O errors, locks, forks and clock jumps: nothing lost, nothing doubled.

``python benchmarks/faults.py`` runs two thousand.
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
def test_fifty_rounds_of_faults_lose_and_double_nothing() -> None:
    seed = effort.seed()
    command = [sys.executable, str(ROOT / "benchmarks" / "faults.py"), "--json", "--rounds", "50"]
    done = subprocess.run(
        [*command, "--seed", str(seed)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    assert report["faults"] == [], f"seed {seed}"
    assert (report["lost"], report["doubled"]) == (0, 0)
    assert report["rounds"] == 50
    assert report["acknowledged"] > 100
    assert len(report["struck"]) == 8
