"""What a host attaches goes out as it was attached, while its message is raw and it fits."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from lcm_plugin import Engine, Session

LANE = Session("agent:main:main", "run-1")
DOCX = b"PK\x03\x04" + bytes(range(16))


def attached(data: bytes, mime: str, name: str) -> dict[str, Any]:
    url = f"data:{mime};base64,{base64.b64encode(data).decode()}"
    return {
        "role": "user",
        "content": [
            {"type": "text", "text": "what is in it?"},
            {"type": "file", "file": {"filename": name, "file_data": url}},
        ],
    }


@pytest.mark.parametrize(
    ("data", "mime", "name"),
    [
        (b"the ibis landed\n" * 2, "text/plain", "a.txt"),
        (b"bird,count\nibis,3\n", "text/csv", "a.csv"),
        (b'{"bird": "ibis"}', "application/json", "a.json"),
        (DOCX, "application/vnd.openxmlformats-officedocument.wordprocessingml.document", "a.docx"),
        (b"the ibis landed\n" * 3_000, "text/plain", "long.txt"),
    ],
)
def test_an_attachment_goes_out_whole_on_the_first_call_and_later(
    open_engine: Callable[..., Engine], data: bytes, mime: str, name: str
) -> None:
    engine = open_engine()
    message = attached(data, mime, name)
    engine.ingest(LANE, [message])
    assert engine.assemble(LANE, 64_000).messages == [message]
    engine.ingest(LANE, [{"role": "assistant", "content": "birds"}, {"role": "user", "content": "and then?"}])
    context = engine.assemble(LANE, 64_000)
    assert context.messages[0] == message
    if name == "long.txt":
        assert context.tokens > 10_000, "it costs what its words cost"
    assert engine.ingest(LANE, context.messages, mode="sync").stored == 0


def test_a_large_attachment_becomes_a_reference(open_engine: Callable[..., Engine]) -> None:
    engine = open_engine()
    engine.ingest(LANE, [attached(b"the ibis landed\n" * 20_000, "text/plain", "large.txt")])
    context = engine.assemble(LANE, 64_000)
    assert "[LCM File: file_" in str(context.messages)
    assert context.tokens < 5_000


def test_an_attachment_that_does_not_fit_becomes_a_reference(open_engine: Callable[..., Engine]) -> None:
    engine = open_engine()
    engine.ingest(LANE, [attached(b"the ibis landed\n" * 3_000, "text/plain", "long.txt")])
    context = engine.assemble(LANE, 6_000)
    assert not context.over_budget
    assert context.tokens <= 6_000
    assert "what is in it?" in str(context.messages)
    assert "[LCM File: file_" in str(context.messages)
