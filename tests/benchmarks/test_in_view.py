"""The benchmark of what stands in view counts what it says, on a chat made up here."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from lcm_plugin.evaluation.loaders import locomo

PATH = Path(__file__).resolve().parents[2] / "benchmarks" / "in_view.py"


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("in_view", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["in_view"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    """Ninety exchanges; one fact at the beginning and one at the end."""
    turns = []
    for n in range(1, 181):
        text = f"On day {n} the ferry {n} stops at bridge {n} and waits there for {n} guests. " * 2
        text = {1: f"My sister keeps an albatross. {text}", 179: f"The harbour sells marzipan. {text}"}.get(
            n, text
        )
        turns.append({"speaker": "Ann" if n % 2 else "Ben", "dia_id": f"D1:{n}", "text": text})
    conversation = {
        "speaker_a": "Ann",
        "speaker_b": "Ben",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": turns,
    }
    questions = [
        {"question": "Who keeps the bird?", "answer": "albatross", "evidence": ["D1:1"], "category": 1},
        {"question": "What is sold?", "answer": "marzipan", "evidence": ["D1:179"], "category": 1},
        {"question": "Not judged", "answer": "", "evidence": [], "category": 5},
    ]
    path = tmp_path / "chat.json"
    path.write_text(json.dumps([{"sample_id": "made", "conversation": conversation, "qa": questions}]))
    return path


@pytest.mark.long
def test_a_whole_chat_shows_all_evidence_and_a_compacted_one_the_newest(
    benchmark: ModuleType, chat: Path
) -> None:
    chats = list(locomo.load(chat))
    assert [question.answer for question in chats[0].questions] == ["albatross", "marzipan"]
    whole = benchmark.measure(chats, "faithful", 128_000, {})
    settings = {"freshTailCount": "8", "leafTriggerTokens": "500"}
    small = benchmark.measure(chats, "economy", 8_000, {**settings, "activeRecall": "off"})
    assert (whole.ours[0], whole.newest[0], whole.bill) == (100, 100, pytest.approx(100, abs=1))
    assert (small.ours[0], small.newest[0]) == (50, 50)
    assert small.context < whole.context
    assert small.bill < whole.bill
    quoting = benchmark.measure(chats, "economy", 8_000, settings)
    assert quoting.ours[0] == 100
