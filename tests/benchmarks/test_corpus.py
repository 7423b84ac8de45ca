"""The benchmark corpus has the mix it promises, and the converters keep what matters."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections import defaultdict
from itertools import islice
from pathlib import Path
from types import ModuleType

import pytest

from lcm_plugin.messages.tokens import TokenCounter

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


corpus = load("corpus")
locomo = load("locomo_messages")


def test_the_same_seed_gives_the_same_messages() -> None:
    first = list(corpus.Corpus(5).messages(300))
    assert first == list(corpus.Corpus(5).messages(300))
    assert first != list(corpus.Corpus(6).messages(300))


def test_every_call_is_answered_and_ids_are_unique() -> None:
    rows = list(corpus.Corpus(2).messages(3_000))
    calls = [call["id"] for row in rows for call in row.get("tool_calls", ())]
    answers = [row["tool_call_id"] for row in rows if row["role"] == "tool"]
    assert calls[: len(answers)] == answers
    assert len(calls) == len(set(calls))


def test_the_mix_is_the_one_described() -> None:
    counter = TokenCounter()
    turns = list(islice(corpus.Corpus(1).turns(), 3_000))
    rows = [row for turn in turns for row in turn]
    tokens = defaultdict(list)
    for row in rows:
        tokens[row["role"]].append(counter.message(row))
    means = {role: sum(counts) / len(counts) for role, counts in tokens.items()}
    size = sum(len(json.dumps(row, ensure_ascii=False).encode()) for row in rows) / len(rows)
    assert len(rows) / len(turns) == pytest.approx(5.9, rel=0.03)
    assert means == pytest.approx({"user": 85, "assistant": 224, "tool": 705}, rel=0.08)
    assert size == pytest.approx(1_338, rel=0.1)


def test_a_chat_becomes_messages_with_sender_id_and_time() -> None:
    conversation = {
        "speaker_a": "Ada",
        "speaker_b": "Bo",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Bo", "dia_id": "D1:1", "text": "Hello"},
            {"speaker": "Ada", "dia_id": "D1:2", "text": "Look", "blip_caption": "a boat"},
        ],
        "session_2_date_time": "12:05 am on 9 May, 2023",
        "session_2": [],
    }
    assert list(locomo.messages({"sample_id": "conv-1", "conversation": conversation})) == [
        {
            "role": "assistant",
            "content": "Hello",
            "name": "Bo",
            "id": "conv-1/D1:1",
            "created_at": "2023-05-08T13:56:00+00:00",
        },
        {
            "role": "user",
            "content": "Look [photo: a boat]",
            "name": "Ada",
            "id": "conv-1/D1:2",
            "created_at": "2023-05-08T13:56:00+00:00",
        },
    ]
