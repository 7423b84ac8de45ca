"""Which model is asked, with what, and how a host's own completer is read."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from fakes.model_server import Calls, Failure, ModelServer, Reply
from model_bench import GOOD, Bench

from lcm_plugin.config import LcmConfig
from lcm_plugin.errors import ModelAuthError, ModelError, ModelRateLimited, ModelTimeout, ModelUnavailable
from lcm_plugin.events import EventBus
from lcm_plugin.summarize.base import SummaryTask
from lcm_plugin.summarize.completers import Completions
from lcm_plugin.types import CompletionRequest, CompletionResult, Message

MakeTask = Callable[..., SummaryTask]
HELLO: list[Message] = [{"role": "user", "content": "hello"}]


def completions(completer: Any = None, **settings: Any) -> Completions:
    return Completions(LcmConfig(**settings), EventBus(), completer)


def request(purpose: Any = "expansion", **more: Any) -> CompletionRequest:
    return CompletionRequest(messages=HELLO, max_tokens=50, purpose=purpose, **{"timeout": 10.0, **more})


def names(given: Completions, purpose: str) -> list[str]:
    return [route.name for route in given.routes(purpose)]


def test_a_model_of_ones_own_comes_before_the_hosts_and_summary_model_after_it() -> None:
    given = completions(
        lambda request: "x",
        summary_model="openai/cheap",
        fallback_models=["openai/other"],
        expansion_model="anthropic/strong",
    )
    assert names(given, "expansion") == ["anthropic/strong", "openai/other", "host", "openai/cheap"]
    assert names(given, "summary") == ["openai/cheap", "openai/other", "host"]
    assert names(given, "file_summary") == ["host", "openai/cheap", "openai/other"]


def test_with_nothing_set_there_is_no_way() -> None:
    given = completions()
    assert given.routes("summary") == ()
    assert not given.available("expansion")
    with pytest.raises(ModelUnavailable, match="no model is set"):
        given.complete(request())


def test_the_host_alone_is_asked_without_a_model_name() -> None:
    seen: list[CompletionRequest] = []

    def host(asked: CompletionRequest) -> str:
        seen.append(asked)
        return "answer"

    result = completions(host).complete(request())
    assert (result.text, result.model) == ("answer", "host")
    assert seen[0].model is None
    assert seen[0].timeout <= 10.0


@pytest.mark.long
@pytest.mark.parametrize(
    ("provider", "model", "sent"),
    [
        ("openai", "gpt-small", "gpt-small"),
        ("", "openai/gpt-small", "gpt-small"),
        ("openai", "meta-llama/llama-3-8b", "meta-llama/llama-3-8b"),
        ("openai", "openai/gpt-oss-20b", "openai/gpt-oss-20b"),
        ("openrouter", "anthropic/claude-x", "anthropic/claude-x"),
        ("", "openrouter/qwen/qwen-2/free", "qwen/qwen-2/free"),
    ],
)
def test_model_ids_arrive_exactly_as_configured(
    bench: Bench, make_task: MakeTask, provider: str, model: str, sent: str
) -> None:
    draft = bench.run(make_task(), GOOD, summary_provider=provider, summary_model=model)
    assert draft is not None
    assert not draft.fallback
    assert [asked.body["model"] for asked in bench.server.requests] == [sent]


def test_max_tokens_are_about_twice_the_target(bench: Bench, make_task: MakeTask) -> None:
    bench.run(make_task(target=250), GOOD)
    assert 250 <= bench.server.requests[0].body["max_tokens"] <= 500


@pytest.fixture
def two_servers() -> Iterator[tuple[ModelServer, ModelServer]]:
    with ModelServer() as own, ModelServer() as foreign:
        yield own, foreign


def test_a_base_url_of_ones_own_never_sees_the_providers_key(
    bench: Bench, make_task: MakeTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    bench.run(make_task(), GOOD)
    monkeypatch.setenv("LCM_SUMMARY_API_KEY", "key-of-this-server")
    bench.run(make_task(), GOOD)
    sent = [asked.headers.get("authorization") for asked in bench.server.requests]
    assert sent == ["Bearer none", "Bearer key-of-this-server"]


def test_a_provider_at_its_own_url_gets_its_own_key(
    bench: Bench, make_task: MakeTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    monkeypatch.setenv("OPENAI_BASE_URL", bench.server.url + "/")
    bench.run(make_task(), GOOD)
    assert bench.server.requests[0].headers["authorization"] == "Bearer sk-of-openai"


def test_each_provider_sees_only_its_own_key_and_url(
    bench: Bench,
    make_task: MakeTask,
    two_servers: tuple[ModelServer, ModelServer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own, foreign = two_servers
    monkeypatch.setenv("LCM_SUMMARY_API_KEY", "key-of-own")
    monkeypatch.setenv("DEEPSEEK_API_KEY", "key-of-deepseek")
    monkeypatch.setenv("DEEPSEEK_API_BASE", foreign.url)
    own.enqueue(Failure(401))
    foreign.enqueue(GOOD)
    draft = bench.run(make_task(), summary_base_url=own.url, fallback_models=["deepseek/deepseek-chat"])
    assert draft is not None
    assert draft.model == "deepseek/deepseek-chat"
    assert {asked.headers["authorization"] for asked in own.requests} == {"Bearer key-of-own"}
    assert {asked.headers["authorization"] for asked in foreign.requests} == {"Bearer key-of-deepseek"}


def test_tools_go_out_and_calls_come_back(bench: Bench) -> None:
    tools = [{"type": "function", "function": {"name": "lcm_grep", "parameters": {"type": "object"}}}]
    bench.server.enqueue(Calls(("lcm_grep", {"pattern": "heron"}), text="looking"), Failure(500), "found it")
    ways = bench.summarizer(expansion_model="openai/small-1").completions
    first = ways.complete(request(tools=tools))
    second = ways.complete(request(tools=tools))
    assert (first.text, first.finish_reason) == ("looking", "tool_calls")
    assert first.tool_calls[0]["function"]["name"] == "lcm_grep"
    assert first.tool_calls[0]["function"]["arguments"] == '{"pattern": "heron"}'
    assert first.usage is not None
    assert second.text == "found it"
    assert bench.server.requests[0].tools == ("lcm_grep",)


@pytest.mark.long
@pytest.mark.parametrize(
    ("failure", "kind", "timeout"),
    [
        (Failure(401), ModelAuthError, 120),
        (Failure(429, retry_after=60), ModelRateLimited, 120),
        (Reply("never", until=threading.Event()), ModelTimeout, 0.5),
        (Failure(404, "no such model", "model_not_found"), ModelError, 120),
    ],
)
def test_failures_have_kinds(bench: Bench, failure: Any, kind: type[ModelError], timeout: float) -> None:
    ways = bench.summarizer(expansion_model="openai/small-1").completions
    ways.window(ways.routes("expansion")[0])
    bench.server.enqueue(failure, failure)
    bench.server.default = lambda asked: failure
    with pytest.raises(kind, match=r"small-1|no answer"):
        ways.complete(request(timeout=timeout))


class Chunk(SimpleNamespace):
    """A streamed piece as client libraries give it."""


def stream() -> Iterator[Chunk]:
    for text in ("one ", None, "two"):
        yield Chunk(
            choices=[Chunk(delta=Chunk(content=text, tool_calls=None), finish_reason=None)], usage=None
        )
    yield Chunk(choices=[], usage=Chunk(prompt_tokens=5, completion_tokens=2))


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("plain", "plain"),
        (CompletionResult("result", "m-1"), "result"),
        ({"choices": [{"message": {"content": "a dict"}, "finish_reason": "stop"}]}, "a dict"),
        (
            {
                "role": "assistant",
                "content": [{"type": "text", "text": "parts"}, {"type": "thinking", "text": "no"}],
            },
            "parts",
        ),
        (Chunk(choices=[Chunk(message=Chunk(content="an object", tool_calls=None))], model="m"), "an object"),
        (Chunk(choices=[Chunk(message=Chunk(content=None, tool_calls=None))]), ""),
        (iter(["st", "rings"]), "strings"),
        (stream(), "one two"),
    ],
    ids=["text", "result", "dict", "list content", "object", "null", "strings", "chunks"],
)
def test_a_host_may_answer_in_any_usual_shape(answer: Any, text: str) -> None:
    assert completions(lambda asked: answer).complete(request()).text == text


def test_calls_in_a_stream_are_put_together() -> None:
    def pieces() -> Iterator[dict[str, Any]]:
        for index, (name, arguments) in enumerate([("lcm_grep", '{"pat'), ("", 'tern": 1}')]):
            call = {
                "index": 0,
                "id": "c1" if index == 0 else None,
                "function": {"name": name, "arguments": arguments},
            }
            yield {"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}

    result = completions(lambda asked: pieces()).complete(request())
    assert [call["function"] for call in result.tool_calls] == [
        {"name": "lcm_grep", "arguments": '{"pattern": 1}'}
    ]
    assert result.finish_reason == "tool_calls"


def test_a_host_that_passes_on_leaves_the_call_to_the_next_way(bench: Bench) -> None:
    bench.server.enqueue("from the server")
    ways = bench.summarizer(completer=lambda asked: None).completions
    assert ways.complete(request()).text == "from the server"
    assert ways.breaker.state("host", "small-1")["failures"] == 0


def test_a_hosts_exception_is_one_failure_of_the_host() -> None:
    def broken(asked: CompletionRequest) -> str:
        raise RuntimeError("no route to the gateway")

    ways = completions(broken)
    with pytest.raises(ModelUnavailable, match="RuntimeError: no route to the gateway"):
        ways.complete(request())


def test_nonsense_from_a_host_is_named() -> None:
    with pytest.raises(ModelError, match="returned int"):
        completions(lambda asked: 42).complete(request())


@pytest.mark.long
def test_a_host_that_hangs_is_left_and_does_not_block() -> None:
    release = threading.Event()

    def hang(asked: CompletionRequest) -> str:
        release.wait(300)
        return "too late"

    with pytest.raises(ModelTimeout):
        completions(hang).complete(request(timeout=0.2), deadline=time.monotonic() + 1.0)
    release.set()


def test_cancelling_ends_a_waiting_call_at_once() -> None:
    asked, release = threading.Event(), threading.Event()

    def hang(request: CompletionRequest) -> str:
        asked.set()
        return "x" if release.wait(300) else "y"

    ways = completions(hang)
    canceller = threading.Thread(target=lambda: asked.wait(300) and ways.cancel())
    canceller.start()
    with pytest.raises(ModelUnavailable, match="cancelled"):
        ways.complete(request(timeout=300))
    release.set()
    canceller.join()


def test_importing_and_making_a_summariser_imports_no_litellm() -> None:
    script = (
        "import sys; from lcm_plugin.summarize.summarizer import Summarizer; from lcm_plugin.config import LcmConfig\n"
        "from lcm_plugin.events import EventBus; from lcm_plugin.messages.tokens import TokenCounter\n"
        "Summarizer(LcmConfig(summary_model='openai/x'), TokenCounter(), EventBus()).status('lane')\n"
        "print('litellm' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


@pytest.mark.long
def test_litellm_is_loaded_without_asking_the_network_or_reading_dotenv(tmp_path: Any) -> None:
    (tmp_path / ".env").write_text("LCM_PROBE_KEY=leaked\n")
    script = (
        "import os, socket\n"
        "asked = []\n"
        "real = socket.getaddrinfo\n"
        "socket.getaddrinfo = lambda host, *a, **k: (asked.append(host), real(host, *a, **k))[1]\n"
        "from lcm_plugin.summarize.litellm_client import LitellmModel, load\n"
        "load(); LitellmModel('openai', 'gpt-4o').window()\n"
        "print(asked, os.environ.get('LCM_PROBE_KEY'), os.environ.get('LITELLM_MODE'))"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert result.stdout.strip() == "[] None None"
