"""A fake OpenAI-compatible model server on 127.0.0.1, for tests that drive a real program.

    with ModelServer() as server:
        server.enqueue("first answer", Calls(("lcm_grep", {"pattern": "heron"})), Failure(429, retry_after=1))
        server.add_rule(lambda request: "pong" if request.prompt == "ping" else None)
        ...                                   # the program under test talks to server.url
        assert server.invalid == []

Each request is checked (`validity.problems_of`) and logged. Its outcome is the next one of the queue,
else the first that a rule gives, else `answers.from_view`. As a script, from the folder ``tests``:
``python -m fakes.model_server --port 8765 --log requests.jsonl``.
"""

from __future__ import annotations

import argparse
import json
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

from fakes.validity import problems_of, text_of


@dataclass(frozen=True)
class Reply:
    """A text answer, given when ``until`` is set. ``delay`` and ``chunk_delay`` (between pieces) are seconds."""

    text: str = ""
    tool_calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    reasoning: str = ""
    finish_reason: str = ""
    usage: Mapping[str, Any] | None = None
    delay: float = 0.0
    chunk_delay: float = 0.0
    until: threading.Event | None = None


def Calls(*calls: tuple[str, Mapping[str, Any]], text: str = "") -> Reply:  # noqa: N802 - reads like Reply
    """An answer that calls tools, each given as (name, arguments)."""
    return Reply(text=text, tool_calls=calls)


@dataclass(frozen=True)
class Failure:
    """An HTTP error with OpenAI's error body; ``retry_after`` is in seconds."""

    status: int = 500
    message: str = "the fake server was told to fail"
    code: str = "server_error"
    retry_after: float | None = None
    delay: float = 0.0


@dataclass(frozen=True)
class Drop:
    """The connection is reset, ``after`` that many streamed pieces (0: before any answer)."""

    after: int = 0
    text: str = "this answer will never be complete"
    delay: float = 0.0


@dataclass(frozen=True)
class Raw:
    """A body sent as it is: malformed JSON, HTML, an empty body."""

    body: str
    status: int = 200
    content_type: str = "application/json"
    delay: float = 0.0


Outcome = Reply | Failure | Drop | Raw


@dataclass(frozen=True)
class ModelRequest:
    """One request as it came in. ``tokens`` is what the server says the prompt costs."""

    number: int
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    tokens: int
    problems: tuple[str, ...]
    at: float

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        """The message list."""
        messages = self.body.get("messages")
        return messages if isinstance(messages, list) else []

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the offered tools."""
        return tuple(tool["function"]["name"] for tool in self.body.get("tools") or ())

    @property
    def prompt(self) -> str:
        """The newest user text, or an empty string."""
        return next(
            (text_of(m.get("content")) for m in reversed(self.messages) if m.get("role") == "user"), ""
        )


Rule = Callable[[ModelRequest], Outcome | str | None]


def count_tokens(body: Mapping[str, Any]) -> int:
    """Four characters of messages and tool schemas are one token, as in common English."""
    sent = {"messages": body.get("messages"), "tools": body.get("tools") or []}
    return -(-len(json.dumps(sent, ensure_ascii=False)) // 4)


@dataclass
class ModelServer:
    """The server; a context manager. ``window``: larger prompts are answered by a 400, as providers do."""

    model: str = "fake-model"
    window: int | None = None
    api_key: str | None = None
    port: int = 0
    log: Path | None = None
    default: Rule | None = None
    requests: list[ModelRequest] = field(default_factory=list)
    _queue: deque[Outcome] = field(default_factory=deque)
    _rules: list[Rule] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _calls: int = 0
    _server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """The base URL a client is given, ending in /v1."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def invalid(self) -> list[tuple[int, tuple[str, ...]]]:
        """Number and problems of each request that broke a rule."""
        with self._lock:
            return [(r.number, r.problems) for r in self.requests if r.problems]

    def enqueue(self, *outcomes: Outcome | str) -> None:
        """Outcomes of the next requests, in order, whatever the requests say."""
        with self._lock:
            self._queue.extend(_outcome(item) for item in outcomes)

    def add_rule(self, rule: Rule) -> None:
        """A function that may answer a request; None passes it on to the next rule."""
        with self._lock:
            self._rules.append(rule)

    def start(self) -> ModelServer:
        """Listens on a free port of the loopback interface."""
        server = ThreadingHTTPServer(("127.0.0.1", self.port), type("Handler", (_Handler,), {"fake": self}))
        server.daemon_threads = True
        self._server, self.port = server, server.server_address[1]
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def stop(self) -> None:
        """Stops listening; the log stays."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def __enter__(self) -> ModelServer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def receive(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> tuple[ModelRequest, Outcome]:
        """Logs a request and decides its outcome."""
        with self._lock:
            messages = body.get("messages")
            problems = problems_of(messages) if isinstance(messages, list) else ["there is no message list"]
            tokens = count_tokens(body)
            if self.window is not None and tokens > self.window:
                problems.append(f"{tokens} tokens do not fit the window of {self.window}")
            request = ModelRequest(len(self.requests), body, headers, tokens, tuple(problems), time.time())
            self.requests.append(request)
            if self.log is not None:
                with self.log.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps({"problems": problems, "tokens": tokens, "body": body}) + "\n")
            queued = self._queue.popleft() if self._queue else None
            rules = tuple(self._rules)
        return request, queued or self._decide(request, rules)

    def _decide(self, request: ModelRequest, rules: Sequence[Rule]) -> Outcome:
        if self.api_key is not None and request.headers.get("authorization") != f"Bearer {self.api_key}":
            return Failure(401, "Incorrect API key provided", "invalid_api_key")
        if self.window is not None and request.tokens > self.window:
            limit = f"This model's maximum context length is {self.window} tokens."
            text = f"{limit} However, your messages resulted in {request.tokens} tokens."
            return Failure(400, text, "context_length_exceeded")
        for rule in rules:
            outcome = rule(request)
            if outcome is not None:
                return _outcome(outcome)
        from fakes.answers import from_view

        return _outcome((self.default or from_view)(request) or "Noted.")

    def next_call_id(self) -> str:
        """A tool-call id that this server has not used."""
        with self._lock:
            self._calls += 1
            return f"call_{self.port}_{self._calls}"


def _outcome(item: Outcome | str) -> Outcome:
    return Reply(item) if isinstance(item, str) else item


class _Handler(BaseHTTPRequestHandler):
    fake: ModelServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Keeps the test output quiet."""

    def do_GET(self) -> None:
        models = [{"id": self.fake.model, "object": "model", "context_length": self.fake.window or 128_000}]
        if self.path.rstrip("/").endswith("/models"):
            self._send(200, json.dumps({"object": "list", "data": models}))
        else:
            self._send(404, json.dumps(_error("no such path", "not_found")))

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self.path.split("?")[0].endswith("/chat/completions"):
            self._send(404, json.dumps(_error("no such path", "not_found")))
            return
        try:
            body = json.loads(raw)
        except ValueError as error:
            self._send(400, json.dumps(_error(f"the body is not JSON: {error}", "invalid_request_error")))
            return
        request, outcome = self.fake.receive(body, {k.lower(): v for k, v in self.headers.items()})
        time.sleep(outcome.delay)
        if isinstance(outcome, Reply) and outcome.until is not None:
            outcome.until.wait(300)
        try:
            self._answer(request, outcome)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _answer(self, request: ModelRequest, outcome: Outcome) -> None:
        match outcome:
            case Failure():
                extra = {} if outcome.retry_after is None else {"Retry-After": f"{outcome.retry_after:g}"}
                self._send(outcome.status, json.dumps(_error(outcome.message, outcome.code)), extra)
            case Raw():
                self._send(outcome.status, outcome.body, {"Content-Type": outcome.content_type})
            case Drop():
                if outcome.after:
                    pieces = _chunks(request, Reply(outcome.text), self.fake)
                    self._stream((piece for _, piece in zip(range(outcome.after), pieces, strict=False)), 0.0)
                self._reset()
            case Reply():
                if request.body.get("stream"):
                    self._stream(_chunks(request, outcome, self.fake), outcome.chunk_delay)
                    self.wfile.write(b"data: [DONE]\n\n")
                else:
                    self._send(200, json.dumps(_completion(request, outcome, self.fake)))

    def _send(self, status: int, body: str, headers: Mapping[str, str] | None = None) -> None:
        data = body.encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, chunks: Iterator[Mapping[str, Any]], pause: float) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for chunk in chunks:
            self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
            self.wfile.flush()
            time.sleep(pause)

    def _reset(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


def _error(message: str, code: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": code, "code": code, "param": None}}


def _usage(request: ModelRequest, reply: Reply) -> Mapping[str, Any]:
    if reply.usage is not None:
        return reply.usage
    answer = len(reply.text) + len(reply.reasoning) + len(json.dumps(reply.tool_calls))
    completion = max(1, answer // 4)
    return {
        "prompt_tokens": request.tokens,
        "completion_tokens": completion,
        "total_tokens": request.tokens + completion,
    }


def _tool_calls(reply: Reply, server: ModelServer) -> list[dict[str, Any]]:
    return [
        {
            "id": server.next_call_id(),
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for name, arguments in reply.tool_calls
    ]


def _finish(reply: Reply) -> str:
    return reply.finish_reason or ("tool_calls" if reply.tool_calls else "stop")


def _envelope(request: ModelRequest, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{request.number}",
        "object": kind,
        "created": int(request.at),
        "model": request.body.get("model", "fake-model"),
    }


def _completion(request: ModelRequest, reply: Reply, server: ModelServer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.tool_calls:
        message["tool_calls"] = _tool_calls(reply, server)
    choice = {"index": 0, "message": message, "finish_reason": _finish(reply), "logprobs": None}
    return {
        **_envelope(request, "chat.completion"),
        "choices": [choice],
        "usage": dict(_usage(request, reply)),
    }


def _chunks(request: ModelRequest, reply: Reply, server: ModelServer) -> Iterator[dict[str, Any]]:
    head = _envelope(request, "chat.completion.chunk")

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": dict(delta), "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for start in range(0, len(reply.reasoning), 40):
        yield chunk({"reasoning_content": reply.reasoning[start : start + 40]})
    size = max(40, len(reply.text) // 50)
    for start in range(0, len(reply.text), size):
        yield chunk({"content": reply.text[start : start + size]})
    for index, call in enumerate(_tool_calls(reply, server)):
        opening = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
        yield chunk({"tool_calls": [opening]})
        yield chunk(
            {"tool_calls": [{"index": index, "function": {"arguments": call["function"]["arguments"]}}]}
        )
    yield chunk({}, _finish(reply))
    yield {**head, "choices": [], "usage": dict(_usage(request, reply))}


def main() -> None:
    """Serves until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--window", type=int)
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    with ModelServer(port=options.port, window=options.window, log=options.log) as server:
        print(server.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
