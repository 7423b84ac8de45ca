"""The provider fits the interface of the Agent Memory Benchmark harness, and retrieves what was ingested."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lcm_plugin.errors import InputError
from lcm_plugin.evaluation.board import LcmMemoryProvider

# The parameters of the harness' methods, by their names and in their order.
INTERFACE = {
    "initialize": [],
    "cleanup": [],
    "prepare": ["store_dir", "unit_ids", "reset"],
    "ingest": ["documents"],
    "async_ingest": ["documents"],
    "retrieve": ["query", "k", "user_id", "query_timestamp"],
    "async_retrieve": ["query", "k", "user_id", "query_timestamp"],
    "retrieve_by_steps": ["steps", "query", "k", "user_id", "query_timestamp"],
    "async_retrieve_by_steps": ["steps", "query", "k", "user_id", "query_timestamp"],
    "direct_answer": ["query", "user_id", "query_timestamp"],
    "async_direct_answer": ["query", "user_id", "query_timestamp"],
}


@dataclass
class Document:
    """A document as the harness has it."""

    id: str
    content: str
    user_id: str | None = None
    messages: list[dict[str, Any]] | None = None
    timestamp: str | None = None
    context: str | None = None


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[LcmMemoryProvider]:
    made = LcmMemoryProvider()
    made.initialize()
    made.prepare(tmp_path, {"ann", "ben"})
    yield made
    made.cleanup()


def test_every_method_of_the_harness_is_there_with_its_parameters() -> None:
    for name, parameters in INTERFACE.items():
        assert list(inspect.signature(getattr(LcmMemoryProvider(), name)).parameters) == parameters
    attributes = ("name", "description", "kind", "provider", "variant", "link", "logo", "concurrency")
    assert all(hasattr(LcmMemoryProvider, name) for name in attributes)


def test_a_users_question_brings_that_users_passage_with_its_document(provider: LcmMemoryProvider) -> None:
    talk = [
        {"speaker": "Ann", "dia_id": "D1:1", "text": "I keep an albatross."},
        {"speaker": "Bo", "text": "How large has it grown by now?"},
    ]
    provider.ingest(
        [
            Document(
                "ann_1", json.dumps(talk), "ann", timestamp="2023-05-08T13:56:00+00:00", context="a chat"
            ),
            Document("ann_2", "The harbour sells marzipan.\n\nAnd rope.", "ann"),
            Document("ben_1", "", "ben", messages=[{"role": "user", "content": "I keep an albatross, too."}]),
        ]
    )
    [first, second, *_], answer = provider.retrieve("Who keeps an albatross?", 5, "ann")
    assert (first.id, type(first), first.context) == ("ann_1", Document, "a chat")
    assert [first.content, second.content] == [
        "[2023-05-08T13:56:00+00:00] Ann: I keep an albatross.",
        "[2023-05-08T13:56:00+00:00] Bo: How large has it grown by now?",
    ]
    assert answer is not None
    assert answer["hits"]
    [[other], _] = provider.retrieve("Who keeps an albatross?", 5, "ben")
    assert other.id == "ben_1"
    assert [one.id for one in provider.retrieve("marzipan", 1, "ann")[0]] == ["ann_2"]
    assert provider.retrieve("zebra", 5, "ann")[0] == []


def test_the_event_loop_and_steps_take_the_same_way(provider: LcmMemoryProvider) -> None:
    asyncio.run(provider.async_ingest([Document("d", "The code is 7261.", "ann")]))
    found = [
        provider.retrieve("code", user_id="ann")[0],
        asyncio.run(provider.async_retrieve("code", user_id="ann"))[0],
        provider.retrieve_by_steps([1], "code", user_id="ann")[0],
        asyncio.run(provider.async_retrieve_by_steps([1], "code", user_id="ann"))[0],
    ]
    assert [[one.id for one in documents] for documents in found] == [["d"]] * 4
    with pytest.raises(NotImplementedError):
        provider.direct_answer("code", "ann")


def test_a_reset_forgets_and_a_run_needs_a_place(provider: LcmMemoryProvider, tmp_path: Path) -> None:
    provider.ingest([Document("d", "The code is 7261.", "ann")])
    provider.prepare(tmp_path)
    assert provider.retrieve("code", user_id="ann")[0] == []
    provider.cleanup()
    with pytest.raises(InputError, match="prepare"):
        provider.retrieve("code")
