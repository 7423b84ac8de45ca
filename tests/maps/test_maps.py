"""Maps: creating, working off, stopping, going on, and counting."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from messages import user
from waiting import eventually

from lcm_plugin import Engine, Session
from lcm_plugin.errors import InputError, ModelError, ModelRateLimited, NotFound
from lcm_plugin.maps.options import MapOptions
from lcm_plugin.maps.source import MapSource
from lcm_plugin.store.maps.records import MapRecord
from lcm_plugin.types import CompletionRequest, CompletionResult, Usage

pytestmark = pytest.mark.both_stores

Open = Callable[..., Engine]
SCHEMA = {
    "type": "object",
    "properties": {"animal": {"enum": ["cat", "dog", "none"]}, "words": {"type": "integer"}},
    "required": ["animal"],
    "additionalProperties": False,
}


class Labeller:
    """A model that labels by looking for words, counts its calls, and can be told to misbehave."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.times: list[float] = []
        self.last: CompletionRequest
        self.raises: list[Exception] = []
        self.says: list[str] = []
        self.refuses = ""
        self.hold: threading.Event | None = None
        self._lock = threading.Lock()

    def __call__(self, request: CompletionRequest) -> CompletionResult:
        text = str(request.messages[1]["content"])
        with self._lock:
            self.last = request
            self.calls.append(text)
            self.times.append(time.monotonic())
            error = self.raises.pop(0) if self.raises else None
            said = self.says.pop(0) if self.says else None
        if self.hold is not None:
            self.hold.wait(10)
        if self.refuses and self.refuses in text:
            raise ModelError("not this one")
        if error is not None:
            raise error
        animal = next((name for name in ("cat", "dog") if name in text), "none")
        answer = said or json.dumps({"animal": animal, "words": len(text.split())})
        return CompletionResult(answer, "fake", Usage(10, 5))


@pytest.fixture
def labeller() -> Labeller:
    return Labeller()


@pytest.fixture
def engine(open_engine: Open, labeller: Labeller) -> Engine:
    return open_engine(completer=labeller, maps=True)


def given(texts: Iterable[str]) -> MapSource:
    return MapSource(items=[(f"item {number}", text) for number, text in enumerate(texts, 1)])


def make(engine: Engine, session: Session, texts: Iterable[str], **options: Any) -> MapRecord:
    return engine.maps.create(session, given(texts), "Which animal?", SCHEMA, "", MapOptions(**options))


def answers(engine: Engine, record: MapRecord) -> list[Any]:
    return [
        json.loads(item.answer) if item.answer else item.error for item in engine.maps.items(record.map_id)
    ]


def count(engine: Engine, record: MapRecord, sql: str) -> list[tuple[Any, ...]]:
    return list(engine.maps.reduce([record], sql, 100).rows)


def test_a_map_asks_about_every_item_and_keeps_the_answers(
    engine: Engine, session: Session, labeller: Labeller
) -> None:
    texts = [f"{('a cat', 'a dog', 'rain')[number % 3]} number {number}" for number in range(40)]
    record = engine.map(session, given(texts), "Which animal?", SCHEMA, parallel=4)
    assert (record.state, record.items, record.done, record.failed) == ("done", 40, 40, 0)
    assert (record.tokens_in, record.tokens_out) == (400, 200)
    assert len(labeller.calls) == 40
    rows = count(engine, record, "SELECT animal, count(*) FROM answers GROUP BY 1 ORDER BY 1")
    assert rows == [("cat", 14), ("dog", 13), ("none", 13)]


def test_an_equal_item_is_asked_about_once_and_its_answer_serves_later_maps(
    engine: Engine, session: Session, labeller: Labeller
) -> None:
    first = engine.map(session, given(["a cat", "a dog", "a cat"]), "Which animal?", SCHEMA, parallel=1)
    assert answers(engine, first)[2]["animal"] == "cat"
    asked = len(labeller.calls)
    second = engine.map(session, given(["a dog", "a cat", "rain"]), "Which animal?", SCHEMA)
    assert (len(labeller.calls), second.done, second.spent) == (asked + 1, 3, 15)
    other = engine.map(session, given(["a dog"]), "Which animal is it?", SCHEMA)
    assert len(labeller.calls) == asked + 2
    assert other.done == 1


def test_equal_items_side_by_side_wait_for_one_answer(
    open_engine: Open, session: Session, labeller: Labeller
) -> None:
    engines = [open_engine(completer=labeller, maps=True) for _ in range(2)]
    record = make(engines[0], session, [*["a cat"] * 50, "a dog", *["a cat"] * 50, "rain"])
    labeller.hold = threading.Event()
    threads = [
        threading.Thread(target=engine.maps.run, args=(record.map_id,), kwargs={"parallel": 4})
        for engine in engines
    ]
    for thread in threads:
        thread.start()
    eventually(lambda: len(labeller.calls) >= 3)
    labeller.hold.set()
    for thread in threads:
        thread.join(60)
    done = engines[0].maps.get(record.map_id)
    assert (done.state, done.done, len(labeller.calls)) == ("done", 102, 3)
    assert count(engines[0], done, "SELECT count(*) FROM answers WHERE animal = 'cat'") == [(100,)]


@pytest.mark.sqlite_only
def test_the_work_for_an_item_does_not_grow_with_the_map(engine: Engine, session: Session) -> None:
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    def work_for_20_items(of: int) -> int:
        record = make(engine, session, [f"cat {number} of {of}" for number in range(of)])
        before, done = steps, list[int]()
        engine.maps.run(
            record.map_id,
            parallel=1,
            stop=lambda: 20 in done,
            progress=lambda one: done.append(one.done),
        )
        return steps - before

    with engine.store.write() as writer:
        writer.db.set_progress_handler(step, 10)  # type: ignore[attr-defined]
    assert work_for_20_items(of=3_000) < 1.5 * work_for_20_items(of=30)


def test_an_answer_serves_no_other_prompt_or_schema(
    engine: Engine, session: Session, labeller: Labeller
) -> None:
    engine.map(session, given(["a cat"]), "Which animal?", SCHEMA)
    engine.map(session, given(["a cat"]), "Which animal?", SCHEMA)
    assert len(labeller.calls) == 1
    engine.map(session, given(["a cat"]), "Which pet?", SCHEMA)
    engine.map(session, given(["a cat"]), "Which animal?", {"type": "object"})
    assert len(labeller.calls) == 3


@pytest.mark.long
def test_an_answer_serves_no_other_model(engine: Engine, session: Session, labeller: Labeller) -> None:
    engine.map(session, given(["a cat"]), "Which animal?", SCHEMA)
    waiting = engine.maps.create(session, given(["a cat"]), "Which animal?", SCHEMA, "openai/other")
    assert (waiting.done, waiting.left) == (0, 1)


def test_an_invalid_reply_is_corrected_and_a_stubborn_one_is_an_error_of_its_item(
    engine: Engine, session: Session, labeller: Labeller
) -> None:
    labeller.says = ["no idea", '{"animal": "cow"}', '```json\n{"animal": "dog"}\n```']
    record = engine.map(session, given(["a dog"]), "Which animal?", SCHEMA)
    assert answers(engine, record) == [{"animal": "dog"}]
    assert record.spent == 45
    said = [str(message["content"]) for message in labeller.last.messages[2:]]
    assert said[0] == "no idea"
    assert said[1].startswith("That reply is not valid: the reply holds no JSON")
    assert said[3].startswith("That reply is not valid: animal: 'cow' is not one of ['cat', 'dog', 'none']")
    labeller.says = ["no idea"] * 3
    failed = engine.map(session, given(["a horse"]), "Which animal?", SCHEMA)
    assert (failed.state, failed.failed) == ("done", 1)
    assert "no valid reply: the reply holds no JSON" in answers(engine, failed)[0]


def test_one_refused_item_does_not_stop_the_others(
    engine: Engine, session: Session, labeller: Labeller
) -> None:
    labeller.raises = [ModelError("content policy")]
    record = engine.map(session, given(["a", "b", "c", "d"]), "Which animal?", SCHEMA, parallel=1)
    assert (record.state, record.done, record.failed) == ("done", 3, 1)
    assert answers(engine, record)[0] == "content policy"


def test_refused_items_in_a_row_neither_stop_nor_pause_a_map_that_has_answers(
    engine: Engine, session: Session, labeller: Labeller
) -> None:
    texts = ["a cat", *(f"cursed {number}" for number in range(25)), "a dog"]
    labeller.refuses = "cursed"
    record = engine.map(session, given(texts), "Which animal?", SCHEMA, parallel=1)
    assert (record.state, record.done, record.failed) == ("done", 2, 25)
    assert len(labeller.calls) == 27


def test_a_map_of_which_nothing_is_taken_stops_after_twenty_items(
    engine: Engine, session: Session, labeller: Labeller
) -> None:
    labeller.refuses = "cursed"
    record = make(engine, session, [f"cursed {number}" for number in range(200)])
    stopped = engine.maps.run(record.map_id, parallel=1)
    assert (stopped.state, stopped.failed) == ("stopped", 20)
    assert stopped.reason == "20 calls in a row failed, the last with: not this one"


def test_a_rate_limit_waits_and_costs_no_attempt(
    engine: Engine, session: Session, labeller: Labeller
) -> None:
    labeller.raises = [ModelRateLimited("slow down", 0.2), ModelRateLimited("slow down", 0.2)]
    record = engine.map(session, given(["a cat", "a dog"]), "Which animal?", SCHEMA, parallel=1)
    assert (record.done, record.failed) == (2, 0)
    first, second, third, _ = labeller.times
    assert min(second - first, third - second) >= 0.2


def test_no_call_begins_in_a_pause_that_the_provider_asks_for(
    engine: Engine, session: Session, labeller: Labeller
) -> None:
    labeller.raises = [ModelRateLimited("slow down", 30.0)]
    record = make(engine, session, [f"cat {number}" for number in range(12)])
    looks = list[int]()

    def stop() -> bool:
        looks.append(len(labeller.calls))
        return looks.count(1) > 4

    paused = engine.maps.run(record.map_id, parallel=1, stop=stop)
    assert (paused.state, paused.left, len(labeller.calls)) == ("running", 12, 1)
    assert next(engine.maps.items(record.map_id)).attempts == 0


def test_a_model_that_always_fails_stops_the_map_and_it_goes_on_later(
    engine: Engine, session: Session, labeller: Labeller
) -> None:
    texts = [f"cat {number}" for number in range(30)]
    labeller.says = ["nothing"] * 60
    record = engine.map(session, given(texts), "Which animal?", SCHEMA, parallel=1)
    assert record.state == "stopped"
    assert record.reason.startswith("20 calls in a row failed")
    labeller.says = []
    engine.maps.resume(record.map_id)
    done = engine.maps.run(record.map_id)
    assert (done.state, done.done, done.failed) == ("done", 30, 0)


def test_the_budget_ends_a_map_before_it_is_over_and_a_larger_one_finishes_it(
    engine: Engine, session: Session, labeller: Labeller
) -> None:
    record = make(
        engine, session, [f"cat {number}" for number in range(20)], budget_tokens=450, max_tokens=50
    )
    stopped = engine.maps.run(record.map_id, parallel=3)
    assert (stopped.state, stopped.reason) == ("stopped", "the budget is used up")
    assert 0 < stopped.done < 20
    assert stopped.spent <= 450
    asked = len(labeller.calls)
    engine.maps.resume(record.map_id, budget_tokens=100_000)
    done = engine.maps.run(record.map_id)
    assert (done.state, done.done) == ("done", 20)
    assert len(labeller.calls) - asked == 20 - stopped.done


def test_money_is_a_budget_where_the_price_is_known(engine: Engine, session: Session) -> None:
    with pytest.raises(InputError, match="price_in and price_out"):
        MapOptions(budget_usd=1.0)
    options = {"budget_usd": 0.002, "price_in": 10.0, "price_out": 10.0, "max_tokens": 10}
    record = make(engine, session, [f"cat {number}" for number in range(50)], **options)
    stopped = engine.maps.run(record.map_id, parallel=2)
    assert stopped.state == "stopped"
    assert stopped.cost == stopped.done * 150
    assert stopped.cost <= 2_000


def test_a_stopped_map_keeps_what_was_under_way(engine: Engine, session: Session, labeller: Labeller) -> None:
    record = make(engine, session, [f"cat {number}" for number in range(20)])
    seen: list[int] = []

    def stop() -> bool:
        return len(labeller.calls) >= 4

    after = engine.maps.run(record.map_id, parallel=2, stop=stop, progress=lambda one: seen.append(one.done))
    assert after.state == "running"
    assert after.done == len(labeller.calls) < 20
    done = engine.maps.run(record.map_id)
    assert (done.done, len(labeller.calls)) == (20, 20)
    assert seen == sorted(seen)


def test_two_workers_share_a_map_and_pay_for_each_item_once(open_engine: Open, session: Session) -> None:
    models = [Labeller(), Labeller()]
    engines = [open_engine(completer=model, maps=True) for model in models]
    record = make(engines[0], session, [f"cat {number}" for number in range(60)])
    threads = [
        threading.Thread(target=engine.maps.run, args=(record.map_id,), kwargs={"parallel": 3})
        for engine in engines
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert engines[0].maps.get(record.map_id).done == 60
    assert sorted(models[0].calls + models[1].calls) == sorted(set(models[0].calls + models[1].calls))
    assert len(models[0].calls) + len(models[1].calls) == 60


def test_items_come_from_messages_by_filter_and_search(engine: Engine, session: Session) -> None:
    engine.ingest(
        session,
        [user(f"my cat is called Tom {number}") for number in range(5)]
        + [{"role": "assistant", "content": "The cat sleeps."}, user("It rains.")],
        "append",
    )
    engine.ingest(session, [{"role": "assistant", "content": "Yes."}], "append")
    all_of_them = engine.maps.create(session, MapSource(), "Which animal?", SCHEMA)
    assert all_of_them.items == 8
    spoken = engine.maps.create(session, MapSource(roles=["user"]), "Which animal?", SCHEMA)
    assert spoken.items == 6
    found = engine.maps.create(session, MapSource(query="Tom"), "Which animal?", SCHEMA)
    assert [item.ref for item in engine.maps.items(found.map_id)] == [
        f"msg_{number}" for number in range(1, 6)
    ]
    named = engine.maps.create(session, MapSource(ids=["msg_1-msg_3"]), "Which animal?", SCHEMA)
    assert next(item.content for item in engine.maps.items(named.map_id)) == "user: my cat is called Tom 0"
    over = engine.maps.run(found.map_id)
    chained = engine.maps.create(session, MapSource(ids=[over.map_id]), "Is it a cat?", {"type": "boolean"})
    assert [json.loads(item.content)["animal"] for item in engine.maps.items(chained.map_id)] == ["cat"] * 5


def test_what_was_taken_back_is_no_item(engine: Engine, session: Session) -> None:
    told = [user("a cat"), {"role": "assistant", "content": "ok"}]
    engine.ingest(session, [*told, user("a dog")], "sync")
    engine.ingest(session, [*told, user("a horse"), {"role": "assistant", "content": "done"}], "sync")
    record = engine.maps.create(session, MapSource(roles=["user"]), "Which animal?", SCHEMA)
    assert [item.content for item in engine.maps.items(record.map_id)] == ["user: a cat", "user: a horse"]


@pytest.mark.parametrize(
    ("prompt", "schema", "text"),
    [
        (" ", SCHEMA, "prompt is empty"),
        ("x" * 20_001, SCHEMA, "20,000 are allowed"),
        ("Which?", {}, "schema must be a JSON schema"),
        ("Which?", {"type": "animal"}, "schema: type"),
        ("Which?", {"$ref": "https://example.org/schema"}, "references must stay inside"),
        ("Which?", {"type": "string", "pattern": "("}, "pattern"),
    ],
)
def test_what_cannot_be_a_map_is_refused_and_leaves_nothing(
    engine: Engine, session: Session, prompt: str, schema: Any, text: str
) -> None:
    with pytest.raises(InputError, match=text):
        engine.maps.create(session, given(["a"]), prompt, schema)
    assert engine.maps.listed() == []


def test_no_items_or_too_many_leave_nothing(engine: Engine, session: Session) -> None:
    with pytest.raises(InputError, match="there are no items"):
        engine.maps.create(session, given([]), "Which?", SCHEMA)
    with pytest.raises(InputError, match="more than 2 items"):
        engine.maps.create(session, given("abc"), "Which?", SCHEMA, most_items=2)
    assert engine.maps.listed() == []


def test_a_map_of_another_agent_is_not_found(engine: Engine, session: Session) -> None:
    record = make(engine, session, ["a cat"])
    assert engine.maps.find(session, record.map_id).items == 1
    with pytest.raises(NotFound):
        engine.maps.find(Session("agent:other:main", "x"), record.map_id)


def test_an_ignored_session_has_no_map(open_engine: Open, session: Session) -> None:
    engine = open_engine(completer=Labeller(), maps=True, ignore_session_patterns=["agent:main:*"])
    with pytest.raises(InputError, match="nothing of it may be written"):
        make(engine, session, ["a cat"])
    assert engine.maps.listed() == []
