"""The generated corpus has the mix it promises."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import islice

import pytest

from lcm_plugin.evaluation.corpus import Corpus
from lcm_plugin.messages.tokens import TokenCounter


def test_the_same_seed_gives_the_same_messages() -> None:
    first = list(Corpus(5).messages(300))
    assert first == list(Corpus(5).messages(300))
    assert first != list(Corpus(6).messages(300))


def test_every_call_is_answered_and_ids_are_unique() -> None:
    rows = list(Corpus(2).messages(3_000))
    calls = [call["id"] for row in rows for call in row.get("tool_calls", ())]
    answers = [row["tool_call_id"] for row in rows if row["role"] == "tool"]
    assert calls[: len(answers)] == answers
    assert len(calls) == len(set(calls))


@pytest.mark.long
def test_the_mix_is_the_one_described() -> None:
    counter = TokenCounter()
    turns = list(islice(Corpus(1).turns(), 3_000))
    rows = [row for turn in turns for row in turn]
    tokens = defaultdict(list)
    for row in rows:
        tokens[row["role"]].append(counter.message(row))
    means = {role: sum(counts) / len(counts) for role, counts in tokens.items()}
    size = sum(len(json.dumps(row, ensure_ascii=False).encode()) for row in rows) / len(rows)
    assert len(rows) / len(turns) == pytest.approx(5.9, rel=0.03)
    assert means == pytest.approx({"user": 85, "assistant": 224, "tool": 705}, rel=0.08)
    assert size == pytest.approx(1_338, rel=0.1)
