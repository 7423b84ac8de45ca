"""What is told: the same fields on every record, one id to a compaction, and never a message's words."""

from __future__ import annotations

import io
import json
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog
from messages import assistant, call, result, user

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.events import LOG_FIELDS, Event, EventBus, event_scope
from lcm_plugin.plugin import LcmPlugin
from lcm_plugin.types import CompletionRequest, Reset, Turn

pytestmark = pytest.mark.both_stores_under_ci

SMALL: dict[str, Any] = {
    "fresh_tail_count": 2,
    "leaf_chunk_tokens": 300,
    "leaf_min_fanout": 2,
    "condensed_min_fanout": 2,
}
PLANTED = "zanzibarquokka"


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, logger="lcm_plugin")
    return caplog


def talk(engine: Engine, session: Session, words: str = "this and that", turns: int = 12) -> None:
    for number in range(turns):
        engine.ingest(
            session,
            [
                user(f"question {number} {words} " + "and so on " * 12),
                assistant(f"answer {number} {words} " + "so " * 30),
            ],
        )


def test_a_record_says_what_happened_where_and_how_it_changed(
    open_engine: Callable[..., Engine], session: Session, log: pytest.LogCaptureFixture
) -> None:
    engine = open_engine(**SMALL)
    talk(engine, session)
    done = engine.compact(session, force=True)
    passes = [record for record in log.records if record.getMessage() == "compaction.pass"]
    assert [vars(record)["summary_id"] for record in passes] == list(done.summaries)
    for record in passes:
        told = vars(record)
        assert told["conversation_id"] == 1
        assert (told["session_key"], told["session_id"]) == (session.key, session.id)
        assert told["trigger_reason"] == "manual"
        assert told["token_before"] > told["token_after"] > 0
    (end,) = [record for record in log.records if record.getMessage() == "compaction.finished"]
    assert {vars(record)["compaction_id"] for record in [*passes, end]} == {vars(end)["compaction_id"]}
    assert vars(end)["compaction_id"].startswith("cmp_")


def test_every_record_has_every_field_so_that_a_formatter_can_name_them(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    names = " ".join(f"{name}=%({name})s" for name in LOG_FIELDS)
    handler.setFormatter(logging.Formatter(f"%(levelname)s %(message)s {names}"))
    logger = logging.getLogger("lcm_plugin")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        engine = open_engine(**SMALL)
        talk(engine, session)
        engine.compact(session, force=True)
        engine.call_tool(session, "lcm_grep", {"pattern": "question"})
        engine.new_session(session, 1)
        engine.reset_session(session)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
    lines = stream.getvalue().splitlines()
    assert len(lines) > 12
    assert all(f" {name}=" in line for line in lines for name in LOG_FIELDS)


def test_two_compactions_have_two_ids(open_engine: Callable[..., Engine], session: Session) -> None:
    engine = open_engine(**SMALL)
    seen: list[Event] = []
    engine.subscribe(seen.append)
    for _ in range(2):
        talk(engine, session)
        engine.compact(session, force=True)
    ends = [event.fields["compaction_id"] for event in seen if event.name == "compaction.finished"]
    assert len(set(ends)) == 2


def test_a_scope_ends_with_its_block_and_holds_for_its_own_thread() -> None:
    bus, seen = EventBus(), []
    bus.subscribe(lambda event: seen.append(dict(event.fields)))
    with event_scope(compaction_id="a", session_id="s"):
        with event_scope(compaction_id="b"):
            bus.emit("inner")
        bus.emit("outer", session_id="own")
        other = threading.Thread(target=bus.emit, args=("elsewhere",))
        other.start()
        other.join()
    bus.emit("after")
    assert seen == [
        {"compaction_id": "b", "session_id": "s"},
        {"compaction_id": "a", "session_id": "own"},
        {},
        {},
    ]


def test_structlog_gets_the_fields_from_the_record(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.ExtraAdder()],
            processor=structlog.processors.JSONRenderer(),
        )
    )
    logger = logging.getLogger("lcm_plugin")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        engine = open_engine(**SMALL)
        talk(engine, session)
        engine.compact(session, force=True)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
    told = [json.loads(line) for line in stream.getvalue().splitlines()]
    (end,) = [one for one in told if one["event"] == "compaction.finished"]
    assert end["trigger_reason"] == "manual"
    assert end["token_before"] > end["token_after"]


def test_the_package_sets_up_no_logging(open_engine: Callable[..., Engine], session: Session) -> None:
    root, own = logging.getLogger(), logging.getLogger("lcm_plugin")
    before = (list(root.handlers), root.level, list(own.handlers), own.level, own.propagate)
    engine = open_engine(**SMALL)
    talk(engine, session, turns=2)
    assert (list(root.handlers), root.level, list(own.handlers), own.level, own.propagate) == before


@pytest.mark.parametrize(
    "event", ["ingest.skipped", "compaction.skipped", "recall.answered", "assembly.done", "session.pruned"]
)
def test_what_is_done_and_what_is_left_undone_is_told(
    open_engine: Callable[..., Engine], session: Session, event: str
) -> None:
    engine = open_engine(**SMALL)
    seen: list[str] = []
    engine.subscribe(lambda one: seen.append(one.name))
    talk(engine, session, turns=3)
    engine.ingest(session, engine.messages(session), mode="sync")
    engine.compact(session)
    engine.assemble(session)
    engine.call_tool(session, "lcm_grep", {"pattern": "question"})
    engine.new_session(session)
    assert event in seen


def test_a_skip_because_somebody_else_compacts_is_told(
    open_engine: Callable[..., Engine], session: Session, clock: Any
) -> None:
    engine = open_engine(**SMALL)
    talk(engine, session)
    with engine.store.write() as writer:
        writer.claim_debt(1, "somebody", clock(), 60_000)
    seen: list[Event] = []
    engine.subscribe(seen.append)
    engine.compact(session, force=True)
    assert [event.fields["reason"] for event in seen if event.name == "compaction.skipped"] == ["locked"]


def all_words(record: logging.LogRecord) -> str:
    """Everything that any formatter could write of a record, its traceback included."""
    formatted = logging.Formatter("%(message)s").format(record)
    return formatted + " ".join(f"{value!r}" for key, value in vars(record).items() if key != "exc_info")


def rude_model(request: CompletionRequest) -> str:
    """Fails in turns, and repeats what it was asked in its errors, as some providers do."""
    rude_model.calls += 1  # type: ignore[attr-defined]
    if rude_model.calls % 3:  # type: ignore[attr-defined]
        raise RuntimeError(f"cannot process: {request.messages[-1]['content']}")
    return f"They spoke of {PLANTED}.\nExpand for details about: {PLANTED}."


class Unreadable(list[Any]):
    """A host's list that cannot be read, with an error that quotes it."""

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError(f"cannot read: {PLANTED}")


def test_no_record_above_debug_level_holds_a_messages_words(
    open_engine: Callable[..., Engine],
    session: Session,
    log: pytest.LogCaptureFixture,
    tmp_path: Any,
) -> None:
    rude_model.calls = 0  # type: ignore[attr-defined]
    config = LcmConfig(
        database=str(tmp_path / "busy.db"),
        **SMALL,
        large_file_token_threshold=1_000,
        large_file_summary_model="x/y",
        context_threshold=0.1,
    )
    plugin = LcmPlugin(config, completer=rude_model)
    turns: list[dict[str, Any]] = []
    for number in range(10):
        turns += [user(f"{number} {PLANTED} " + f"{PLANTED} and so on " * 30)]
        plugin.before_turn(Turn(session, turns, mode="sync", window=4_000, prompt=PLANTED))
        turns += [
            call(f"c{number}", "look", json.dumps({"at": PLANTED})),
            result(f"c{number}", f"{PLANTED} " * 40),
            assistant(f"{PLANTED} it is"),
        ]
        plugin.after_turn(Turn(session, turns, mode="sync", window=4_000))
    engine = plugin.engine
    engine.wait_idle(60)
    engine.compact(session, force=True)
    long = "\n".join(f"{PLANTED} line {n}" for n in range(500))
    engine.ingest(session, [user(long), assistant("ok")])
    for name, arguments in (
        ("lcm_grep", {"pattern": PLANTED}),
        ("lcm_grep", {"pattern": f"({PLANTED}", "mode": "regex"}),
        ("lcm_describe", {"id": PLANTED}),
        ("lcm_expand_query", {"query": PLANTED, "prompt": f"what of {PLANTED}?"}),
    ):
        plugin.lcm_call_tool(session, name, arguments)
    plugin.lcm_run_command(session, f"/lcm grep {PLANTED}")
    plugin.lcm_run_command(session, f"/lcm {PLANTED}")
    # What a host must not hand over, in ways that make errors quote it.
    for bad in ({"role": "", "content": PLANTED}, {"role": "user", PLANTED: object()}, {"role": [PLANTED]}):
        plugin.before_turn(Turn(session, [bad], mode="append"))
    plugin.before_turn(Turn(session, Unreadable(), mode="append"))
    engine.subscribe(lambda event: {}[PLANTED])  # type: ignore[misc]
    plugin.before_reset(Reset(session, "new", 1))
    plugin.session_end(session, "deleted")
    plugin.close()
    above = [record for record in log.records if record.levelno > logging.DEBUG]
    assert len(above) > 10
    names = {record.getMessage().partition(":")[0] for record in above}
    assert {"compaction.finished", "summary.failed"} <= names
    assert any("failed for session" in record.getMessage() for record in above)
    assert [record.getMessage() for record in above if PLANTED in all_words(record)] == []
