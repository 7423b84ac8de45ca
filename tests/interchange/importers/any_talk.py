"""Writes one and the same talk as the log of any tool: what an import of it must hold is counted by hand beside it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import other_records
from session_logs import ClaudeLog, CodexLog, Log

Kind = Literal["user", "image", "answer", "call", "record"]
KINDS: tuple[Kind, ...] = ("user", "image", "answer", "call", "record")
DATA = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
URL = f"data:image/png;base64,{DATA}"
AT = 1_762_000_000_000
Writer = Callable[[Path, str, list[Kind]], Path]
# With its indexes: a reader that asks for the parts of each message is as slow as a scan without them.
OPENCODE_TABLES = """
CREATE TABLE session (id TEXT PRIMARY KEY, directory TEXT, title TEXT, version TEXT, time_created INTEGER);
CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);
CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, data TEXT);
CREATE INDEX message_session_time_created_id_idx ON message (session_id, time_created, id);
CREATE INDEX part_message_id_id_idx ON part (message_id, id);
CREATE INDEX part_session_idx ON part (session_id);
"""


@dataclass(frozen=True)
class Counted:
    """What is in a talk: messages, calls, results and images."""

    messages: int
    calls: int
    results: int
    images: int


def counted(talk: list[Kind], *, images: bool = True, calls: bool = True) -> Counted:
    """The counts of a talk. Some tools keep no images, or no calls."""
    count = {kind: talk.count(kind) for kind in KINDS}
    made = count["call"] if calls else 0
    said = count["user"] + count["image"] + count["answer"]
    return Counted(said + 2 * made, made, made, count["image"] if images else 0)


def words(number: int) -> str:
    return f"words {number} of the talk"


def claude(folder: Path, name: str, talk: list[Kind]) -> Path:
    log = ClaudeLog(folder / f"{name}.jsonl")
    log.record("system", subtype="local_command", content="")
    for number, kind in enumerate(talk):
        if kind == "user":
            log.user(words(number))
        elif kind == "image":
            source = {"type": "base64", "media_type": "image/png", "data": DATA}
            log.user([{"type": "text", "text": words(number)}, {"type": "image", "source": source}])
        elif kind == "answer":
            log.assistant(words(number))
        elif kind == "call":
            log.call(f"{name}-{number}")
            log.result(f"{name}-{number}")
        else:
            for loose in other_records.CLAUDE_LOOSE:
                log.add({**loose, "sessionId": name})
            for subtype in other_records.CLAUDE_SYSTEM:
                log.record("system", subtype=subtype, content="of the program")
            for attached in other_records.CLAUDE_ATTACHMENTS:
                log.record("attachment", attachment={"type": attached, "content": "of the program"})
            for step in other_records.CLAUDE_PROGRESS:
                log.record("progress", data={"type": step})
            log.queued("a notice", commandMode="task-notification")
    return log.path


def codex(folder: Path, name: str, talk: list[Kind]) -> Path:
    log = CodexLog(folder / f"rollout-2026-11-02T00-00-00-{name}.jsonl")
    log.meta(name, cli_version="0.171.0")
    log.item("developer", "<permissions instructions>ask</permissions instructions>")
    for number, kind in enumerate(talk):
        if kind == "user":
            log.item("user", words(number))
            log.line("event_msg", type="user_message", message=words(number))
        elif kind == "image":
            content = [
                {"type": "input_text", "text": words(number)},
                {"type": "input_image", "image_url": URL},
            ]
            log.line("response_item", type="message", role="user", content=content)
        elif kind == "answer":
            log.item("assistant", words(number))
        elif kind == "call":
            call = f"{name}-{number}"
            log.line("response_item", type="function_call", name="shell", arguments="{}", call_id=call)
            log.line("response_item", type="function_call_output", call_id=call, output="done")
        else:
            for event in other_records.CODEX_EVENTS:
                log.line("event_msg", **event)
            for item in other_records.CODEX_ITEMS:
                log.line("response_item", **item)
            for outer, payload in other_records.CODEX_LINES:
                log.line(outer, **payload)
    return log.path


def gemini(folder: Path, name: str, talk: list[Kind]) -> Path:
    log = Log(folder / f"session-{name}.jsonl")
    log.add({"sessionId": name, "projectHash": "h"})
    for number, kind in enumerate(talk):
        own = {"id": f"{name}-{number}"}
        if kind == "user":
            log.add({**own, "type": "user", "content": [{"text": words(number)}]})
        elif kind == "image":
            parts = [{"text": words(number)}, {"inlineData": {"mimeType": "image/png", "data": DATA}}]
            log.add({**own, "type": "user", "content": parts})
        elif kind == "answer":
            log.add({**own, "type": "gemini", "content": words(number)})
        elif kind == "call":
            result = [{"functionResponse": {"id": own["id"], "name": "t", "response": {"output": "done"}}}]
            call = {"id": own["id"], "name": "t", "args": {}, "status": "success", "result": result}
            log.add({**own, "type": "gemini", "content": ""})
            log.add({**own, "type": "gemini", "content": "", "toolCalls": [call]})
        else:
            for at, one in enumerate(other_records.GEMINI):
                log.add({"id": f"{name}-{number}-{at}", **one} if "type" in one else one)
    return log.path


def qwen(folder: Path, name: str, talk: list[Kind]) -> Path:
    log = Log(folder / f"{name}.jsonl")
    last: str | None = None

    def add(kind: str, *parts: Any, **rest: Any) -> None:
        nonlocal last
        uuid = f"{name}-{log.second}"
        told = {"message": {"role": "user", "parts": list(parts)}} if parts else {}
        log.add({"uuid": uuid, "parentUuid": last, "sessionId": name, "type": kind, **told, **rest})
        last = uuid

    add("system", subtype="ui_telemetry", systemPayload={})
    for number, kind in enumerate(talk):
        if kind == "user":
            add("user", {"text": words(number)})
        elif kind == "image":
            add("user", {"text": words(number)}, {"inlineData": {"mimeType": "image/png", "data": DATA}})
        elif kind == "answer":
            add("assistant", {"text": words(number)})
        elif kind == "call":
            add("assistant", {"functionCall": {"id": f"c{number}", "name": "t", "args": {}}})
            response = {"id": f"c{number}", "name": "t", "response": {"output": "done"}}
            add("tool_result", {"functionResponse": response})
        else:
            for subtype in other_records.QWEN_SYSTEM:
                add("system", subtype=subtype, systemPayload={"text": "of the program"})
    return log.path


def opencode(folder: Path, name: str, talk: list[Kind]) -> Path:
    path = folder / f"{name}.db"
    with sqlite3.connect(path) as db:
        db.executescript(OPENCODE_TABLES)
        db.execute("INSERT INTO session VALUES (?, '/work', ?, '1.18', ?)", (name, name, AT))
        for number, kind in enumerate(talk):
            role = "user" if kind in ("user", "image") else "assistant"
            parts: list[dict[str, Any]] = [{"type": "text", "text": words(number)}]
            if kind == "image":
                parts.append({"type": "file", "mime": "image/png", "url": URL})
            elif kind == "call":
                state = {"status": "completed", "input": {}, "output": "done"}
                parts = [{"type": "tool", "tool": "t", "callID": f"c{number}", "state": state}]
            elif kind == "record":
                parts = other_records.OPENCODE_PARTS
            data = {"role": role, "time": {"created": AT + number, "completed": AT + number}}
            own = f"msg_{name}_{number:05d}"
            db.execute("INSERT INTO message VALUES (?, ?, ?, ?)", (own, name, AT + number, json.dumps(data)))
            rows = [(f"{own}_{at}", own, name, json.dumps(part)) for at, part in enumerate(parts)]
            db.executemany("INSERT INTO part VALUES (?, ?, ?, ?)", rows)
    db.close()
    return path


def cursor(folder: Path, name: str, talk: list[Kind]) -> Path:
    path = folder / f"{name}.vscdb"
    rows: dict[str, Any] = {}
    for number, kind in enumerate(talk):
        bubble: dict[str, Any] = {"type": 1 if kind in ("user", "image") else 2, "text": words(number)}
        if kind == "image":
            bubble["images"] = [{"data": DATA}]
        elif kind == "call":
            bubble |= {
                "text": "",
                "toolFormerData": {"toolCallId": f"c{number}", "name": "t", "result": "done"},
            }
        elif kind == "record":
            bubble = {"type": 9}
        rows[f"bubbleId:{name}:b{number}"] = bubble
    listed = [{"bubbleId": f"b{number}"} for number in range(len(talk))]
    rows[f"composerData:{name}"] = {"composerId": name, "name": name, "fullConversationHeadersOnly": listed}
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
        db.executemany(
            "INSERT INTO cursorDiskKV VALUES (?, ?)", [(key, json.dumps(one)) for key, one in rows.items()]
        )
    db.close()
    return path


def openclaw(folder: Path, name: str, talk: list[Kind]) -> Path:
    log = Log(folder / f"{name}.jsonl")
    log.add({"type": "session", "id": name, "version": 3})
    last: str | None = None

    def add(kind: str, **rest: Any) -> None:
        nonlocal last
        own = f"e{log.second}"
        log.add({"type": kind, "id": own, "parentId": last, **rest})
        last = own

    for number, kind in enumerate(talk):
        text = {"type": "text", "text": words(number)}
        if kind == "user":
            add("message", message={"role": "user", "content": [text]})
        elif kind == "image":
            image = {"type": "image", "data": DATA, "mimeType": "image/png"}
            add("message", message={"role": "user", "content": [text, image]})
        elif kind == "answer":
            add("message", message={"role": "assistant", "content": [text]})
        elif kind == "call":
            call = {"type": "toolCall", "id": f"c{number}", "name": "t", "arguments": {}}
            add("message", message={"role": "assistant", "content": [call]})
            add(
                "message",
                message={
                    "role": "toolResult",
                    "toolCallId": f"c{number}",
                    "toolName": "t",
                    "content": "done",
                },
            )
        else:
            for one in other_records.OPENCLAW:
                add(one["type"], **{key: value for key, value in one.items() if key != "type"})
    return log.path


def librechat(folder: Path, name: str, talk: list[Kind]) -> Path:
    messages: list[dict[str, Any]] = []
    for number, kind in enumerate(talk):
        if kind == "record":
            continue
        parent = messages[-1]["messageId"] if messages else None
        one: dict[str, Any] = {"messageId": f"m{number}", "parentMessageId": parent, "createdAt": AT + number}
        one |= {"isCreatedByUser": kind in ("user", "image"), "text": words(number)}
        if kind == "call":
            call = {"id": f"c{number}", "name": "t", "args": "{}", "output": "done"}
            one["content"] = [{"type": "tool_call", "tool_call": call}]
        messages.append(one)
    path = folder / f"{name}.json"
    path.write_text(
        json.dumps({"conversationId": name, "endpoint": "x", "exportAt": "now", "messages": messages})
    )
    return path


def claude_ai(folder: Path, name: str, talk: list[Kind]) -> Path:
    messages: list[dict[str, Any]] = []
    for number, kind in enumerate(talk):
        content: list[dict[str, Any]] = [{"type": "text", "text": words(number)}]
        if kind == "call":
            content = [
                {"type": "tool_use", "name": "t", "input": {}},
                {"type": "tool_result", "name": "t", "content": [{"type": "text", "text": "done"}]},
            ]
        if kind != "record":
            sender = "human" if kind in ("user", "image") else "assistant"
            messages.append({"uuid": f"{name}-{number}", "sender": sender, "content": content})
    path = folder / "conversations.json"
    path.write_text(json.dumps([{"uuid": name, "name": name, "chat_messages": messages}]))
    return path


def chatgpt(folder: Path, name: str, talk: list[Kind]) -> Path:
    mapping: dict[str, Any] = {"root": {"parent": None, "message": None}}
    last = "root"

    def add(role: str, text: str, **rest: Any) -> None:
        nonlocal last
        own = f"{name}-{len(mapping)}"
        content = {"content_type": "text", "parts": [text]}
        message = {
            "author": {"role": role, "name": "t"},
            "create_time": AT / 1000 + len(mapping),
            "content": content,
        }
        mapping[own] = {"parent": last, "message": {**message, **rest}}
        last = own

    for number, kind in enumerate(talk):
        if kind in ("user", "image"):
            add("user", words(number))
        elif kind == "answer":
            add("assistant", words(number))
        elif kind == "call":
            add("assistant", "{}", recipient="t")
            add("tool", "done")
        else:
            for role, other, about in other_records.CHATGPT:
                add(role, "", content=other, metadata=about)
    path = folder / "conversations-000.json"
    value = {"conversation_id": name, "title": name, "mapping": mapping, "current_node": last}
    path.write_text(json.dumps([value]))
    return path


def anthropic(number: int, kind: Kind) -> list[dict[str, Any]]:
    """The messages of one part of a talk in Anthropic's shape."""
    text = {"type": "text", "text": words(number)}
    if kind == "image":
        source = {"type": "base64", "media_type": "image/png", "data": DATA}
        return [{"role": "user", "content": [text, {"type": "image", "source": source}]}]
    if kind == "call":
        call = {"type": "tool_use", "id": f"c{number}", "name": "t", "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": "done"}
        return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    if kind == "record":
        return []
    return [{"role": "user" if kind == "user" else "assistant", "content": [text]}]


def cline(folder: Path, name: str, talk: list[Kind]) -> Path:
    path = folder / name / "api_conversation_history.json"
    path.parent.mkdir()
    path.write_text(json.dumps([one for number, kind in enumerate(talk) for one in anthropic(number, kind)]))
    return path


def openai(folder: Path, name: str, talk: list[Kind]) -> Path:
    path = folder / f"{name}.jsonl"
    messages = [one for number, kind in enumerate(talk) for one in anthropic(number, kind)]
    path.write_text("".join(json.dumps(one) + "\n" for one in messages))
    return path


def goose(folder: Path, name: str, talk: list[Kind]) -> Path:
    path = folder / f"{name}.jsonl"
    lines: list[dict[str, Any]] = [{"working_dir": "/work", "description": name, "message_count": len(talk)}]
    for number, kind in enumerate(talk):
        text = {"type": "text", "text": words(number)}
        if kind == "call":
            value = {"name": "t", "arguments": {}}
            call = {
                "type": "toolRequest",
                "id": f"c{number}",
                "toolCall": {"status": "success", "value": value},
            }
            done = {"status": "success", "value": [{"type": "text", "text": "done"}]}
            lines.append({"role": "assistant", "created": AT // 1000, "content": [call]})
            result = {"type": "toolResponse", "id": f"c{number}", "toolResult": done}
            lines.append({"role": "user", "created": AT // 1000, "content": [result]})
        elif kind == "record":
            lines += [{"created": AT // 1000, **one} for one in other_records.GOOSE]
        else:
            image = [{"type": "image", "data": DATA, "mimeType": "image/png"}] if kind == "image" else []
            role = "assistant" if kind == "answer" else "user"
            lines.append({"role": role, "created": AT // 1000, "content": [text, *image]})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def sharegpt(folder: Path, name: str, talk: list[Kind]) -> Path:
    speakers = {"user": "human", "image": "human", "answer": "gpt"}
    turns = [
        {"from": speakers[kind], "value": words(number)}
        for number, kind in enumerate(talk)
        if kind in speakers
    ]
    path = folder / f"{name}.json"
    path.write_text(json.dumps([{"id": name, "conversations": turns}]))
    return path


# The tools that keep no images in these files, or no calls.
WRITERS: dict[str, tuple[Writer, dict[str, bool]]] = {
    "claude-code": (claude, {}),
    "codex": (codex, {}),
    "gemini-cli": (gemini, {}),
    "qwen-code": (qwen, {}),
    "opencode": (opencode, {}),
    "cursor": (cursor, {}),
    "openclaw": (openclaw, {}),
    "openai": (openai, {}),
    "cline": (cline, {}),
    "goose": (goose, {}),
    "librechat": (librechat, {"images": False}),
    "claude-ai": (claude_ai, {"images": False}),
    "chatgpt": (chatgpt, {"images": False}),
    "sharegpt": (sharegpt, {"images": False, "calls": False}),
}
