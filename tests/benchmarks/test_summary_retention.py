"""The extractive summary keeps at least twice the facts that cutting out the middle keeps."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from lcm_plugin.cli.transcripts import read_transcripts

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    path = ROOT / "benchmarks" / "summary_retention.py"
    spec = importlib.util.spec_from_file_location("summary_retention", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["summary_retention"] = module
    spec.loader.exec_module(module)
    return module


def test_twice_as_many_facts_as_head_and_tail_of_equal_size(benchmark: ModuleType) -> None:
    messages = [entry.message for entry in read_transcripts([str(ROOT / "examples" / "incident.jsonl")])]
    report = benchmark.measure("incident", benchmark.blocks_of(messages), 1_200, 20_000)
    assert report.chunks >= 4
    assert report.tokens <= 1_200 * report.chunks
    assert report.ratio >= 2.0


def test_facts_are_identifiers_numbers_and_names(benchmark: ModuleType) -> None:
    text = "At 12:30 Ann moved order HP-4711 and met Bruno near /srv/pay; it cost $310 for 5 boxes."
    found = benchmark.facts(text)
    assert found["identifiers"] >= {"HP-4711"}
    assert found["numbers"] == {"$310"}
    assert found["names"] == {"Bruno"}


def test_head_and_tail_has_the_size_asked_for(benchmark: ModuleType) -> None:
    encoding = benchmark.load_encoding()
    text = " ".join(f"word{number}" for number in range(500))
    cut = benchmark.head_and_tail(text, 100, encoding)
    assert cut.startswith("word0 ")
    assert cut.endswith("word499")
    assert abs(len(encoding.encode(cut)) - 100) <= 2
