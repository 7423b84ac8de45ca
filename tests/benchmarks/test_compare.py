"""The comparison with the peers: how what they show is judged, and which version a checkout is."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from messages import call, result, user

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


def test_what_an_engine_hands_over_must_be_something_that_a_model_can_answer(
    compare: SimpleNamespace,
) -> None:
    newest = user(compare.work(0, [])["newest"])
    handed = {
        "whole": [user("Hello."), call("call_1"), result("call_1", "text"), newest],
        "raised": "ValueError: no",
        "no result": [user("Hello."), call("call_1"), newest],
        "no call": [user("Hello."), result("call_1", "text"), newest],
        "cut off": [user("Hello."), call("call_1"), result("call_1", "text")],
        "half a pair": [user("\ud83d"), newest],
        "too long": [user("word " * 70_000), newest],
    }
    found = compare.survived(handed)
    assert (found["odd inputs"], found["survived"]) == (7, 1)
    assert set(found["not"]) == set(handed) - {"whole"}


def test_canaries_are_counted_by_kind_and_an_older_value_only_where_it_comes_last(
    compare: SimpleNamespace,
) -> None:
    kinds = ("fact", "fact", "changed", "changed", "taken back")
    task = {"canaries": [{"kind": kind, "wrong": "old" if kind != "fact" else ""} for kind in kinds]}
    seen = [[5, -1, False, False], [-1, -1, True, False], [9, 3, True, True], [3, 9, True, True]]
    found = compare.canaries(task, [*seen, [-1, -1, False, True]])
    assert (found["fact: in view"], found["fact: or by one search"]) == (1, 2)
    assert found["changed: older one alone or last"] == 1
    assert found["taken back: in the context as if true"] == 0
    assert found["taken back: in the search as if true"] == 1
