"""The fake model server itself: what it serves, checks and breaks on demand."""

from __future__ import annotations

import http.client
import json
import time
from typing import Any

import pytest

from fakes.model_server import Calls, Drop, Failure, ModelServer, Raw, Reply
from fakes.validity import problems_of

TOOLS = [{"type": "function", "function": {"name": "lcm_grep", "parameters": {}}}]


def post(server: ModelServer, messages: list[dict[str, Any]], **more: Any) -> tuple[int, str, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps({"messages": messages, **more}))
        response = connection.getresponse()
        return response.status, response.read().decode(), {k.lower(): v for k, v in response.getheaders()}
    finally:
        connection.close()


def ask(server: ModelServer, messages: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    status, body, _ = post(server, messages, **more)
    assert status == 200
    message: dict[str, Any] = json.loads(body)["choices"][0]["message"]
    return message


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def test_answers_come_from_the_queue_then_from_rules_then_from_the_request(server: ModelServer) -> None:
    server.add_rule(lambda request: "pong" if request.prompt == "ping" else None)
    server.enqueue("scripted")
    assert ask(server, [user("ping")])["content"] == "scripted"
    assert ask(server, [user("ping")])["content"] == "pong"
    assert ask(server, [user("hello")])["content"] == "Noted: hello"


def test_a_stream_carries_text_calls_finish_and_usage(server: ModelServer) -> None:
    server.enqueue(Calls(("lcm_grep", {"pattern": "x"}), text="looking " * 20))
    _, body, _ = post(server, [user("hi")], stream=True, tools=TOOLS)
    events = [line[6:] for line in body.split("\n\n") if line]
    assert events.pop() == "[DONE]"
    chunks = [json.loads(event) for event in events]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == "looking " * 20
    calls = [call for delta in deltas for call in delta.get("tool_calls", ())]
    assert json.loads("".join(call["function"]["arguments"] for call in calls)) == {"pattern": "x"}
    assert chunks[-1]["usage"]["prompt_tokens"] == server.requests[0].tokens


def test_every_broken_rule_is_recorded_and_valid_requests_are_not(server: ModelServer) -> None:
    ask(server, [user("fine")])
    ask(server, [{"role": "assistant", "content": "hi"}])
    assert [number for number, _ in server.invalid] == [1]


def call(*ids: str) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": [{"id": call_id} for call_id in ids]}


def result(call_id: str, text: str = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([user("q"), call("a", "b"), result("b"), result("a")], None),
        ([{"role": "system", "content": "s"}, user("q")], None),
        ([], "empty"),
        ([user("q"), result("a")], "no call directly before"),
        ([user("q"), call("a"), user("now"), result("a")], "without an answer"),
        ([user("q"), call("a")], "without an answer"),
        ([user("q"), call("a"), result("a"), call("a"), result("a")], "again"),
        ([user(" ")], "no content"),
        ([{"role": "user", "content": []}], "no content"),
        ([{"role": "user", "content": [{"type": "text", "text": ""}]}], "no content"),
        ([user("q"), call("a"), result("a", "")], "no content"),
        ([{"role": "assistant", "content": "hi"}, user("q")], "not from the user"),
        ([user("q"), {"role": "assistant", "content": "a"}], "last message"),
    ],
)
def test_the_rules_of_a_valid_list(messages: list[dict[str, Any]], expected: str | None) -> None:
    problems = problems_of(messages)
    assert problems == [] if expected is None else any(expected in problem for problem in problems)


def test_it_fails_as_told(server: ModelServer) -> None:
    server.enqueue(Failure(429, retry_after=1.5), Raw("{not json"), Raw("<html>", 502, "text/html"))
    status, _, headers = post(server, [user("q")])
    assert (status, headers["retry-after"]) == (429, "1.5")
    assert post(server, [user("q")])[1] == "{not json"
    assert post(server, [user("q")])[0] == 502


@pytest.mark.parametrize("stream", [False, True])
def test_it_drops_connections(server: ModelServer, stream: bool) -> None:
    server.enqueue(Drop(after=2 if stream else 0))
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        post(server, [user("q")], stream=stream)


def test_it_delays(server: ModelServer) -> None:
    server.enqueue(Reply("late", delay=0.2))
    before = time.monotonic()
    ask(server, [user("q")])
    assert time.monotonic() - before >= 0.2


def test_a_prompt_over_the_window_is_refused_and_recorded() -> None:
    with ModelServer(window=100) as server:
        status, body, _ = post(server, [user("word " * 200)])
        assert status == 400
        assert "maximum context length" in body
        assert "do not fit" in server.invalid[0][1][0]


def test_a_wrong_key_is_refused() -> None:
    with ModelServer(api_key="right") as server:
        assert post(server, [user("q")])[0] == 401


def test_it_recalls_only_what_it_sees(server: ModelServer) -> None:
    fact = "The code of VAULT-003 is heron-4711."
    question = user("RECALL VAULT-003")
    assert ask(server, [user(f"Listen. {fact} Thanks."), question])["content"] == fact
    assert ask(server, [question])["content"] == "I do not know VAULT-003."
    called = ask(server, [question], tools=TOOLS)["tool_calls"][0]
    assert json.loads(called["function"]["arguments"]) == {"pattern": "VAULT-003"}
    found = [
        question,
        {"role": "assistant", "content": None, "tool_calls": [called]},
        result(called["id"], fact),
    ]
    assert ask(server, found, tools=TOOLS)["content"] == fact


def test_a_summary_is_shorter_than_its_source(server: ModelServer) -> None:
    source = " ".join(f"Sentence number {i} speaks of gardens and rivers." for i in range(200))
    summary = ask(server, [{"role": "system", "content": "Write a summary."}, user(source)])["content"]
    assert len(summary) < len(source) / 4
    assert "gardens" in summary


def test_models_are_listed(server: ModelServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("GET", "/v1/models")
    assert json.loads(connection.getresponse().read())["data"][0]["id"] == "fake-model"
    connection.close()
