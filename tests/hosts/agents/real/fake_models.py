"""One model server for all agents under test: Anthropic, OpenAI Responses and Chat, and Gemini, streamed as they stream.

The newest prompt says what the model does: ``[[say X]]`` answers X, ``[[call NAME {…}]]`` calls a tool first, several
of them at once. Where the answer must not stand in the prompt, ``script`` has it. Every request's body is kept.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_SAY = re.compile(r"\[\[say (.*?)\]\]", re.DOTALL)
_CALL = re.compile(r"\[\[call (\w+) (\{.*?\})\]\]", re.DOTALL)
_QUOTED = re.compile(
    r"<recalled>.*?</recalled>|<hook_context>.*?</hook_context>"
    r"|<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>.*?<<<END_OPENCLAW_INTERNAL_CONTEXT>>>",
    re.DOTALL,
)
_SMALL = 1_000
_NAMESPACES = {"mcp__lcm": ("lcm_",), "collaboration": ("spawn_agent", "wait_agent")}
"""Where Codex looks for tools that are not its first ones."""


@dataclass
class Request:
    """A request: its path, its body, and the plain text of all that the model was shown."""

    path: str
    body: dict[str, Any]

    @property
    def text(self) -> str:
        return json.dumps(self.body, ensure_ascii=False)

    @property
    def turns(self) -> list[Any]:
        """The messages of the request, whatever the protocol calls them."""
        return next((self.body[key] for key in ("messages", "input", "contents") if key in self.body), [])


@dataclass
class Answer:
    text: str
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    used: int = _SMALL


class FakeModels:
    """The server. ``use_once`` is the usage that the next answer of a turn reports, ``script`` an answer by prompt."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.use_once = 0
        self.script: dict[str, Answer] = {}
        self._lock = threading.Lock()
        self._count = 0
        handler = type("Handler", (_Handler,), {"models": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def talk(self, mark: str = "") -> list[Request]:
        """The requests that ask for a turn's answer, in order: those with tools; only such that hold a mark."""
        found = [one for one in self.requests if one.body.get("tools") and one.turns]
        return [one for one in found if mark in one.text]

    def answer(self, path: str, body: dict[str, Any]) -> Answer:
        with self._lock:
            self.requests.append(Request(path, body))
            prompt, answered = _newest_prompt(body)
            used = _SMALL
            if body.get("tools") and self.use_once:
                used, self.use_once = self.use_once, 0
        written = next((one for asked, one in self.script.items() if asked in prompt), None)
        if written is not None and body.get("tools"):
            return Answer(written.text, [] if answered else written.calls, used)
        said = _SAY.findall(prompt)
        text = (
            said[-1]
            if said and body.get("tools")
            else "<state_snapshot>A summary of the talk.</state_snapshot>"
        )
        if body.get("tools") and not said:
            text = "Understood."
        calls = (
            []
            if answered or not body.get("tools")
            else [(name, json.loads(given)) for name, given in _CALL.findall(prompt)]
        )
        return Answer(text, calls, used)

    def number(self) -> int:
        with self._lock:
            self._count += 1
            return self._count


def _newest_prompt(body: dict[str, Any]) -> tuple[str, bool]:
    """The text of the newest user message, and whether tools' results follow it."""
    turns = next((body[key] for key in ("messages", "input", "contents") if key in body), [])
    if isinstance(turns, str):
        return turns, False
    answered = False
    for turn in reversed(turns):
        if _is_result(turn):
            answered = True
        elif turn.get("role") == "user" and (text := _QUOTED.sub("", _text(turn))).strip():
            return text, answered
    return "", answered


def _is_result(turn: dict[str, Any]) -> bool:
    if turn.get("role") == "tool" or str(turn.get("type", "")).endswith("_call_output"):
        return True
    blocks = turn.get("content", turn.get("parts"))
    return isinstance(blocks, list) and any(
        isinstance(block, dict) and (block.get("type") == "tool_result" or "functionResponse" in block)
        for block in blocks
    )


def _text(turn: dict[str, Any]) -> str:
    content = turn.get("content", turn.get("parts"))
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text", "")) for block in content or () if isinstance(block, dict))


class _Handler(BaseHTTPRequestHandler):
    models: FakeModels
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._send(b'{"data":[],"models":[],"object":"list"}', "application/json")

    def do_HEAD(self) -> None:
        self._send(b"", "application/json")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        path = self.path.split("?")[0]
        if path.endswith(("count_tokens", ":countTokens")):
            self._send(b'{"input_tokens":1000,"totalTokens":1000}', "application/json")
            return
        answer = self.models.answer(path, body)
        events = list(_PROTOCOLS[_protocol_of(path)](self.models, answer, body))
        if path.endswith(":generateContent") or (
            not body.get("stream") and "Gemini" not in path and not path.endswith("streamGenerateContent")
        ):
            self._send(json.dumps(_whole(path, answer, events)).encode(), "application/json")
            return
        named = "event" if path.endswith(("/messages", "/responses")) else ""
        text = "".join(
            (f"event: {event['type']}\n" if named else "") + f"data: {json.dumps(event)}\n\n"
            for event in events
        )
        if path.endswith("/chat/completions"):
            text += "data: [DONE]\n\n"
        self._send(text.encode(), "text/event-stream")

    def _send(self, data: bytes, kind: str) -> None:
        try:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            self.close_connection = True


def _protocol_of(path: str) -> str:
    if path.endswith("/messages"):
        return "anthropic"
    if path.endswith("/responses"):
        return "responses"
    return "chat" if path.endswith("/chat/completions") else "gemini"


def _whole(path: str, answer: Answer, events: list[dict[str, Any]]) -> dict[str, Any]:
    """The answer for a caller that does not stream."""
    if _protocol_of(path) == "anthropic":
        content = [{"type": "text", "text": answer.text}]
        return {**events[0]["message"], "content": content, "stop_reason": "end_turn"}
    if _protocol_of(path) == "chat":
        message = {"role": "assistant", "content": answer.text}
        return {**events[0], "object": "chat.completion", "choices": [{"index": 0, "message": message}]}
    return events[-1].get("response", events[-1])


def _anthropic(models: FakeModels, answer: Answer, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    usage = {"input_tokens": answer.used, "output_tokens": 7}
    head = {"id": f"msg_{models.number()}", "type": "message", "role": "assistant", "content": []}
    about = {"model": body.get("model"), "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield {"type": "message_start", "message": {**head, **about}}
    blocks: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for name, given in answer.calls:
        block = {"type": "tool_use", "id": f"toolu_{models.number()}", "name": name, "input": {}}
        blocks.append((block, {"type": "input_json_delta", "partial_json": json.dumps(given)}))
    if not blocks:
        blocks.append(({"type": "text", "text": ""}, {"type": "text_delta", "text": answer.text}))
    for index, (block, delta) in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    reason = "tool_use" if answer.calls else "end_turn"
    yield {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}
    yield {"type": "message_stop"}


def _responses(models: FakeModels, answer: Answer, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    response = f"resp_{models.number()}"
    yield {"type": "response.created", "response": {"id": response}}
    for index, (name, given) in enumerate(answer.calls):
        number = models.number()
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": name}
        done = {**item, "arguments": json.dumps(given), "status": "completed"}
        if space := next((space for space, tools in _NAMESPACES.items() if name.startswith(tools)), None):
            done["namespace"] = space
        yield {"type": "response.output_item.done", "output_index": index, "item": done}
    if not answer.calls:
        item = {"type": "message", "id": f"msg_{models.number()}", "role": "assistant"}
        content = [{"type": "output_text", "text": answer.text, "annotations": []}]
        yield {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}}
        yield {
            "type": "response.output_text.delta",
            "item_id": item["id"],
            "output_index": 0,
            "delta": answer.text,
        }
        yield {"type": "response.output_item.done", "output_index": 0, "item": {**item, "content": content}}
    usage = {"input_tokens": answer.used, "output_tokens": 7, "total_tokens": answer.used + 7}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    yield {
        "type": "response.completed",
        "response": {"id": response, "output": [], "usage": {**usage, **details}},
    }


def _chat(models: FakeModels, answer: Answer, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    head = {
        "id": f"chat_{models.number()}",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": body.get("model"),
    }

    def chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    calls = [
        {
            "index": index,
            "id": f"call_{models.number()}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(given)},
        }
        for index, (name, given) in enumerate(answer.calls)
    ]
    yield chunk(
        {"role": "assistant", "tool_calls": calls} if calls else {"role": "assistant", "content": answer.text}
    )
    yield chunk({}, "tool_calls" if calls else "stop")
    usage = {"prompt_tokens": answer.used, "completion_tokens": 7, "total_tokens": answer.used + 7}
    yield {**head, "choices": [], "usage": usage}


def _gemini(models: FakeModels, answer: Answer, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    parts: list[dict[str, Any]] = [
        {"functionCall": {"name": name, "args": given}} for name, given in answer.calls
    ]
    if not parts:
        asks_json = "responseMimeType" in json.dumps(body.get("generationConfig", {}))
        routed = '{"complexity_reasoning": "simple", "complexity_score": 1, "reasoning": "simple", "model_choice": "flash"}'
        parts = [{"text": routed if asks_json else answer.text}]
    usage = {"promptTokenCount": answer.used, "candidatesTokenCount": 7, "totalTokenCount": answer.used + 7}
    one = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    yield {"candidates": [one], "usageMetadata": usage, "responseId": f"r{models.number()}"}


_PROTOCOLS = {"anthropic": _anthropic, "responses": _responses, "chat": _chat, "gemini": _gemini}
