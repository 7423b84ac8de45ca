"""The facade's rules: what stays raw, who is asked again, what is marked, what the guards let through."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from fakes.model_server import Failure
from model_bench import GOOD, START, Bench, block, work

from lcm_plugin.errors import ModelAuthError, ModelRateLimited
from lcm_plugin.summarize.base import SourceBlock, SummaryTask
from lcm_plugin.summarize.guards import FORCED_CALLS, MemoryGuards
from lcm_plugin.summarize.prompts import VERSION
from lcm_plugin.summarize.units import EXPAND_PREFIX
from lcm_plugin.types import CompletionRequest, CompletionResult

MakeTask = Callable[..., SummaryTask]


class Model:
    """A host's model that gives the same answer, or raises it, and counts its calls."""

    def __init__(self, *answers: Any) -> None:
        self.answers = answers
        self.requests: list[CompletionRequest] = []

    def __call__(self, request: CompletionRequest) -> Any:
        self.requests.append(request)
        answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer


def hosted(bench: Bench, *answers: Any, **settings: Any) -> tuple[Any, Model]:
    """A summariser that has only a host's model, and that model."""
    model = Model(*answers)
    settings = {"summary_model": "", "summary_provider": "", "summary_base_url": ""} | settings
    return bench.summarizer(completer=model, **settings), model


def test_without_a_model_extraction_is_no_fallback(bench: Bench, make_task: MakeTask) -> None:
    draft = bench.summarizer(summary_model="").summarize(make_task())
    assert draft is not None
    assert (draft.level, draft.model, bool(draft.fallback)) == ("extractive", "", False)
    assert draft.prompt_version.startswith("extractive")
    assert bench.events == []


def test_model_level_and_prompt_version_are_told(bench: Bench, make_task: MakeTask) -> None:
    summarizer, _ = hosted(bench, CompletionResult(GOOD, "harbour-1"))
    draft = summarizer.summarize(make_task())
    assert draft is not None
    assert (draft.level, draft.model, draft.prompt_version) == ("normal", "harbour-1", VERSION)


def test_a_tiny_chunk_stays_raw_and_no_model_is_asked(bench: Bench, make_task: MakeTask) -> None:
    summarizer, model = hosted(bench, GOOD)
    assert summarizer.summarize(make_task([block(0, "user", "The harbour opens at nine o'clock.")])) is None
    assert model.requests == []
    assert summarizer.status()["models"][0]["failures"] == 0


def test_a_chunk_without_text_stays_raw_and_no_model_is_asked(bench: Bench, make_task: MakeTask) -> None:
    summarizer, model = hosted(bench, GOOD)
    empty = [block(n, "tool", " \n") for n in range(9)]
    only_system = [SourceBlock("msg_1", "system", "You are careful. " * 90, START, START)]
    assert summarizer.summarize(make_task(empty, source_tokens=400)) is None
    assert summarizer.summarize(make_task(only_system)) is None
    assert model.requests == []


def test_a_chunk_of_calls_and_results_alone_is_summarised_whole(bench: Bench, make_task: MakeTask) -> None:
    summarizer, model = hosted(bench, GOOD)
    blocks = [item for item in work(8) if item.role != "user"]
    assert summarizer.summarize(make_task(blocks)) is not None
    asked = str(model.requests[0].messages[-1]["content"])
    assert all(f'id="{item.id}"' in asked for item in blocks)


def test_a_missing_closing_line_is_added(bench: Bench, make_task: MakeTask) -> None:
    without = GOOD.splitlines()[0]
    summarizer, _ = hosted(bench, without)
    draft = summarizer.summarize(make_task())
    assert draft is not None
    first, last = draft.text.splitlines()
    assert first == without
    assert last.startswith(EXPAND_PREFIX)
    assert "/srv/in/5" in last
    assert "inv-1.pdf" not in last


def test_a_summary_of_a_summary_is_strictly_smaller_until_nothing_can_shrink(
    bench: Bench, make_task: MakeTask, counter: Any
) -> None:
    summarizer = bench.summarizer(summary_model="")
    text, tokens, rounds = "\n".join(item.text for item in work(40)), 10**9, 0
    while True:
        task = make_task([SourceBlock("sum_1", "summary", text, START, START)], depth=rounds, target=1_200)
        draft = summarizer.summarize(task)
        if draft is None:
            break
        assert draft.tokens < task.source_tokens <= tokens
        text, tokens, rounds = draft.text, task.source_tokens, rounds + 1
    assert 3 <= rounds < 30


def test_a_failing_model_is_left_for_good_after_three_failures(bench: Bench, make_task: MakeTask) -> None:
    summarizer, model = hosted(bench, ConnectionError("down"))
    drafts = [summarizer.summarize(make_task()) for _ in range(4)]
    assert all(draft is not None and draft.fallback for draft in drafts)
    assert len(model.requests) == 3
    assert summarizer.status()["models"][0]["open_until"] > 0


def test_rejected_texts_do_not_open_the_breaker(bench: Bench, make_task: MakeTask) -> None:
    summarizer, model = hosted(bench, "I cannot help with that.")
    for _ in range(3):
        summarizer.summarize(make_task())
    assert len(model.requests) == 6
    assert summarizer.status()["models"][0]["failures"] == 0


def test_the_host_may_raise_the_packages_own_kinds(bench: Bench, make_task: MakeTask) -> None:
    summarizer, model = hosted(bench, ModelAuthError("no key"))
    summarizer.summarize(make_task())
    summarizer.summarize(make_task())
    assert len(model.requests) == 1
    limited, model = hosted(bench, ModelRateLimited("slow", 0.05), GOOD)
    draft = limited.summarize(make_task())
    assert draft is not None
    assert draft.level == "normal"
    assert len(model.requests) == 2


def test_calls_are_bounded_per_window_and_forced_work_has_a_few_more(
    bench: Bench, make_task: MakeTask
) -> None:
    summarizer, model = hosted(bench, "no", summary_max_calls_per_window=5)
    for _ in range(6):
        draft = summarizer.summarize(make_task())
        assert draft is not None
        assert draft.fallback
    assert len(model.requests) == 5
    assert "summary.spend_limited" in bench.names()
    for _ in range(6):
        assert summarizer.summarize(make_task(forced=True)) is not None
    assert len(model.requests) == 5 + FORCED_CALLS
    assert summarizer.summarize(make_task(scope="another lane")) is not None
    assert len(model.requests) == 7 + FORCED_CALLS


def test_progress_does_not_pause_a_session(bench: Bench, make_task: MakeTask) -> None:
    now = [START]
    summarizer, model = hosted(bench, GOOD, summary_max_calls_per_window=5, clock=lambda: now[0])
    for _ in range(7):
        summarizer.summarize(make_task())
    assert len(model.requests) == 5
    now[0] += 600_000
    draft = summarizer.summarize(make_task())
    assert draft is not None
    assert draft.level == "normal"


def test_guards_survive_a_new_summariser_on_the_same_store(bench: Bench, make_task: MakeTask) -> None:
    guards = MemoryGuards()
    first, _ = hosted(bench, ModelAuthError("no key"), guards=guards)
    first.summarize(make_task())
    second, model = hosted(bench, GOOD, guards=guards)
    second.summarize(make_task())
    assert model.requests == []


def test_after_the_deadline_no_model_is_asked(bench: Bench, make_task: MakeTask) -> None:
    summarizer, model = hosted(bench, GOOD)
    draft = summarizer.summarize(make_task(deadline=time.monotonic() - 1))
    assert draft is not None
    assert draft.level == "extractive"
    assert model.requests == []
    assert summarizer.status()["models"][0]["failures"] == 0


def test_after_cancelling_nothing_is_written(bench: Bench, make_task: MakeTask) -> None:
    summarizer, model = hosted(bench, GOOD)
    summarizer.cancel()
    assert summarizer.summarize(make_task()) is None
    assert model.requests == []


def test_a_host_that_gives_no_model_is_no_failure(bench: Bench, make_task: MakeTask) -> None:
    summarizer, _ = hosted(bench, None)
    draft = summarizer.summarize(make_task())
    assert draft is not None
    assert (draft.level, bool(draft.fallback)) == ("extractive", False)


def test_events_name_the_session_and_hold_no_text(bench: Bench, make_task: MakeTask) -> None:
    bench.run(make_task(conversation_id=7), Failure(401))
    told = [event for event in bench.events if event.name.startswith("summary.")]
    assert told
    assert all(event.session_key == "lane" and event.conversation_id == 7 for event in told)
    assert "archive-1" not in str(bench.events)


@pytest.mark.parametrize("target", [16, 40, 5_000])
def test_a_stored_summary_is_within_the_cap_and_smaller_than_its_source(
    bench: Bench, make_task: MakeTask, target: int
) -> None:
    summarizer, _ = hosted(bench, GOOD * 3)
    task = make_task(target=target)
    draft = summarizer.summarize(task)
    assert draft is not None
    assert draft.tokens < task.source_tokens
    assert draft.tokens <= 3 * target
