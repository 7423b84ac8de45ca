"""What is stored, how many calls are made and which event tells of it, for each way a model can behave.

litellm is driven for real against a server on 127.0.0.1.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from random import Random

import pytest
from fakes.model_server import Drop, Failure, Outcome, Raw, Reply
from model_bench import GOOD, Bench, block, work

from lcm_plugin import LcmConfig
from lcm_plugin.summarize.base import FallbackCause, SummaryTask, longest_call
from lcm_plugin.summarize.source import CUT_MARK

MakeTask = Callable[..., SummaryTask]
# pydantic warns about litellm's own types when it streams
pytestmark = [
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*on TypedDict class:UserWarning"),
]

REFUSALS = {
    "english": "I can't produce this summary because the conversation contains sensitive material.",
    "apology": "I'm sorry, but I'm not able to help with summarizing this conversation.",
    "german": "Es tut mir leid, aber ich kann dieses Gespräch leider nicht zusammenfassen.",
    "french": "Je suis désolé, mais je ne peux pas résumer cette conversation.",
    "spanish": "Lo siento, pero no puedo resumir esta conversación.",
    "portuguese": "Desculpe, mas não posso resumir esta conversa.",
    "italian": "Mi dispiace, ma non posso riassumere questa conversazione.",
    "russian": "К сожалению, я не могу составить краткое изложение этого разговора.",
    "polish": "Przepraszam, ale nie mogę streścić tej rozmowy.",
    "turkish": "Üzgünüm, bu konuşmayı özetleyemem.",
    "chinese": "很抱歉，我无法为您总结这段对话。",
    "japanese": "申し訳ありませんが、この会話を要約することはできません。",
    "korean": "죄송하지만 이 대화를 요약할 수 없습니다.",
    "arabic": "عذراً، لا أستطيع تلخيص هذه المحادثة.",
    "hindi": "क्षमा करें, मैं इस बातचीत का सारांश नहीं बना सकता।",
    "vietnamese": "Xin lỗi, tôi không thể tóm tắt cuộc trò chuyện này.",
}
ERRORS = {
    "status": "401 Unauthorized",
    "label": "Error: the upstream model is overloaded, please try again later.",
    "json": '{"error": {"message": "You exceeded your current quota", "type": "insufficient_quota"}}',
    "html": "<html><body><h1>502 Bad Gateway</h1></body></html>",
    "unavailable": "Summary unavailable due to size limits.",
    "library": "litellm.RateLimitError: RateLimitError: slow down",
    "failed": "Failed to generate summary.",
    "timeout": "Request timed out.",
}
USELESS: dict[str, tuple[Outcome | str, str]] = {
    "empty": ("", "empty"),
    "spaces": ("   \n\t ", "empty"),
    "punctuation": ("...", "empty"),
    "reasoning field only": (Reply("", reasoning="I should summarise the invoices."), "empty"),
    # litellm takes closed reasoning out itself
    "closed reasoning only": ("<think>The user wants the invoices moved.</think>", "empty"),
    "unclosed reasoning": ("<think>I must summarise the invoices and", "reasoning"),
    "bracketed reasoning": ("[think] so first the invoices were moved", "reasoning"),
    "reasoning aloud": ("Thinking Process: 1. The request is about invoices. 2. Draft it.", "reasoning"),
    "acknowledgement": ("HEARTBEAT_OK", "chat"),
    "chat reply": ("Sounds good! I'll take a look at the failing checksums and get back to you.", "chat"),
    "question": ("Would you like me to move the invoices of the next customer as well?", "chat"),
    "one word": ("Invoices moved.", "too_short"),
    "echo of the source": ("\n".join(item.text for item in work()), "echo"),
    "copy of the start": ("\n".join(item.text for item in work()[:8]), "echo"),
    "about something else": (
        "A recipe for lentil soup was discussed at length, with onions, garlic, cumin and fresh parsley.",
        "unrelated",
    ),
    "endless repetition": ("The invoices were moved to the archive. " * 40, "repetition"),
}


@pytest.mark.parametrize("text", REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_in_any_language_is_never_stored(bench: Bench, make_task: MakeTask, text: str) -> None:
    draft = bench.run(make_task(), text, GOOD)
    assert draft is not None
    assert (draft.text, draft.level, bool(draft.fallback)) == (GOOD, "aggressive", False)
    assert bench.reasons() == ["refusal"]
    assert len(bench.server.requests) == 2


@pytest.mark.parametrize("text", ERRORS.values(), ids=ERRORS)
def test_an_error_message_is_never_stored(bench: Bench, make_task: MakeTask, text: str) -> None:
    draft = bench.run(make_task(), text, GOOD)
    assert draft is not None
    assert (draft.text, draft.level) == (GOOD, "aggressive")
    assert bench.reasons() == ["error"]


@pytest.mark.parametrize(("outcome", "reason"), USELESS.values(), ids=USELESS)
def test_a_useless_text_gets_the_second_level_and_then_extraction(
    bench: Bench, make_task: MakeTask, outcome: Outcome | str, reason: str
) -> None:
    task = make_task()
    draft = bench.run(task, outcome, outcome)
    assert draft is not None
    assert (draft.level, bool(draft.fallback), draft.model) == ("extractive", True, "")
    assert draft.tokens < task.source_tokens
    assert bench.reasons() == [reason, reason]
    assert bench.names()[-1] == "summary.fallback"
    assert len(bench.server.requests) == 2


def test_null_content_is_an_empty_text(bench: Bench, make_task: MakeTask) -> None:
    draft = bench.run(make_task(), Raw(_completion(None)), GOOD)
    assert draft is not None
    assert draft.text == GOOD
    assert bench.reasons() == ["empty"]


def test_reasoning_is_taken_out_and_the_text_after_it_kept(bench: Bench, make_task: MakeTask) -> None:
    for opening in ("<think>first x, then y</think>\n", "no opening tag </think>", "[think]x[/think] "):
        draft = bench.run(make_task(), opening + GOOD)
        assert draft is not None
        assert (draft.text, draft.level) == (GOOD, "normal")


def test_list_content_is_joined_and_never_written_out(bench: Bench, make_task: MakeTask) -> None:
    half = len(GOOD) // 2
    parts = [{"type": "text", "text": GOOD[:half]}, {"type": "text", "text": GOOD[half:]}]
    chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "parts-1"}
    delta = {"index": 0, "delta": {"role": "assistant", "content": parts}, "finish_reason": "stop"}
    stream = Raw(
        f"data: {json.dumps({**chunk, 'choices': [delta]})}\n\ndata: [DONE]\n\n",
        content_type="text/event-stream",
    )
    draft = bench.run(make_task(), Raw(_completion(parts)), stream, stream, summary_model="parts-1")
    assert draft is not None
    assert (draft.text, bool(draft.fallback)) == (GOOD, False)
    again = bench.summarizer(summary_model="parts-1").summarize(make_task())
    assert again is not None
    assert again.text == GOOD
    assert [request.body.get("stream", False) for request in bench.server.requests] == [False, True, True]


def test_a_model_that_only_streams_is_asked_to_stream(bench: Bench, make_task: MakeTask) -> None:
    only = Failure(400, "This model only supports stream mode")
    draft = bench.run(make_task(), only, GOOD, summary_model="stream-1")
    assert draft is not None
    assert (draft.text, draft.level, bool(draft.fallback)) == (GOOD, "normal", False)
    assert [request.body.get("stream", False) for request in bench.server.requests] == [False, True]


def test_greetings_and_offers_around_a_summary_are_cut_off(bench: Bench, make_task: MakeTask) -> None:
    draft = bench.run(
        make_task(), f"Sure! Here's the summary you asked for:\n\n{GOOD}\n\nLet me know if you need more."
    )
    assert draft is not None
    assert draft.text == GOOD


def test_a_text_ten_times_too_long_is_cut_at_a_sentence_and_marked(
    bench: Bench, make_task: MakeTask, counter: object
) -> None:
    task = make_task(work(60), target=100)
    draft = bench.run(task, _long_text(1_000))
    assert draft is not None
    assert draft.capped
    assert draft.tokens <= 300
    kept = draft.text.split(CUT_MARK)[0].rstrip()
    assert kept.endswith(".")
    assert "summary.capped" in bench.names()


def test_a_text_somewhat_too_long_is_kept_with_a_warning(bench: Bench, make_task: MakeTask) -> None:
    draft = bench.run(make_task(work(60), target=100), _long_text(180))
    assert draft is not None
    assert not draft.capped
    assert 150 < draft.tokens <= 300
    assert "summary.oversize" in bench.names()


def test_a_text_that_ran_into_the_output_limit_ends_with_a_whole_sentence(
    bench: Bench, make_task: MakeTask
) -> None:
    draft = bench.run(make_task(), Reply(GOOD[: GOOD.index("and nothing")], finish_reason="length"))
    assert draft is not None
    assert draft.capped
    assert draft.text.split(CUT_MARK)[0].rstrip().endswith("cannot be undone.")


def test_a_model_whose_reasoning_used_up_its_tokens_gets_room_for_it(
    bench: Bench, make_task: MakeTask
) -> None:
    thinking = Reply("", reasoning="hm", finish_reason="length")
    draft = bench.run(make_task(), thinking, GOOD)
    assert draft is not None
    assert draft.text == GOOD
    assert [asked.body["max_tokens"] for asked in bench.server.requests] == [600, 300 + 2_048]


def test_a_model_known_to_reason_is_asked_to_do_so_briefly(bench: Bench, make_task: MakeTask) -> None:
    bench.run(make_task(), GOOD, summary_provider="deepseek", summary_model="deepseek-reasoner")
    assert bench.server.requests[0].body["max_tokens"] == 600 + 2_048


def test_a_slow_model_is_left_at_the_timeout(bench: Bench, make_task: MakeTask) -> None:
    bench.run(make_task(), GOOD)
    answered = threading.Event()
    slow = Reply(GOOD, until=answered)
    draft = bench.run(make_task(), slow, slow, summary_timeout_ms=300)
    answered.set()
    assert draft is not None
    assert draft.fallback
    failures = [event for event in bench.events if event.name == "model.failed"]
    assert [event.fields["error"] for event in failures] == ["ModelTimeout", "ModelTimeout"]


def test_a_summary_of_a_large_source_may_take_longer() -> None:
    config = LcmConfig(summary_timeout_ms=30_000)
    assert [longest_call(config, tokens) for tokens in (500, 20_000, 60_000)] == [30, 30, 90]


@pytest.mark.parametrize("status", [401, 403])
def test_refused_credentials_are_tried_once_and_then_left_alone(
    bench: Bench, make_task: MakeTask, status: int
) -> None:
    summarizer = bench.summarizer()
    bench.server.enqueue(Failure(status, "no", "invalid_api_key"))
    first, second = summarizer.summarize(make_task()), summarizer.summarize(make_task())
    assert first is not None
    assert second is not None
    assert (first.fallback, second.fallback) == (FallbackCause.UNANSWERED, FallbackCause.UNANSWERED)
    assert len(bench.server.requests) == 1
    assert [e.fields["breaker"] for e in bench.events if e.name == "model.failed"] == ["open"]


def test_a_rate_limit_is_waited_out_as_told(bench: Bench, make_task: MakeTask) -> None:
    draft = bench.run(make_task(), Failure(429, "slow down", "rate_limit", retry_after=0.4), GOOD)
    assert draft is not None
    assert (draft.text, draft.level) == (GOOD, "normal")
    first, second = bench.server.requests
    assert second.at - first.at >= 0.4


def test_a_rate_limit_longer_than_the_deadline_is_not_waited_out(bench: Bench, make_task: MakeTask) -> None:
    bench.run(make_task(), GOOD)
    started = time.monotonic()
    draft = bench.run(make_task(deadline=started + 60), Failure(429, retry_after=1_000))
    assert time.monotonic() < started + 60
    assert draft is not None
    assert draft.fallback


@pytest.mark.parametrize(
    "trouble",
    [Failure(500), Failure(503), Drop(), Raw("{not json"), Raw(""), Raw("<html>", content_type="text/html")],
    ids=["500", "503", "reset", "malformed", "no body", "html"],
)
def test_a_passing_fault_is_retried_once(bench: Bench, make_task: MakeTask, trouble: Outcome) -> None:
    draft = bench.run(make_task(), trouble, GOOD)
    assert draft is not None
    assert (draft.text, draft.level, bool(draft.fallback)) == (GOOD, "normal", False)
    assert bench.names().count("model.failed") == 1
    assert len(bench.server.requests) == 2


def test_a_response_without_choices_is_not_retried(bench: Bench, make_task: MakeTask) -> None:
    draft = bench.run(make_task(), Raw('{"id":"1","object":"chat.completion","choices":[]}'))
    assert draft is not None
    assert draft.fallback
    assert "summary.failed" in bench.names()


def test_a_summary_about_errors_and_refusals_is_accepted(bench: Bench, make_task: MakeTask) -> None:
    blocks = (
        *work(6),
        block(40, "tool", "curl: 401 Unauthorized from api.harbour.example, token tok_91 expired", "shell"),
        block(41, "assistant", "I'm sorry, I can't call the API: error 401 unauthorized."),
    )
    about = (
        "After moving archive-1 to archive-6 the run stopped: api.harbour.example answered 401 Unauthorized because "
        "token tok_91 had expired. The assistant said it was sorry and could not call the API, error 401. "
        "Error E17 on inv-1.pdf was retried with --checksum."
    )
    draft = bench.run(make_task(blocks), about)
    assert draft is not None
    assert draft.level == "normal"
    assert draft.text.startswith(about)
    assert bench.reasons() == []


def test_the_next_model_is_asked_and_named(bench: Bench, make_task: MakeTask) -> None:
    draft = bench.run(make_task(), "", "", GOOD, fallback_models=["small-2"])
    assert draft is not None
    assert (draft.text, draft.model) == (GOOD, "openai/small-2")
    assert [request.body["model"] for request in bench.server.requests] == ["small-1", "small-1", "small-2"]


def test_a_chunk_too_large_for_the_model_is_shortened_and_asked_again(
    bench: Bench, make_task: MakeTask
) -> None:
    blocks = (
        block(0, "user", "Find the cause in this log."),
        *(block(n, "user", f"log {n}: " + "line of the log " * 320) for n in range(1, 12)),
    )
    bench.server.window = 9_000
    bench.server.add_rule(lambda request: GOOD.replace("invoices", "log"))
    draft = bench.summarizer().summarize(make_task(blocks))
    assert draft is not None
    assert draft.level == "normal"
    sizes = [request.tokens for request in bench.server.requests]
    assert sizes[-1] <= 9_000 < sizes[0]


def _long_text(tokens: int) -> str:
    """Sentences about the work, all different, of about that many tokens."""
    rng = Random(7)
    verbs = ("moved", "copied", "checked", "listed", "retried", "skipped", "verified", "compared")
    things = (
        "invoices",
        "folders",
        "checksums",
        "buckets",
        "paths",
        "customers",
        "errors",
        "reports",
        "shares",
    )
    ends = (
        "before noon",
        "with rsync",
        "after a pause",
        "as agreed",
        "on request",
        "for the archive",
        "by hand",
    )
    sentences = []
    while len(sentences) * 11 < tokens:
        what = f"{rng.choice(things)} and {rng.choice(things)}"
        sentences.append(f"Customer {rng.randrange(900)} had {what} {rng.choice(verbs)} {rng.choice(ends)}.")
    return " ".join(sentences)


def _completion(content: object) -> str:
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return json.dumps(
        {"id": "1", "object": "chat.completion", "created": 1, "model": "small-1", "choices": [choice]}
    )
