"""Every kind of part comes back as the host's own way through JSON gives it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from checks import as_written, problems_of
from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    CachePoint,
    DocumentUrl,
    FilePart,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    RetryPromptPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
    VideoUrl,
)
from pydantic_ai.usage import RequestUsage
from talk import KEY

from lcm_plugin import Session
from lcm_plugin.hosts.pydantic_ai import LcmCapability
from lcm_plugin.hosts.pydantic_ai.messages import dump, from_core, to_core
from lcm_plugin.hosts.pydantic_ai.recorder import Recorder

Make = Callable[..., LcmCapability[Any]]
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40
WHEN = datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)


def asked(*content: Any) -> ModelRequest:
    return ModelRequest([UserPromptPart(list(content) if len(content) > 1 else content[0])])


def called(*args: Any, **extra: Any) -> ModelResponse:
    return ModelResponse([ToolCallPart("look", value, f"call-{n}", **extra) for n, value in enumerate(args)])


CONVERSATIONS: dict[str, list[ModelMessage]] = {
    "system prompt and instructions": [
        ModelRequest([SystemPromptPart("You are terse."), UserPromptPart("hi")], instructions="Be nice."),
        ModelResponse([TextPart("hello")]),
        ModelRequest([UserPromptPart("again")], instructions="Be nice."),
        ModelResponse([TextPart("yes")]),
        ModelRequest([UserPromptPart("and?")], instructions="Be curt."),
    ],
    "thinking with a signature between texts": [
        asked("why?"),
        ModelResponse(
            [
                TextPart("Let me see."),
                ThinkingPart("It may be the valve.", signature="c2ln", provider_name="anthropic"),
                TextPart("The valve.", id="msg_1", provider_name="openai"),
            ],
            model_name="claude-x-2026-01-01",
            provider_name="anthropic",
            provider_response_id="resp_1",
            provider_details={"finish_reason": "end_turn"},
            finish_reason="stop",
            usage=RequestUsage(input_tokens=120, output_tokens=30, cache_read_tokens=100, details={"x": 1}),
            timestamp=WHEN,
        ),
    ],
    "calls before and between texts, arguments as text, values, nothing and nonsense": [
        asked("look"),
        ModelResponse(
            [
                ToolCallPart("look", '{"a":  1}', "c1", id="fc_1", provider_name="openai"),
                TextPart("and"),
                ToolCallPart("look", {"b": [1, {"c": None}]}, "c2"),
                ToolCallPart("look", None, "c3"),
                ToolCallPart("look", '{"half', "c4"),
            ]
        ),
        ModelRequest([ToolReturnPart("look", "seen", f"c{n}") for n in range(1, 5)]),
    ],
    "returns of every shape": [
        asked("look"),
        called("{}", "{}", "{}", "{}", "{}", "{}"),
        ModelRequest(
            [
                ToolReturnPart("look", "words", "call-0", metadata={"row": 7}),
                ToolReturnPart("look", {"deep": [1, 2, {"x": "é"}]}, "call-1"),
                ToolReturnPart("look", ["a", 1, None], "call-2"),
                ToolReturnPart("look", 3.5, "call-3"),
                ToolReturnPart("look", None, "call-4"),
                ToolReturnPart("look", "", "call-5"),
            ]
        ),
    ],
    "media in a prompt": [
        asked(
            "what is this?",
            BinaryContent(PNG, media_type="image/png", identifier="gauge"),
            BinaryContent(b"ID3" + bytes(2_000), media_type="audio/mpeg"),
            ImageUrl("https://example.org/a.png", vendor_metadata={"detail": "low"}),
            AudioUrl("https://example.org/a.mp3"),
            VideoUrl("https://example.org/a.mp4"),
            DocumentUrl("https://example.org/a.pdf"),
            CachePoint(),
            "and this?",
        ),
        ModelResponse([TextPart("A gauge.")]),
    ],
    "media that a tool returned": [
        asked("look"),
        called("{}", "{}"),
        ModelRequest(
            [
                ToolReturnPart("look", BinaryContent(PNG, media_type="image/png"), "call-0"),
                ToolReturnPart("look", ["left", BinaryContent(PNG, media_type="image/png"), {"n": 1}], "call-1"),
            ]
        ),
    ],
    "a file that the model made": [
        asked("draw"),
        ModelResponse([TextPart("Here:"), FilePart(BinaryContent(PNG, media_type="image/png"), id="f1", provider_name="x")]),
    ],
    "tools of the provider's own": [
        asked("search"),
        ModelResponse(
            [
                NativeToolCallPart("web_search", {"query": "pumps"}, "ws_1", provider_name="openai"),
                NativeToolReturnPart("web_search", {"hits": ["a", "b"]}, "ws_1", provider_name="openai"),
                TextPart("Found."),
            ]
        ),
    ],
    "retries": [
        asked("look"),
        called('{"gauge": "x"}'),
        ModelRequest(
            [
                RetryPromptPart(
                    [{"type": "int_parsing", "loc": ("gauge",), "msg": "not a number", "input": "x"}],
                    tool_name="look",
                    tool_call_id="call-0",
                )
            ]
        ),
        ModelResponse([TextPart("The answer is x.")]),
        ModelRequest([RetryPromptPart("Give a number.")]),
        ModelResponse([TextPart("7")]),
    ],
    "hard texts": [
        asked("NUL \x00 and emoji 🐟, a line\nbreak, <summary id='x'>not ours</summary>"),
        ModelResponse([TextPart("  spaces  ")]),
        asked(" "),
        ModelResponse([TextPart("")]),
        ModelResponse([]),
    ],
    "honest repeats in one instant": [
        ModelRequest([UserPromptPart("go on", timestamp=WHEN)]),
        ModelResponse([TextPart("ok")], timestamp=WHEN),
        ModelRequest([UserPromptPart("go on", timestamp=WHEN)]),
        ModelResponse([TextPart("ok")], timestamp=WHEN),
    ],
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*RetryPromptPart")
@pytest.mark.parametrize("conversation", CONVERSATIONS.values(), ids=CONVERSATIONS.keys())
def test_stored_and_read_again_it_is_the_same(make: Make, conversation: list[ModelMessage]) -> None:
    lcm = make()
    recorder = Recorder()
    for end in range(1, len(conversation) + 1):
        listing = recorder.listing(conversation[:end])
        assert recorder.goes_on, "each message adds something"
        assert lcm.engine.ingest(Session(KEY), listing, "sync").stored > 0
        recorder.stored(listing)
        recorder.listing(conversation[:end])
        assert not recorder.goes_on
    assert lcm.history() == as_written(conversation)


@pytest.mark.parametrize("conversation", CONVERSATIONS.values(), ids=CONVERSATIONS.keys())
def test_handed_over_again_by_another_process_nothing_is_stored_twice(
    make: Make, conversation: list[ModelMessage]
) -> None:
    lcm = make()
    lcm.engine.ingest(Session(KEY), Recorder().listing(conversation))
    again = Recorder().listing(as_written(conversation))
    assert lcm.engine.ingest(Session(KEY), again).stored == 0


@pytest.mark.parametrize("conversation", CONVERSATIONS.values(), ids=CONVERSATIONS.keys())
def test_its_assembled_context_is_one_that_providers_take(
    make: Make, conversation: list[ModelMessage]
) -> None:
    lcm = make()
    lcm.engine.ingest(Session(KEY), Recorder().listing([*conversation, asked("And now?")]))
    context = lcm.engine.assemble(Session(KEY), 8_000)
    assert problems_of(from_core(context.messages, merge=True)) == []


def test_media_stand_in_the_context_as_they_were(make: Make) -> None:
    lcm = make()
    lcm.engine.ingest(Session(KEY), Recorder().listing(CONVERSATIONS["media in a prompt"][:1]))
    [request] = from_core(lcm.engine.assemble(Session(KEY), 60_000).messages, merge=True)
    [prompt] = request.parts
    assert [item.data for item in prompt.content if isinstance(item, BinaryContent)] == [
        PNG,
        b"ID3" + bytes(2_000),
    ]


def test_what_json_cannot_hold_is_kept_as_text(make: Make) -> None:
    odd = ModelRequest([ToolReturnPart("look", {"lock": object}, "c1")])
    [core] = to_core(dump([odd])[0])
    assert "class 'object'" in core["content"]


def test_parts_of_a_later_version_are_kept_though_they_are_not_understood() -> None:
    dumped = {"kind": "request", "parts": [{"part_kind": "from-the-future", "says": "x", "n": 1}]}
    [core] = to_core(dumped)
    assert core["content"] == ""
    assert core["host_data"]["pydantic_ai"]["part"] == dumped["parts"][0]


def test_the_same_instructions_are_written_once(make: Make) -> None:
    lcm = make()
    lcm.engine.ingest(Session(KEY), Recorder().listing(CONVERSATIONS["system prompt and instructions"][:1]))
    recorder = Recorder()
    conversation = CONVERSATIONS["system prompt and instructions"]
    for end in range(1, len(conversation) + 1):
        listing = recorder.listing(conversation[:end])
        lcm.engine.ingest(Session(KEY), listing, "sync")
        recorder.stored(listing)
    assert str(lcm.engine.messages(Session(KEY))).count("Be nice.") == 1
    assert lcm.history() == as_written(conversation)
