"""A provider that refuses a context as too long."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from clock import Clock
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import user
from small_talk import Model, turns

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.compaction.overflow import FORMS, Refusal, refusal_of
from lcm_plugin.compaction.windows import Windows
from lcm_plugin.memory import Memory
from lcm_plugin.plugin import LcmPlugin
from lcm_plugin.types import Reason, Turn, Usage

pytestmark = pytest.mark.both_stores_under_ci

Open = Callable[..., Engine]
SMALL: dict[str, Any] = {"fresh_tail_count": 6, "leaf_target_tokens": 150, "condensed_target_tokens": 200}
HOUR = 3_600_000

ERRORS: dict[str, tuple[str, int | None, int | None]] = {
    "OpenAI": (
        "Error code: 400 - {'error': {'message': \"This model's maximum context length is 8192 tokens. However, your "
        "messages resulted in 8227 tokens. Please reduce the length of the messages.\", 'code': 'context_length_exceeded'}}",
        8192,
        8227,
    ),
    "OpenAI with an output limit": (
        "This model's maximum context length is 8192 tokens. However, you requested 8554 tokens (7554 in the messages, "
        "1000 in the completion). Please reduce the length of the messages or completion.",
        7192,
        7554,
    ),
    "OpenAI with functions": (
        "This model's maximum context length is 16385 tokens. However, you requested 17001 tokens (14001 in the "
        "messages, 1000 in the functions, and 2000 in the completion).",
        14385,
        15001,
    ),
    "OpenAI, older": (
        "This model's maximum context length is 4097 tokens, however you requested 4116 tokens (3860 in your prompt; "
        "256 for  the completion). Please reduce your prompt; or completion length.",
        3841,
        3860,
    ),
    "OpenAI's Responses": (
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        None,
        None,
    ),
    "DeepSeek": (
        "This model's maximum context length is 131072 tokens. However, you requested 131134 tokens (122942 in the "
        "messages, 8192 in the completion).",
        122880,
        122942,
    ),
    "OpenRouter": (
        "This endpoint's maximum context length is 131072 tokens. However, you requested about 150000 tokens (120000 of "
        "text input, 5000 of tool input, 25000 in the output). Please reduce the length of either one, or use the "
        '"middle-out" transform',
        106072,
        125000,
    ),
    "OpenRouter, short": (
        "This endpoint's maximum context length is 131072 tokens. However, you requested about 150000 tokens.",
        131072,
        150000,
    ),
    "Anthropic": ("prompt is too long: 210532 tokens > 200000 maximum", 200000, 210532),
    "Anthropic with an output limit": (
        "input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000, decrease input length or "
        "`max_tokens` and try again",
        191808,
        199759,
    ),
    "Gemini": (
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        1048575,
        1196265,
    ),
    "Gemini, short": (
        "The input token count exceeds the maximum number of tokens allowed (1048576).",
        1048576,
        None,
    ),
    "Bedrock": (
        "ValidationException: 400 Bad Request: Too many input tokens. Max input tokens: 8192, request input token "
        "count: 9279",
        8192,
        9279,
    ),
    "Bedrock's Claude": (
        "An error occurred (ValidationException) when calling the Converse operation: Input is too long for requested "
        "model.",
        None,
        None,
    ),
    "Bedrock's Llama": (
        "ValidationException: This model's maximum context length is 8192 tokens. Please reduce the length of the prompt",
        8192,
        None,
    ),
    "Mistral": (
        "Prompt contains 140000 tokens and 0 draft tokens, too large for model with 131072 maximum context length",
        131072,
        140000,
    ),
    "Cohere": (
        "too many tokens: total number of tokens (prompt and prediction) cannot exceed 2048 - received 6354. Try using "
        "a shorter prompt or a smaller max_tokens value.",
        2048,
        6354,
    ),
    "Groq": (
        "{'error': {'message': 'Please reduce the length of the messages or completion.', 'type': "
        "'invalid_request_error', 'param': 'messages', 'code': 'context_length_exceeded'}}",
        None,
        None,
    ),
    "Groq above its rate": (
        "Request too large for model `llama-3.3-70b-versatile` in organization `org` on tokens per minute (TPM): Limit "
        "6000, Requested 7523, please reduce your message size and try again.",
        6000,
        None,
    ),
    "Together, TGI": (
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 65537. Given: 79993 `inputs` tokens and "
        "1024 `max_new_tokens`",
        64513,
        79993,
    ),
    "TGI": ("Input validation error: `inputs` must have less than 4096 tokens. Given: 4545", 4096, 4545),
    "Together": (
        "The input (140000 tokens) is longer than the model's context length (131072 tokens).",
        131072,
        140000,
    ),
    "Fireworks": ("The prompt is too long: 139264, model maximum context length: 131071", 131071, 139264),
    "xAI": (
        "This model's maximum prompt length is 131072 but the request contains 136973 tokens.",
        131072,
        136973,
    ),
    "vLLM": (
        "This model's maximum context length is 262144 tokens. However, you requested 128000 output tokens and your "
        "prompt contains at least 134145 input tokens, for a total of at least 262145 tokens. Please reduce the length",
        134144,
        134145,
    ),
    "vLLM, older": (
        "ValueError: The prompt (total length 25938) is too long to fit into the model (context length 4096).",
        4096,
        25938,
    ),
    "vLLM, decoder": (
        "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
        8192,
        9000,
    ),
    "vLLM, prompt length": (
        "Prompt length of 5016 is longer than the maximum model length of 4096",
        4096,
        5016,
    ),
    "vLLM, scheduler": ("Input prompt (36893 tokens) is too long and exceeds limit of 1000", 1000, 36893),
    "SGLang": (
        "Requested token count exceeds the model's maximum context length of 131072 tokens. You requested a total of "
        "140000 tokens: 131000 tokens from the input messages and 9000 tokens for the completion.",
        122072,
        131000,
    ),
    "llama.cpp": (
        "request (16435 tokens) exceeds the available context size (8192 tokens), try increasing it",
        8192,
        16435,
    ),
    "llama.cpp's fields": (
        '{"error":{"code":400,"message":"the request exceeds the available context size. try increasing the context '
        'size or enable context shift","type":"exceed_context_size_error","n_prompt_tokens":14429,"n_ctx":8192}}',
        8192,
        14429,
    ),
    "llama-cpp-python": ("Requested tokens (2116) exceed context window of 2048", 2048, 2116),
    "LM Studio": (
        "Trying to keep the first 10136 tokens when context the overflows. However, the model is loaded with context "
        "length of only 7866 tokens, which is not enough.",
        7866,
        10136,
    ),
    "LM Studio's fields": (
        "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 13055>= "
        "n_ctx: 4096). Try to load the model with a larger context length, or provide a shorter input.",
        4096,
        13055,
    ),
    "LM Studio, short": (
        "The number of tokens to keep from the initial prompt is greater than the context length. Try to load the "
        "model with a larger context length, or provide a shorter input",
        None,
        None,
    ),
    "Ollama": ("prompt too long; exceeded max context length by 5000 tokens", None, None),
    "Ollama's input": ("the input length exceeds the context length", None, None),
    "Moonshot": (
        "Your request exceeded model token limit: 262144 (requested: 300000)",
        262144,
        300000,
    ),
    "MiniMax": ("invalid params, context window exceeds limit", None, None),
    "GitHub Copilot": ("prompt token count of 130000 exceeds the limit of 128000", 128000, 130000),
    "Qwen": (
        "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]",
        30720,
        None,
    ),
    "Poolside": (
        "Input length 270000 exceeds the maximum allowed input length of 262112 tokens.",
        262112,
        None,
    ),
    "DS4": (
        "Prompt has 150,000 tokens, but the configured context size is 128,000 tokens",
        128000,
        150000,
    ),
    "litellm": (
        'litellm.ContextWindowExceededError: litellm.BadRequestError: AnthropicError - {"message":"prompt is too '
        'long: 213462 tokens > 200000 maximum"}',
        200000,
        213462,
    ),
    "litellm, bare": ("litellm.ContextWindowExceededError: too many tokens", None, None),
    "an HTTP proxy": ("413 Request Entity Too Large", None, None),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_about_the_length_says_what_the_limit_is(name: str) -> None:
    text, limit, prompt = ERRORS[name]
    assert refusal_of(text) == Refusal(limit, prompt)


def test_every_form_of_the_table_is_met_by_an_error() -> None:
    assert len(FORMS) <= sum(limit is not None for _, limit, _ in ERRORS.values())


@pytest.mark.parametrize(
    "text",
    [
        "400 invalid tool arguments: the string is not JSON",
        "Rate limit reached for tokens per minute",
        "Rate limit exceeded: too many tokens per minute",
        "ThrottlingException: Too many tokens, please wait before trying again.",
        "The maximum tokens you requested exceeds the model limit of 2048. Try again with a maximum tokens value",
        "maximum number of tools exceeded",
        "401 unauthorized",
        "",
    ],
)
def test_b16_other_errors_are_not(text: str) -> None:
    assert refusal_of(text) is None
    assert refusal_of(None) is None
    assert refusal_of(False) is None
    assert refusal_of(RuntimeError(text)) is None
    assert refusal_of(True) == Refusal()


def test_an_exception_is_read_with_its_body_and_what_caused_it() -> None:
    class ApiError(Exception):
        body: ClassVar = {"type": "exceed_context_size_error", "n_prompt_tokens": 14_429, "n_ctx": 8_192}

    assert refusal_of(ApiError("400")) == Refusal(8_192, 14_429)
    error = RuntimeError("the model did not answer")
    error.__cause__ = ValueError("prompt is too long: 210532 tokens > 200000 maximum")
    assert refusal_of(error) == Refusal(200_000, 210_532)


class States:
    """Guard states in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, Any]] = {}

    def load_guard(self, key: str) -> dict[str, Any] | None:
        return self.kept.get(key)

    def save_guard(self, key: str, state: dict[str, Any]) -> None:
        self.kept[key] = state


def test_a_named_limit_holds_for_its_model_and_survives_a_restart() -> None:
    states, clock = States(), Clock()
    Windows(states, clock).refused("m", 100_000, Refusal(8_000), None)
    again = Windows(states, clock)
    assert again.limit("m", None) == 8_000
    assert again.limit("other", None) is None
    assert again.ceiling("m") is None


def test_a_named_limit_ends_when_the_host_or_the_provider_knows_better() -> None:
    clock = Clock()
    windows = Windows(States(), clock)
    windows.refused("m", 20_000, Refusal(8_000), 16_000)
    assert windows.limit("m", 16_000) == 8_000
    assert windows.limit("m", 64_000) is None, "the host names a larger window than it had then"
    windows.took("m", 9_000, 9_000)
    assert windows.limit("m", 16_000) is None, "a longer prompt was answered"
    windows.refused("m", 20_000, Refusal(8_000), 16_000)
    clock.now += 8 * 24 * HOUR
    assert windows.limit("m", 16_000) is None, "it is tried again after a week"


@settings(deadline=None, max_examples=examples(100))
@given(st.integers(2_000, 200_000), st.integers(2, 20))
def test_without_a_named_limit_the_ceiling_closes_in_on_the_true_one(true: int, times: int) -> None:
    windows, tokens, refused = Windows(States(), Clock()), true * times, 0
    for _ in range(60):
        tokens = min(tokens, windows.ceiling("m") or tokens)
        if tokens > true:
            windows.refused("m", tokens, Refusal(), None)
            refused += 1
        else:
            windows.took("m", tokens, tokens)
            tokens = true * times
    assert 0.75 * true <= (windows.ceiling("m") or 0) <= 1.1 * true
    assert refused <= 30


def test_calls_that_were_answered_are_not_forgotten_for_one_refusal() -> None:
    windows = Windows(States(), Clock())
    windows.took("m", 9_000, 9_000)
    windows.refused("m", 10_000, Refusal(), None)
    assert windows.ceiling("m") == 9_000


def test_an_overflow_compacts_at_once_and_the_next_context_is_smaller(
    open_engine: Open, session: Session
) -> None:
    engine = open_engine(Model(), **SMALL)
    plugin = LcmPlugin(engine=engine)
    engine.ingest(session, turns(24))
    before = plugin.before_turn(Turn(session, [], mode="append", window=4_000, model="m"))
    assert before is not None
    after = plugin.before_turn(
        Turn(session, [], mode="append", window=4_000, model="m", metadata={"overflow": True})
    )
    assert after is not None
    assert after.tokens < 0.9 * before.tokens
    assert engine.windows.ceiling("m") is not None


def test_d8_refusals_that_no_history_causes_cost_no_summaries_and_block_no_later_turn(
    open_engine: Open, session: Session
) -> None:
    model = Model()
    engine = open_engine(model, **SMALL)
    engine.ingest(session, turns(40))
    calls = []
    for _ in range(12):
        engine.assemble(session, 3_000)
        outcome = engine.recover_overflow(session, 3_000)
        calls.append(len(model.calls))
    assert calls[-1] == calls[-4], f"calls after each refusal: {calls}"
    assert not outcome.compacted
    engine.ingest(session, [user("The tools were the trouble; now there are fewer.")])
    sent = engine.assemble(session, 3_000)
    assert sent.messages
    for _ in range(8):
        turn = Turn(session, [], sent=sent.sent, usage=Usage(prompt_tokens=sent.tokens))
        engine.note_usage(turn)
        sent = engine.assemble(session, 3_000)
    assert engine.token_limit(3_000) == 3_000


def test_an_error_about_something_else_changes_nothing(open_engine: Open, session: Session) -> None:
    engine = open_engine(Model(), **SMALL)
    engine.ingest(session, turns(24))
    outcome = engine.recover_overflow(session, 3_000, error="401 unauthorized")
    assert outcome.reason is Reason.NOTHING_ELIGIBLE
    assert engine.windows.ceiling(None) is None


@pytest.mark.long
@pytest.mark.sqlite_only
@pytest.mark.parametrize("named", [True, False])
def test_a_window_that_was_assumed_too_large_is_found_out_within_the_turn(
    tmp_path: Path, named: bool
) -> None:
    """128,000 assumed, 8,000 true: turns 0 to 69 worked, then every turn failed for ever."""
    refused = 0
    with Memory(str(tmp_path / "lcm.db"), model="m") as memory:
        for turn in turns(100, tokens=80)[::2]:
            memory.add(turn)
            sent = memory.context()
            for _ in range(20):
                tokens = memory.engine.count_tokens(sent) + memory.engine.count_tokens(memory.tools)
                if tokens <= 8_000:
                    break
                refused += 1
                text = f"prompt is too long: {tokens} tokens > 8000 maximum" if named else "context too long"
                sent = memory.context(overflow=text if named else True)
            assert tokens <= 8_000
            memory.add({"role": "assistant", "content": "noted " * 60})
            memory.end_turn({"prompt_tokens": tokens})
        assert memory.engine.wait_idle(60)
    assert refused <= (1 if named else 12)
    with Memory(str(tmp_path / "lcm.db"), model="m") as memory:
        assert memory.engine.count_tokens(memory.context()) <= 8_000, "it is known after a restart"


@pytest.mark.sqlite_only
def test_a_window_that_nobody_named_is_a_warning_once_per_model(tmp_path: Path) -> None:
    with Engine.open(LcmConfig(database=str(tmp_path / "lcm.db"))) as engine:
        names: list[tuple[str, Any]] = []
        engine.subscribe(lambda event: names.append((event.name, event.fields.get("window"))))
        plugin = LcmPlugin(engine=engine)
        for model in ("m", "m", "n"):
            plugin.before_turn(Turn(Session("s"), [user("hi")], mode="append", model=model))
        plugin.before_turn(Turn(Session("s"), [user("hi")], mode="append", model="o", window=9_000))
        assert [one for one in names if one[0] == "turn.window_assumed"] == [
            ("turn.window_assumed", 128_000)
        ] * 2


def test_an_overflow_bypasses_the_spend_guard_a_bounded_number_of_times(
    open_engine: Open, session: Session
) -> None:
    model = Model()
    engine = open_engine(model, **SMALL, summary_max_calls_per_window=1)
    engine.ingest(session, turns(60))
    engine.compact(session, budget=6_000)
    spent = len(model.calls)
    assert spent == 1
    engine.ingest(session, turns(30, start=100))
    assert engine.recover_overflow(session, 3_000).compacted
    assert spent < len(model.calls) <= spent + 8
