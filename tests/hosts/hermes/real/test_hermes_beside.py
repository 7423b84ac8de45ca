"""A short form of the benchmark that plays one talk under the plugin and under Hermes' own compressor."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[4] / "benchmarks"))

from hermes_beside import COMPRESSOR, Talk, run

TURNS, TOKENS, WINDOW = 26, 3_400, 64_000


def test_a_long_talk_costs_less_and_shows_more_than_under_the_hosts_own_compressor(tmp_path: Path) -> None:
    talk = Talk.of(TURNS, TOKENS)
    theirs = run(COMPRESSOR, talk, WINDOW, None, tmp_path / "theirs")
    ours = run("balanced", talk, WINDOW, None, tmp_path / "ours")
    cheap = run("economy", talk, WINDOW, None, tmp_path / "cheap")
    assert ours.invalid == cheap.invalid == 0
    assert ours.extracted == 0
    assert 2 <= ours.compactions < theirs.compactions
    assert ours.new < theirs.new
    assert ours.bill < theirs.bill
    assert cheap.bill < theirs.bill
    assert 2 <= cheap.compactions < theirs.compactions
    # A summary call reads no more than the host's own does, which cuts long messages.
    assert ours.read < 1.1 * theirs.read
    assert sum(ours.evidence) > sum(theirs.evidence)
    assert min(ours.asked) == 1
    # What the host adds, its default tools above all, was measured whole: the list was full when it was replaced.
    assert ours.largest > 0.7 * WINDOW
