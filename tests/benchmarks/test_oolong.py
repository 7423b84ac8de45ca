"""The benchmark of maps: exact with a perfect labeller, and as wrong as the noise predicts with a noisy one."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from fakes.model_server import ModelRequest, ModelServer

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def oolong() -> SimpleNamespace:
    sys.path.insert(0, str(FOLDER))
    try:
        return SimpleNamespace(**runpy.run_path(str(FOLDER / "oolong.py"), run_name="oolong"))
    finally:
        sys.path.remove(str(FOLDER))


def test_a_perfect_labeller_is_exact_where_a_window_is_not(oolong: SimpleNamespace) -> None:
    lines = oolong.make_window(8_000, 3)
    row = oolong.measure(lines, 8_000, 2_000, "", 0.0, 3)
    assert (row.map_score, row.off) == (1.0, 0.0)
    assert row.window_score < 0.7
    assert row.calls == row.lines == len(lines)


def test_a_noisy_labeller_is_off_by_what_the_noise_predicts(oolong: SimpleNamespace) -> None:
    lines = oolong.make_window(8_000, 3)
    row = oolong.measure(lines, 8_000, 2_000, "", 0.1, 3)
    assert 0.0 < row.map_score < 1.0
    assert row.off < 4.0


@pytest.mark.long
def test_with_a_key_one_command_measures_a_real_model(server: ModelServer) -> None:
    def label(request: ModelRequest) -> str:
        is_food = any(word in request.prompt for word in ("soup", "bread"))
        return json.dumps({"label": "food" if is_food else "sport"})

    server.add_rule(label)
    model = "openai/gpt-4o-mini"
    command = [sys.executable, FOLDER / "oolong.py", "--tokens", "400", "--model", model, "--json"]
    done = subprocess.run(
        command,
        env={**os.environ, "OPENAI_BASE_URL": server.url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [row] = json.loads(done.stdout)
    assert (row["labeller"], row["calls"], row["window_lines"]) == (model, row["lines"], row["lines"])
    assert len(server.requests) == row["lines"]
    assert {request.body["model"] for request in server.requests} == {"gpt-4o-mini"}
    assert 0 < row["map_score"] < row["window_score"] == 1


def test_a_number_scores_by_its_distance_and_a_word_by_being_right(oolong: SimpleNamespace) -> None:
    assert oolong.score(10, 12) == pytest.approx(0.5625)
    assert (oolong.score("food", "food"), oolong.score("food", "work")) == (1.0, 0.0)
