"""The comparison with the peers: how what they show is judged, and which version a checkout is."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from lcm_plugin.evaluation.records import Evidence, Question, Talk

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def compare() -> SimpleNamespace:
    before = list(sys.path)
    sys.path.insert(0, str(FOLDER))
    try:
        return SimpleNamespace(**runpy.run_path(str(FOLDER / "peers" / "compare.py"), run_name="compare"))
    finally:
        sys.path[:] = before


def test_only_messages_of_the_evidence_count(compare: SimpleNamespace) -> None:
    said = [{"role": "user", "content": text} for text in ("a", "b", "c")]
    both = Question("1", "?", (Evidence(0, "a"), Evidence(1, "b")), "")
    talk = Talk("t", said, (both, both, both))
    found = compare.judge([talk], [[["a", "c"], ["c", "b", "a"], ["c"]]])
    assert found == {
        "questions": 3,
        "hit@1": pytest.approx(100 / 3),
        "hit@10": pytest.approx(200 / 3),
        "all@10": pytest.approx(100 / 3),
    }


def test_a_checkout_is_named_with_its_own_version(compare: SimpleNamespace, tmp_path: Path) -> None:
    (tmp_path / "peer").mkdir()
    assert compare.version_of(str(tmp_path / "peer")) == "peer"
    (tmp_path / "peer" / "package.json").write_text('{"name": "x", "version": "1.0.0-beta.4"}')
    assert compare.version_of(str(tmp_path / "peer")) == "peer 1.0.0-beta.4"
    (tmp_path / "peer" / "plugin.yaml").write_text("name: x\nversion: 0.23.0-rc2\n")
    assert compare.version_of(str(tmp_path / "peer")) == "peer 0.23.0-rc2"
