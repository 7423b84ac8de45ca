"""For every language and every behaviour of the model: smaller than the source, or the chunk stays raw."""

from __future__ import annotations

from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from model_bench import GOOD, block
from test_extractive import SAMPLES
from test_model_behaviours import ERRORS, REFUSALS, USELESS

from lcm_plugin.config import LcmConfig
from lcm_plugin.errors import ModelAuthError, ModelError, ModelTimeout
from lcm_plugin.events import EventBus
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.summarize.base import SummaryTask
from lcm_plugin.summarize.summarizer import Summarizer
from lcm_plugin.types import CompletionRequest

COUNTER = TokenCounter()
TEXTS = [
    *REFUSALS.values(),
    *ERRORS.values(),
    *(str(outcome) for outcome, _ in USELESS.values()),
    GOOD,
    GOOD * 20,
]
FAILURES = [
    ModelAuthError("401"),
    ModelTimeout("slow"),
    ModelError("bad"),
    ValueError("broken"),
    None,
    7,
    [1],
]


def echo(request: CompletionRequest) -> str:
    return str(request.messages[-1]["content"])


def source_start(request: CompletionRequest) -> str:
    return echo(request)[1_000:2_000]


def novel(request: CompletionRequest) -> str:
    return " ".join(f"Word{number} was said on day {number}." for number in range(4_000))


answers = st.one_of(
    st.sampled_from(TEXTS),
    st.sampled_from(FAILURES),
    st.sampled_from([echo, source_start, novel]),
    st.text(max_size=400),
)
chunks = st.lists(
    st.tuples(
        st.sampled_from(["user", "assistant", "tool", "summary", "system"]),
        st.sampled_from([*SAMPLES.values(), "", " ", "ok"]),
        st.integers(1, 25),
    ),
    min_size=1,
    max_size=10,
)


@pytest.mark.long
@settings(max_examples=examples(120), deadline=None)
@given(chunks, st.lists(answers, min_size=1, max_size=4), st.integers(16, 600), st.booleans())
def test_every_stored_summary_is_smaller_than_its_source_and_within_its_cap(
    said: list[tuple[str, str, int]], given_answers: list[Any], target: int, forced: bool
) -> None:
    blocks = tuple(block(n, role, text * times) for n, (role, text, times) in enumerate(said))
    source_tokens = sum(COUNTER.text(item.text) for item in blocks)
    calls = iter(range(10**6))

    def model(request: CompletionRequest) -> Any:
        answer = given_answers[next(calls) % len(given_answers)]
        if isinstance(answer, Exception):
            raise answer
        return answer(request) if callable(answer) else answer

    events: list[str] = []
    bus = EventBus()
    bus.subscribe(lambda event: events.append(event.name))
    summarizer = Summarizer(LcmConfig(), COUNTER, bus, model)
    task = SummaryTask(blocks, 0, target, source_tokens, scope="lane", forced=forced)
    draft = summarizer.summarize(task)
    if draft is None:
        return
    assert draft.tokens == COUNTER.text(draft.text)
    assert draft.tokens < source_tokens
    assert draft.tokens <= 3 * target
    assert draft.text.strip()
    assert bool(draft.fallback) == ("summary.fallback" in events)
    draft.text.encode()
    rejected = {*REFUSALS.values(), *ERRORS.values()}
    assert draft.text not in rejected
