"""Maps by a completer that takes many requests at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from lcm_plugin import Engine, Session
from lcm_plugin.errors import ModelRateLimited, ModelUnavailable
from lcm_plugin.maps.options import MapOptions
from lcm_plugin.maps.source import MapSource
from lcm_plugin.store.maps.records import MapRecord
from lcm_plugin.types import BatchCompleter, CompletionRequest, CompletionResult, Usage

Open = Callable[..., Engine]
TEXT = {"type": "string"}


class Batches:
    """Echoes items, in batches of ten. ``replies`` replaces the next batch's answers, by place."""

    batch_size = 10

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.single = 0
        self.replies: dict[int, Any] = {}
        self.fails: list[Exception] = []

    def __call__(self, request: CompletionRequest) -> CompletionResult:
        self.single += 1
        return self._echo(request)

    def complete_many(self, requests: Sequence[CompletionRequest]) -> Sequence[Any]:
        self.sizes.append(len(requests))
        if self.fails:
            raise self.fails.pop(0)
        replies, self.replies = self.replies, {}
        return [replies.get(place) or self._echo(request) for place, request in enumerate(requests)]

    def _echo(self, request: CompletionRequest) -> CompletionResult:
        item = str(request.messages[1]["content"]).split("\n")[1]
        return CompletionResult(json.dumps(item), "fake", Usage(10, 5))


def echo(engine: Engine, session: Session, number: int, **options: Any) -> MapRecord:
    source = MapSource(items=[(f"item {place}", f"word {place}") for place in range(number)])
    return engine.map(session, source, "Say it.", TEXT, options=MapOptions(**options), parallel=2)


def words(engine: Engine, record: MapRecord) -> list[str]:
    return [
        json.loads(item.answer) if item.answer else item.error for item in engine.maps.items(record.map_id)
    ]


@pytest.mark.both_stores
def test_items_go_out_in_batches_of_the_completers_size(open_engine: Open, session: Session) -> None:
    model = Batches()
    assert isinstance(model, BatchCompleter)
    engine = open_engine(completer=model)
    record = echo(engine, session, 35)
    assert words(engine, record) == [f"word {place}" for place in range(35)]
    assert (record.tokens_in, record.tokens_out) == (350, 175)
    assert sum(model.sizes) + model.single == 35
    assert max(model.sizes) == 10
    assert len(model.sizes) <= 8


def test_an_invalid_reply_of_a_batch_is_corrected_alone(open_engine: Open, session: Session) -> None:
    model = Batches()
    model.replies = {3: CompletionResult("no JSON here", "fake", Usage(10, 5))}
    engine = open_engine(completer=model)
    record = echo(engine, session, 10)
    assert words(engine, record)[3] == "word 3"
    assert (model.sizes, model.single, record.spent) == ([10], 1, 165)


def test_a_failure_within_a_batch_is_that_items_alone(open_engine: Open, session: Session) -> None:
    model = Batches()
    model.replies = {
        2: ModelUnavailable("away"),
        5: ModelRateLimited("slow down", retry_after=0.01),
        7: ValueError("odd"),
    }
    engine = open_engine(completer=model)
    record = echo(engine, session, 10)
    assert words(engine, record) == [f"word {place}" for place in range(10)]


def test_a_batch_that_fails_as_a_whole_is_tried_again_and_counts_as_one_failure(
    open_engine: Open, session: Session
) -> None:
    model = Batches()
    model.batch_size = 100
    model.fails = [ModelUnavailable("away"), ModelRateLimited("slow down", retry_after=0.01)]
    engine = open_engine(completer=model)
    record = echo(engine, session, 100)
    assert (record.state, record.done, model.sizes) == ("done", 100, [100, 100, 100])


def test_a_batch_of_too_few_answers_is_a_failure(open_engine: Open, session: Session) -> None:
    class Short(Batches):
        def complete_many(self, requests: Sequence[CompletionRequest]) -> Sequence[Any]:
            return super().complete_many(requests)[1:]

    engine = open_engine(completer=Short())
    record = echo(engine, session, 10)
    assert record.failed == 10
    assert "9 of 10" in words(engine, record)[0]


def test_the_budget_holds_for_batches(open_engine: Open, session: Session) -> None:
    model = Batches()
    engine = open_engine(completer=model)
    record = echo(engine, session, 50, budget_tokens=600, max_tokens=100)
    assert record.state == "stopped"
    assert 0 < record.done < 50
    assert record.spent <= 600
