"""One odd message in a delta or a list: it is stored as far as it can be, and its neighbours as they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from messages import assistant, user

from lcm_plugin import Engine, Session
from lcm_plugin.errors import StoreBusy, StoreError
from lcm_plugin.ingest import rows
from lcm_plugin.types import Message

pytestmark = pytest.mark.both_stores_under_ci


class Odd(dict[str, Any]):
    """A mapping that cannot be read."""

    def items(self) -> Any:
        raise RuntimeError("this mapping is odd")


ODD: list[Any] = [
    user(datetime(2026, 5, 1)),
    user(b"\xff"),
    user(10**5000),
    user(object()),
    assistant("five", tool_calls=5),
    assistant("text", tool_calls="text", function_call=[1]),
    {"role": "tool", "content": 3, "tool_call_id": {"a": 1}},
    Odd(role="user", content="what could be read"),
]


@pytest.mark.parametrize("mode", ["append", "sync"])
@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
def test_neighbours_of_an_odd_message_are_stored_and_nothing_is_stored_twice(
    engine: Engine, session: Session, odd: Any, mode: Any
) -> None:
    listing = [user("before the odd one"), odd, assistant("after the odd one, at some length")]
    assert engine.ingest(session, listing, mode).stored == 3
    kept = engine.messages(session)
    assert (kept[0], kept[2]) == (listing[0], listing[2])
    assert kept[1]["role"] == odd["role"]
    assert engine.ingest(session, listing, "sync").stored == 0
    more = [*listing, user("and on it goes")]
    assert engine.ingest(session, more, "sync").stored == 1
    assert engine.messages(session)[:3] == kept
    assert engine.check().ok


def test_the_report_names_what_was_converted_and_what_is_broken(engine: Engine, session: Session) -> None:
    report = engine.ingest(session, [user("x"), user(datetime(2026, 5, 1)), ODD[-1]])
    assert report.converted == ("message 1.content: datetime",)
    assert report.broken == ("message 2: RuntimeError",)
    again = engine.ingest(session, [user("x"), user(datetime(2026, 5, 1)), ODD[-1]], "sync")
    assert (again.stored, again.converted, again.broken) == (0, (), ())


def test_a_broken_record_can_be_read_presented_and_found(engine: Engine, session: Session) -> None:
    engine.ingest(session, [user("hello"), ODD[-1]])
    record = engine.messages(session)[1]
    assert record["content"][0]["text"] == "what could be read"
    assert record["content"][1]["text"].startswith("[LCM could not store this Odd whole: RuntimeError")
    context = engine.assemble(session, 8_000)
    sent = json.dumps(context.messages, ensure_ascii=False).encode().decode()
    assert "what could be read" in sent
    assert "could not store this Odd whole: RuntimeError: this mapping is odd" in sent


def test_a_row_that_cannot_be_made_is_a_broken_record_that_aligns(
    engine: Engine, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    lift = rows.lift

    def failing(message: Message) -> Any:
        if message["content"] == "unlucky":
            raise TypeError("no parts")
        return lift(message)

    monkeypatch.setattr(rows, "lift", failing)
    listing = [user("one"), user("unlucky"), assistant("two")]
    report = engine.ingest(session, listing)
    assert (report.stored, report.broken) == (3, ("message 1: TypeError",))
    assert engine.messages(session)[1]["content"][0]["text"] == "unlucky"
    assert engine.ingest(session, listing, "sync").stored == 0


def test_a_message_that_the_store_refuses_does_not_hold_up_the_others(
    open_engine: Callable[..., Engine], session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine()
    append = rows.append_rows

    def refusing(writer: Any, conversation: Any, prepared: Any, now: int, **more: Any) -> None:
        if any(
            part.text == "unlucky" for one in prepared for part in one.row.parts if len(one.row.parts) == 1
        ):
            raise StoreError("string or blob too big")
        append(writer, conversation, prepared, now, **more)

    monkeypatch.setattr("lcm_plugin.ingest.ingestor.append_rows", refusing)
    listing = [user("one"), user("unlucky"), assistant("two")]
    assert engine.ingest(session, listing).broken == ("message 1: StoreError",)
    assert [m["content"] for m in engine.messages(session)][::2] == ["one", "two"]
    assert engine.ingest(session, listing, "sync").stored == 0


@pytest.mark.parametrize("error", [StoreBusy("locked"), StoreError("broken schema"), MemoryError()])
def test_a_fault_of_the_store_breaks_no_message(
    engine: Engine, session: Session, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def failing(*_: Any, **__: Any) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("lcm_plugin.ingest.ingestor.append_rows", failing)
        with pytest.raises(type(error)):
            engine.ingest(session, [user("one"), user("two")])
    assert engine.messages(session) == []
    assert engine.ingest(session, [user("one"), user("two")]).broken == ()
    assert engine.messages(session) == [user("one"), user("two")]


def test_secrets_are_removed_from_converted_and_broken_messages(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine(redact_patterns=["sk-[a-z0-9]+"])
    engine.ingest(session, [user(b"key sk-abc123"), Odd(role="user", content="key sk-abc123")])
    assert "sk-abc123" not in json.dumps(engine.messages(session))
    assert json.dumps(engine.messages(session)).count("[REDACTED]") == 2
