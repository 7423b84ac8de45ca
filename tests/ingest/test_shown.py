"""What models are shown of messages whose payloads lie in files, and what a host may hand back."""

from __future__ import annotations

import base64
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lcm_plugin.config import LcmConfig
from lcm_plugin.engine import Engine
from lcm_plugin.ingest.shown import WHOLE_BYTES
from lcm_plugin.types import Message, Session

pytestmark = pytest.mark.both_stores_under_ci

SESSION = Session("agent:main:main", "run-1")
NOISE = random.Random(3).randbytes(9_000)
BLOB = base64.b64encode(NOISE).decode()
PNG_URL = "data:image/png;base64," + BLOB
LONG = "line of output\n" * 3_000


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    config = LcmConfig(database=str(tmp_path / "lcm.db"), large_file_token_threshold=1_000)
    with Engine.open(config) as opened:
        yield opened


def shown(engine: Engine) -> list[Message]:
    return engine.assemble(SESSION, 100_000).messages


def call(arguments: str) -> Message:
    function = {"name": "write", "arguments": arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": function}],
    }


def result(content: Any) -> Message:
    return {"role": "tool", "tool_call_id": "c1", "content": content}


MEDIA = [
    {"type": "image_url", "image_url": {"url": PNG_URL}},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": BLOB}},
    {"type": "input_audio", "input_audio": {"data": BLOB, "format": "wav"}},
    {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{BLOB}", "filename": "a.pdf"}},
]


@pytest.mark.parametrize("block", MEDIA, ids=lambda block: str(block["type"]))
def test_media_blocks_reach_the_model_itself_and_leave_the_database(
    engine: Engine, block: Message, tmp_path: Path
) -> None:
    message: Message = {"role": "user", "content": [{"type": "text", "text": "what is this?"}, block]}
    engine.ingest(SESSION, [message])
    assert shown(engine) == [message]
    assert engine.messages(SESSION) == [message]
    assert engine.context_items(SESSION)[0].tokens < 5_000
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("lcm.db*"))
    assert BLOB[200:400].encode() not in stored


def test_an_image_whose_bytes_are_gone_becomes_a_text_that_names_it(engine: Engine, tmp_path: Path) -> None:
    engine.ingest(SESSION, [{"role": "user", "content": [{"type": "text", "text": "look"}, MEDIA[0]]}])
    shutil.rmtree(tmp_path / "lcm-files")
    text, image = shown(engine)[0]["content"]
    assert text == {"type": "text", "text": "look"}
    assert image["type"] == "text"
    assert image["text"].startswith("[LCM File: file_")


def test_a_large_file_block_that_is_no_media_becomes_a_text_block(engine: Engine) -> None:
    rows = base64.b64encode(b"ibis,3\n" * WHOLE_BYTES).decode()
    block = {"type": "file", "file": {"file_data": f"data:text/csv;base64,{rows}", "filename": "a.csv"}}
    message: Message = {"role": "user", "content": [block]}
    engine.ingest(SESSION, [message])
    (shown_block,) = shown(engine)[0]["content"]
    assert shown_block["type"] == "text"
    assert "a.csv | text/csv" in shown_block["text"]
    assert engine.messages(SESSION) == [message]


@pytest.mark.parametrize(
    "arguments",
    [
        json.dumps({"path": "a.txt", "text": LONG}),
        json.dumps({"image": PNG_URL, "n": 'say "hi"'}),
        json.dumps(PNG_URL),
    ],
)
def test_arguments_stay_json_when_their_payload_moves(engine: Engine, arguments: str) -> None:
    messages = [{"role": "user", "content": "go"}, call(arguments), result("done")]
    engine.ingest(SESSION, messages)
    assembled = shown(engine)
    given = assembled[1]["tool_calls"][0]["function"]["arguments"]
    assert "[LCM File: file_" in json.dumps(json.loads(given))
    assert len(given) < 4_000
    assert engine.messages(SESSION) == messages


@pytest.mark.parametrize("mode", ["sync", "append"])
def test_what_models_were_shown_may_come_back_and_is_not_stored_again(engine: Engine, mode: Any) -> None:
    messages: list[Message] = [
        {"role": "user", "content": [{"type": "text", "text": f"see {PNG_URL} and " + LONG}, MEDIA[0]]},
        call(json.dumps({"text": LONG})),
        result(LONG + "tail"),
        {"role": "user", "content": LONG},
        {"role": "assistant", "content": "read it"},
    ]
    engine.ingest(SESSION, messages)
    if mode == "sync":
        assert (
            engine.ingest(SESSION, [*shown(engine), {"role": "user", "content": "next"}], "sync").stored == 1
        )
        assert engine.messages(SESSION) == [*messages, {"role": "user", "content": "next"}]
    else:
        assert engine.ingest(SESSION, [shown(engine)[3], messages[4]], "append").stored == 0
        assert engine.messages(SESSION) == messages


def test_a_question_about_a_reference_is_stored_and_shown(engine: Engine) -> None:
    engine.ingest(SESSION, [{"role": "user", "content": LONG}])
    reference = shown(engine)[0]["content"]
    question: Message = {"role": "user", "content": f"what does this mean?\n{reference}\nplease explain"}
    assert engine.ingest(SESSION, [{"role": "user", "content": LONG}, question], "sync").stored == 1
    assert shown(engine)[-1] == question


def test_results_of_our_own_tools_are_shown_in_full(engine: Engine) -> None:
    describe = call("{}")
    describe["tool_calls"][0]["function"]["name"] = "lcm_describe"
    messages = [{"role": "user", "content": "read it"}, describe, result(LONG)]
    engine.ingest(SESSION, messages)
    assert shown(engine) == messages


def test_equal_bytes_are_one_file_and_one_id(engine: Engine, tmp_path: Path) -> None:
    for index in range(3):
        engine.ingest(
            SESSION, [{"role": "user", "content": [{"type": "text", "text": str(index)}, MEDIA[index % 2]]}]
        )
    files = [path for path in (tmp_path / "lcm-files").rglob("*") if path.is_file()]
    assert [path.read_bytes() for path in files] == [NOISE]


def test_payloads_may_live_inside_the_database(tmp_path: Path) -> None:
    config = LcmConfig(
        database=str(tmp_path / "lcm.db"), large_files_dir="db", large_file_token_threshold=1_000
    )
    message: Message = {"role": "user", "content": [MEDIA[0], {"type": "text", "text": LONG}]}
    with Engine.open(config) as engine:
        engine.ingest(SESSION, [message])
        assert engine.messages(SESSION) == [message]
    assert not any(path.is_dir() for path in tmp_path.iterdir())


def test_instruction_files_that_a_tool_read_stay_in_the_message(tmp_path: Path) -> None:
    read = call('{"path": "/skills/lcm/SKILL.md"}')
    messages = [{"role": "user", "content": "go"}, read, result(LONG)]
    for name, patterns, inline in (("a", {}, True), ("b", {"large_file_exempt_patterns": ["*.rst"]}, False)):
        config = LcmConfig(
            database=str(tmp_path / f"{name}.db"), large_file_token_threshold=1_000, **patterns
        )
        with Engine.open(config) as engine:
            engine.ingest(SESSION, messages)
            assert (shown(engine)[2]["content"] == LONG) == inline
