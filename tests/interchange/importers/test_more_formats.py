"""Gemini CLI, Qwen Code, opencode, Cursor and LibreChat: what their files hold comes in, once."""

from __future__ import annotations

import base64
import json
import sqlite3
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from imported_store import Imported, asides, counts, words
from session_logs import LONG, Log

from lcm_plugin.errors import InputError
from lcm_plugin.interchange.importers.formats import format_of
from lcm_plugin.interchange.importers.importing import find_sources, look_over
from lcm_plugin.messages.parts import rebuild

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
DATA = base64.b64encode(PNG).decode()


def shown(imported: Imported, key: str) -> list[Any]:
    """Role, words, calls and answered calls of each message that a model is shown."""
    return [
        (row.head.role, text, list(row.head.calls), list(row.head.answers))
        for row in imported.active(key)
        if not row.head.hidden
        for text in words([row])
    ]


def gemini(path: Path) -> Log:
    """A chat of Gemini CLI with a call, a message that comes twice, and a turn that was taken back."""
    log = Log(path)
    log.add({"sessionId": "g1", "projectHash": "h", "startTime": "2026-11-02T00:00:00Z", "kind": "main"})
    hook = "<hook_context>remember this</hook_context>"
    log.add({"id": "m1", "type": "user", "content": [{"text": "map the harbour"}, {"text": hook}]})
    answer = {
        "id": "m2",
        "type": "gemini",
        "content": "Looking.",
        "model": "gemini-3",
        "tokens": {"total": 9},
    }
    log.add(answer)
    call = {"id": "c1", "name": "read_file", "args": {"path": "map"}, "status": "success"}
    result = [{"functionResponse": {"id": "c1", "name": "read_file", "response": {"output": "a map"}}}]
    log.add({**answer, "toolCalls": [{**call, "result": result}]})
    log.add({"id": "m3", "type": "info", "content": "Update available"})
    log.add({"id": "m4", "type": "user", "content": [{"text": "sink the ships"}]})
    log.add({"id": "m5", "type": "gemini", "content": "Sunk."})
    log.add({"$rewindTo": "m4"})
    image = {"inlineData": {"mimeType": "image/png", "data": DATA}}
    log.add({"id": "m6", "type": "user", "content": [{"text": "paint the ships"}, image]})
    log.add({"$set": {"lastUpdated": "2026-11-02T01:00:00Z", "summary": "Harbour work"}})
    return log


def test_a_chat_of_gemini_cli(imported: Imported, tmp_path: Path) -> None:
    log = gemini(tmp_path / "session-1.jsonl")
    (report,) = imported.bring_all(log.path)
    key = "agent:gemini-cli:g1"
    assert shown(imported, key) == [
        ("user", "map the harbour", [], []),
        ("assistant", "Looking.", [], []),
        ("assistant", "", ["c1"], []),
        ("tool", "a map", [], ["c1"]),
        ("user", "paint the ships", [], []),
    ]
    assert imported.archived(key) == [["sink the ships", "Sunk."]]
    assert (report.conversations[0].title, report.total("images")) == ("Harbour work", 1)
    assert imported.bring(log.path).total("new") == 0
    assert "remember this" not in str(words(imported.active(key)))


def test_a_sub_agents_chat_of_gemini_cli_names_its_session_and_its_order_stands_alone(
    imported: Imported, tmp_path: Path
) -> None:
    log = Log(tmp_path / "chats" / "g1" / "s1.jsonl")
    log.add({"sessionId": "s1", "projectHash": "h", "kind": "subagent"})
    loaded = "\n<loaded_context>\nUse metric units.\n</loaded_context>"
    log.add({"id": "m1", "type": "user", "content": [{"text": loaded}, {"text": "sound the harbour"}]})
    log.add({"id": "m2", "type": "gemini", "content": "Nine fathoms."})
    (report,) = imported.bring_all(log.path)
    assert (report.conversations[0].kind, report.conversations[0].parent) == (
        "sub-agent",
        "agent:gemini-cli:g1",
    )
    assert imported.context("agent:gemini-cli:s1") == ["sound the harbour", "Nine fathoms."]


def test_a_turn_of_gemini_cli_that_is_taken_back_twice_stays_taken_back(
    imported: Imported, tmp_path: Path
) -> None:
    log = Log(tmp_path / "session-1.jsonl")
    log.add({"sessionId": "g1", "projectHash": "h"})
    log.add({"id": "m1", "type": "user", "content": "map the harbour"})
    sink = {"id": "m2", "type": "user", "content": "sink the ships"}
    log.add(sink)
    log.add({"id": "m3", "type": "gemini", "content": "Sunk."})
    log.add({"$rewindTo": "m2"})
    log.add(sink)
    log.add({"$rewindTo": "m2"})
    imported.bring_all(log.path)
    assert imported.context("agent:gemini-cli:g1") == ["map the harbour"]
    assert imported.archived("agent:gemini-cli:g1") == [["sink the ships", "Sunk."]]


def test_a_chat_of_gemini_cli_that_grows_ends_as_the_whole_one(imported: Imported, tmp_path: Path) -> None:
    lines = gemini(tmp_path / "whole" / "session-1.jsonl").path.read_bytes().splitlines(keepends=True)
    path = tmp_path / "session-1.jsonl"
    for count in range(2, len(lines) + 1):
        path.write_bytes(b"".join(lines[:count]))
        imported.bring(path)
    assert imported.context("agent:gemini-cli:g1") == [
        "map the harbour",
        "Looking.",
        "",
        "a map",
        "paint the ships",
    ]


@pytest.mark.parametrize("has_context", [False, True])
def test_a_compression_of_gemini_cli_is_a_summary_of_what_it_replaced(
    imported: Imported, tmp_path: Path, has_context: bool
) -> None:
    log = Log(tmp_path / "session-2.jsonl")
    log.add({"sessionId": "g2", "projectHash": "h"})
    told = [{"id": "c1", "type": "user", "content": [{"text": "<session_context>\nA day."}]}] * has_context
    for context in told:
        log.add({"$set": {"messages": [context]}})
    first = log.add({"id": "m1", "type": "user", "content": [{"text": LONG}]})
    log.add({"id": "m2", "type": "gemini", "content": LONG})
    kept = log.add({"id": "m3", "type": "user", "content": [{"text": "go on"}]})
    summary = {"id": "s1", "type": "user", "content": [{"text": "<state_snapshot>tides</state_snapshot>"}]}
    got = {"id": "s2", "type": "gemini", "content": [{"text": "Got it. Thanks for the additional context!"}]}
    log.add({"$set": {"messages": [*told, {**first, "content": "masked"}, kept]}})
    log.add({"$set": {"messages": [*told, summary, got, kept]}})
    log.add({"id": "m4", "type": "gemini", "content": "Done."})
    imported.bring_all(log.path)
    summary_id, *rest = imported.context("agent:gemini-cli:g2")
    assert summary_id.startswith("sum_")
    assert rest == ["go on", "Done."]
    assert words(imported.active("agent:gemini-cli:g2"))[0] == LONG.strip()


def test_what_gemini_cli_keeps_of_a_resumed_chat_is_stored_once_though_it_gets_new_ids(
    imported: Imported, tmp_path: Path
) -> None:
    """A start empties the list and fills it again; a compression names what it keeps anew, words or not."""
    log = Log(tmp_path / "session-4.jsonl")
    log.add({"sessionId": "g4", "projectHash": "h"})
    context = {"id": "c1", "type": "user", "content": [{"text": "<session_context>\nA day."}]}
    log.add({"$set": {"messages": [context]}})
    said = [(LONG, LONG), ("go on", "Done."), ("go on", "Done, too.")]
    told = [
        message
        for number, (asked, answered) in enumerate(said)
        for message in (
            {"id": f"u{number}", "type": "user", "content": [{"text": asked}]},
            {"id": f"g{number}", "type": "gemini", "content": answered},
        )
    ]
    for message in told:
        log.add(message)
    log.add({"$set": {"messages": [context]}})
    log.add({"$set": {"messages": [context, *told]}})
    summary = {"id": "s1", "type": "user", "content": [{"text": "<state_snapshot>tides</state_snapshot>"}]}
    kept = [{**message, "id": f"new-{message['id']}"} for message in told[4:]]
    log.add({"$set": {"messages": [context, summary, *kept]}})
    log.add({"$set": {"messages": [context]}})
    log.add({"$set": {"messages": [context, summary, *kept]}})
    log.add({"id": "u3", "type": "user", "content": [{"text": "and now?"}]})
    imported.bring_all(log.path)
    assert [text.strip() for text in words(imported.active("agent:gemini-cli:g4"))] == [
        *(text.strip() for pair in said for text in pair),
        "and now?",
    ]
    summary_id, *rest = imported.context("agent:gemini-cli:g4")
    assert summary_id.startswith("sum_")
    assert rest == ["go on", "Done, too.", "and now?"]
    rewound = Log(tmp_path / "session-5.jsonl")
    rewound.path.write_text(log.path.read_text().replace('"g4"', '"g5"'))
    rewound.add({"$rewindTo": "new-u2"})
    imported.bring_all(rewound.path)
    assert words(imported.active("agent:gemini-cli:g5"))[-1] == "Done."


def test_the_single_object_of_older_versions_of_gemini_cli(imported: Imported, tmp_path: Path) -> None:
    path = tmp_path / "session-old.json"
    messages = [
        {"id": "m1", "timestamp": "2025-09-01T00:00:00Z", "type": "user", "content": "hello"},
        {"id": "m2", "timestamp": "2025-09-01T00:00:01Z", "type": "gemini", "content": "Hello."},
    ]
    path.write_text(json.dumps({"sessionId": "g3", "projectHash": "h", "messages": messages}, indent=2))
    imported.bring_all(path)
    assert words(imported.active("agent:gemini-cli:g3")) == ["hello", "Hello."]


class QwenLog(Log):
    """A chat of Qwen Code."""

    last: str | None = None

    def record(self, kind: str, *parts: Any, **rest: Any) -> str:
        uuid = f"{self.path.stem}-{self.second}"
        message = {"role": "model" if kind == "assistant" else "user", "parts": list(parts)}
        about = {"sessionId": self.path.stem, "cwd": "/work", "version": "0.9.0"}
        talk = {} if kind == "system" else {"message": message}
        self.add({"uuid": uuid, "parentUuid": self.last, "type": kind, **about, **talk, **rest})
        self.last = uuid
        return uuid


def test_a_chat_of_qwen_code(imported: Imported, tmp_path: Path) -> None:
    log = QwenLog(tmp_path / "q1.jsonl")
    log.record("system", subtype="ui_telemetry", systemPayload={"uiEvent": {}})
    log.record("user", {"text": "map the harbour"})
    call = {"functionCall": {"name": "read_file", "args": {"path": "map"}}}
    log.record("assistant", {"text": "I look", "thought": True}, {"text": "Looking."}, call)
    here = log.record(
        "tool_result", {"functionResponse": {"name": "read_file", "response": {"output": "a map"}}}
    )
    log.record("user", {"text": "sink the ships"})
    log.last = here
    log.record("user", {"text": "paint the ships"})
    log.record("system", subtype="custom_title", systemPayload={"customTitle": "Harbour"})
    (report,) = imported.bring_all(log.path)
    key = "agent:qwen-code:q1"
    rows = shown(imported, key)
    assert [(role, text) for role, text, *_ in rows] == [
        ("user", "map the harbour"),
        ("assistant", "Looking."),
        ("user", ""),
        ("user", "paint the ships"),
    ]
    assert rows[1][2] == rows[2][3] != []
    assert imported.archived(key) == [["sink the ships"]]
    assert (report.format, report.conversations[0].title) == ("qwen-code", "Harbour")
    assert dict(report.dropped) == {"ui_telemetry": 1}


def test_a_compression_of_qwen_code_is_a_summary(imported: Imported, tmp_path: Path) -> None:
    log = QwenLog(tmp_path / "q2.jsonl")
    log.record("user", {"text": LONG})
    log.record("assistant", {"text": LONG})
    log.record("user", {"text": "kept"})
    history = [
        {"role": "user", "parts": [{"text": "The tide tables."}]},
        {"role": "model", "parts": [{"text": "Got it."}]},
        {"role": "user", "parts": [{"text": "kept"}]},
    ]
    log.record("system", subtype="chat_compression", systemPayload={"info": {}, "compressedHistory": history})
    log.record("assistant", {"text": "Done."})
    imported.bring_all(log.path)
    summary_id, *rest = imported.context("agent:qwen-code:q2")
    assert summary_id.startswith("sum_")
    assert rest == ["kept", "Done."]


SESSION: dict[str, Any] = {"id": "ses_1", "projectID": "p", "directory": "/work", "version": "1.18.33"}


def opencode_messages(prefix: str = "") -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """A session's messages and their parts: a call, an image, and an answer that is still being written."""
    tool = {
        "type": "tool",
        "tool": "read",
        "callID": f"{prefix}c1",
        "state": {"status": "completed", "input": {"path": "map"}, "output": "a map"},
    }
    image = {"type": "file", "mime": "image/png", "filename": "a.png", "url": f"data:image/png;base64,{DATA}"}
    return [
        (
            {"id": f"{prefix}msg_1", "role": "user", "time": {"created": 1_762_000_000_000}},
            [{"type": "text", "text": "map the harbour"}, image],
        ),
        (
            {
                "id": f"{prefix}msg_2",
                "role": "assistant",
                "time": {"created": 1_762_000_001_000, "completed": 1},
            },
            [
                {"type": "step-start"},
                {"type": "text", "text": "Looking."},
                tool,
                {"type": "step-finish"},
                {"type": "step-start"},
                {"type": "text", "text": "Mapped."},
            ],
        ),
        (
            {"id": f"{prefix}msg_3", "role": "assistant", "time": {"created": 1_762_000_002_000}},
            [{"type": "text", "text": "half an ans"}],
        ),
    ]


def opencode_database(path: Path, sessions: Iterable[tuple[Mapping[str, Any], Any]]) -> Path:
    with sqlite3.connect(path) as db:
        db.execute(
            "CREATE TABLE session (id, project_id, parent_id, directory, title, version, time_created, revert)"
        )
        db.execute("CREATE TABLE message (id, session_id, time_created, data)")
        db.execute("CREATE TABLE part (id, message_id, session_id, data)")
        for number, (session, messages) in enumerate(sessions):
            values = [
                session.get(key) for key in ("id", "projectID", "parentID", "directory", "title", "version")
            ]
            row = (*values, 1_762_000_000_000 + number, session.get("revert"))
            db.execute("INSERT INTO session VALUES (?,?,?,?,?,?,?,?)", row)
            for message, parts in messages:
                data = json.dumps({key: value for key, value in message.items() if key != "id"})
                created = message["time"]["created"]
                db.execute(
                    "INSERT INTO message VALUES (?,?,?,?)", (message["id"], session["id"], created, data)
                )
                for at, part in enumerate(parts):
                    row = (f"{message['id']}-prt_{at:03d}", message["id"], session["id"], json.dumps(part))
                    db.execute("INSERT INTO part VALUES (?,?,?,?)", row)
    db.close()
    return path


OPENCODE_TALK = [
    ("user", "map the harbour", [], []),
    ("assistant", "Looking.", ["c1"], []),
    ("tool", "a map", [], ["c1"]),
    ("assistant", "Mapped.", [], []),
]


def test_a_database_of_opencode(imported: Imported, tmp_path: Path) -> None:
    path = opencode_database(
        tmp_path / "opencode.db", [({**SESSION, "title": "Harbour"}, opencode_messages())]
    )
    (report,) = imported.bring_all(path)
    assert shown(imported, "agent:opencode:ses_1") == OPENCODE_TALK
    assert (report.conversations[0].title, report.total("images")) == ("Harbour", 1)
    assert imported.bring(path).total("new") == 0


def test_a_fork_of_opencode_holds_what_is_new(imported: Imported, tmp_path: Path) -> None:
    base, fork = opencode_messages()[:2], opencode_messages("f")[:2]
    time = {"created": 1_762_000_009_000}
    fork.append(
        ({"id": "fmsg_9", "role": "user", "time": time}, [{"type": "text", "text": "paint the ships"}])
    )
    sessions = [
        ({**SESSION, "title": "Harbour"}, base),
        ({**SESSION, "id": "ses_2", "title": "Harbour (fork #1)"}, fork),
    ]
    imported.bring_all(opencode_database(tmp_path / "opencode.db", sessions))
    assert shown(imported, "agent:opencode:ses_1") == OPENCODE_TALK
    assert words(imported.active("agent:opencode:ses_2")) == ["paint the ships"]


def test_what_opencode_reverted_is_a_branch_and_a_compaction_a_summary(
    imported: Imported, tmp_path: Path
) -> None:
    def at(second: int) -> dict[str, int]:
        return {"created": 1_762_000_000_000 + 1000 * second, "completed": 1}

    messages = [
        ({"id": "msg_1", "role": "user", "time": at(1)}, [{"type": "text", "text": LONG}]),
        ({"id": "msg_2", "role": "assistant", "time": at(2)}, [{"type": "text", "text": LONG}]),
        ({"id": "msg_3", "role": "user", "time": at(3)}, [{"type": "compaction", "auto": True}]),
        (
            {"id": "msg_4", "role": "assistant", "summary": True, "time": at(4)},
            [{"type": "text", "text": "The tide tables."}],
        ),
        ({"id": "msg_5", "role": "user", "time": at(5)}, [{"type": "text", "text": "go on"}]),
        ({"id": "msg_6", "role": "user", "time": at(6)}, [{"type": "text", "text": "sink it"}]),
    ]
    session = {**SESSION, "title": "t", "revert": json.dumps({"messageID": "msg_6"})}
    imported.bring_all(opencode_database(tmp_path / "opencode.db", [(session, messages)]))
    summary_id, *rest = imported.context("agent:opencode:ses_1")
    assert summary_id.startswith("sum_")
    assert rest == ["go on"]
    assert imported.archived("agent:opencode:ses_1") == [["sink it"]]


def test_the_files_of_older_versions_of_opencode_and_its_export(imported: Imported, tmp_path: Path) -> None:
    storage = tmp_path / "storage"
    info = {**SESSION, "title": "Harbour", "time": {"created": 1_762_000_000_000}}
    for message, parts in opencode_messages():
        for at, part in enumerate(parts):
            file = storage / "part" / message["id"] / f"prt_{at:03d}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(part))
        file = storage / "message" / "ses_1" / f"{message['id']}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(message))
    file = storage / "session" / "p" / "ses_1.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(info, indent=2))
    (report,) = imported.bring_all(tmp_path)
    assert shown(imported, "agent:opencode:ses_1") == OPENCODE_TALK
    export = tmp_path / "export.json"
    listed = [{"info": message, "parts": parts} for message, parts in opencode_messages()]
    export.write_text(json.dumps({"info": info, "messages": listed}))
    assert imported.bring(export).total("new") == 0
    assert report.format == "opencode"


def cursor_database(path: Path) -> Path:
    values: dict[str, Any] = {
        "composerData:k1": {
            "composerId": "k1",
            "name": "Harbour",
            "createdAt": 1_762_000_000_000,
            "fullConversationHeadersOnly": [{"bubbleId": name} for name in ("b1", "b2", "b3")],
        },
        "composerData:empty": {"composerId": "empty", "fullConversationHeadersOnly": []},
        "composerData:old": {
            "composerId": "old",
            "conversation": [
                {"type": 1, "bubbleId": "o1", "text": "hi"},
                {"type": 2, "bubbleId": "o2", "text": "Hi."},
            ],
        },
        "bubbleId:k1:b1": {"type": 1, "text": "map the harbour", "createdAt": "2026-11-02T00:00:00Z"},
        "bubbleId:k1:b2": {
            "type": 2,
            "text": "",
            "toolFormerData": {
                "toolCallId": "c1",
                "name": "read_file",
                "rawArgs": '{"path":"map"}',
                "result": "a map",
            },
        },
        "bubbleId:k1:b3": {"type": 2, "text": "Mapped.", "thinking": {"text": "I look"}},
        "other": {"x": 1},
    }
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE cursorDiskKV (key TEXT UNIQUE, value BLOB)")
        rows = [(key, json.dumps(value).encode()) for key, value in values.items()]
        db.executemany("INSERT INTO cursorDiskKV VALUES (?, ?)", rows)
    db.close()
    return path


def test_a_database_of_cursor(imported: Imported, tmp_path: Path) -> None:
    (report,) = imported.bring_all(cursor_database(tmp_path / "state.vscdb"))
    assert shown(imported, "agent:cursor:k1") == [
        ("user", "map the harbour", [], []),
        ("assistant", "", ["c1"], []),
        ("tool", "a map", [], ["c1"]),
        ("assistant", "Mapped.", [], []),
    ]
    assert words(imported.active("agent:cursor:old")) == ["hi", "Hi."]
    assert [one.title for one in report.conversations] == ["Harbour", ""]


def test_a_transcript_of_cursor(imported: Imported, tmp_path: Path) -> None:
    path = tmp_path / "agent-transcripts" / "t1.jsonl"
    path.parent.mkdir()
    blocks = [
        {"type": "text", "text": "Looking."},
        {"type": "tool_use", "name": "read", "input": {"path": "map"}},
    ]
    lines = [
        {
            "role": "user",
            "message": {"content": [{"type": "text", "text": "<user_query>\nmap it\n</user_query>"}]},
        },
        {"role": "assistant", "message": {"content": blocks}},
        {"role": "user", "message": {"content": [{"type": "tool_result", "content": "a map"}]}},
        {"type": "turn_ended"},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    imported.bring_all(path)
    rows = shown(imported, "agent:cursor:t1")
    assert [text for _, text, *_ in rows] == ["map it", "Looking.", ""]
    assert rows[1][2] == rows[2][3] != []
    assert len(asides(imported.active("agent:cursor:t1"))) == 2


def test_exports_of_librechat(imported: Imported, tmp_path: Path) -> None:
    call = {"id": "c1", "name": "search", "args": '{"q": "map"}', "output": "a map"}
    parts = [
        {"type": "think", "think": "I look"},
        {"type": "tool_call", "tool_call": call},
        {"type": "text", "text": "Mapped."},
    ]
    messages = [
        {
            "messageId": "a",
            "parentMessageId": "0000",
            "text": "map it",
            "isCreatedByUser": True,
            "sender": "User",
        },
        {
            "messageId": "b",
            "parentMessageId": "a",
            "content": parts,
            "isCreatedByUser": False,
            "sender": "GPT",
        },
        {"messageId": "c", "parentMessageId": "b", "text": "sink it", "isCreatedByUser": True},
        {"messageId": "d", "parentMessageId": "b", "text": "paint it", "isCreatedByUser": True},
    ]
    timed = [{**one, "createdAt": f"2026-11-02T00:00:0{at}Z"} for at, one in enumerate(messages)]
    head = {"conversationId": "L1", "endpoint": "openAI", "title": "Harbour", "exportAt": "now"}
    flat = tmp_path / "flat.json"
    flat.write_text(json.dumps({**head, "messages": timed}))
    (report,) = imported.bring_all(flat)
    key = "agent:librechat:L1"
    assert shown(imported, key) == [
        ("user", "map it", [], []),
        ("assistant", "", ["c1"], []),
        ("tool", "a map", [], ["c1"]),
        ("assistant", "Mapped.", [], []),
        ("user", "paint it", [], []),
    ]
    assert imported.archived(key) == [["sink it"]]
    assert report.conversations[0].title == "Harbour"
    nested = {**timed[0], "children": [{**timed[1], "children": [timed[2], timed[3]]}]}
    tree = tmp_path / "tree.json"
    tree.write_text(json.dumps({**head, "recursive": True, "messagesTree": [nested]}))
    assert imported.bring(tree).total("new") == 0


def test_a_zip_of_chatgpt_in_several_files_with_its_images(imported: Imported, tmp_path: Path) -> None:
    def conversation(name: str, *parts: Any) -> dict[str, Any]:
        message = {
            "author": {"role": "user"},
            "create_time": 1_762_000_000,
            "content": {"content_type": "multimodal_text", "parts": list(parts)},
        }
        mapping = {"r": {"parent": None, "message": None}, f"{name}1": {"parent": "r", "message": message}}
        return {"conversation_id": name, "title": name, "mapping": mapping, "current_node": f"{name}1"}

    pointer = {"content_type": "image_asset_pointer", "asset_pointer": "sediment://file_0001"}
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("conversations-000.json", json.dumps([conversation("one", "hello")]))
        archive.writestr("conversations-001.json", json.dumps([conversation("two", "look", pointer)]))
        archive.writestr("user.json", "{}")
        archive.writestr("message_feedback.json", "[]")
        archive.writestr("file_0001-sanitized.dat", PNG)
    (report,) = imported.bring_all(path)
    assert words(imported.active("agent:chatgpt:one")) == ["hello"]
    (row,) = [row for row in imported.active("agent:chatgpt:two") if not row.head.hidden]
    assert (
        imported.engine.library.whole(row)["content"][1]["image_url"]["url"]
        == f"data:image/png;base64,{DATA}"
    )
    assert report.total("images") == 1
    unpacked = tmp_path / "unpacked"
    with zipfile.ZipFile(path) as archive:
        archive.extractall(unpacked)
    assert [one.total("new") for one in imported.bring_all(unpacked)] == [0, 0]


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda folder: gemini(folder / "session.jsonl").path, "gemini-cli"),
        (lambda folder: cursor_database(folder / "state.vscdb"), "cursor"),
        (lambda folder: opencode_database(folder / "o.db", [(SESSION, opencode_messages())]), "opencode"),
    ],
)
def test_each_is_known_by_what_it_holds(tmp_path: Path, make: Callable[[Path], Path], name: str) -> None:
    found = format_of(make(tmp_path))
    assert found is not None
    assert found.name == name


def test_an_unknown_file_names_no_format(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"sessionId": "a", "words": "hello"}\n')
    with pytest.raises(InputError, match="no format that can be imported"):
        find_sources([str(path)])


def test_a_dry_run_counts_what_an_import_stores(imported: Imported, tmp_path: Path) -> None:
    path = gemini(tmp_path / "session.jsonl").path
    (source,), _ = find_sources([str(path)])
    told = counts(look_over(source, "", imported.engine))
    assert told == {"new": 8, "known": 0, "hidden": 1, "said": 7, "calls": 1, "results": 1, "images": 1}
    assert counts(imported.bring(path)) == told
    assert rebuild(imported.active("agent:gemini-cli:g1")[1])["content"][0]["text"] == "map the harbour"


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        (
            ".aider.chat.history.md",
            "# aider chat started at 2026-01-01\n\n#### hello\n",
            "Aider's history is Markdown",
        ),
        ("chat.json", '{"requests": [], "responderUsername": "GitHub Copilot"}', "Copilot in VS Code change"),
        ("0.json", '{"id": 0, "source": "user", "action": "message", "args": {}}', "OpenHands changed"),
    ],
)
def test_a_tool_without_a_stable_shape_is_refused_by_name(
    tmp_path: Path, name: str, text: str, why: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError, match=why):
        find_sources([str(path)])


def test_the_zip_of_claude_ai_with_branches_tools_and_attachments(imported: Imported, tmp_path: Path) -> None:
    def message(own: str, parent: str, sender: str, *content: dict[str, Any], **rest: Any) -> dict[str, Any]:
        told = {"uuid": own, "parent_message_uuid": parent, "sender": sender, "content": list(content)}
        return {**told, "created_at": "2026-11-02T00:00:00Z", **rest}

    def text(words: str) -> dict[str, Any]:
        return {"type": "text", "text": words}

    attachment = {"file_name": "map.txt", "extracted_content": "a map"}
    talk = [
        message("a", "0", "human", text("map it"), attachments=[attachment]),
        message(
            *("b", "a", "assistant"),
            {"type": "tool_use", "name": "web", "input": {"q": "map"}},
            {"type": "tool_result", "name": "web", "content": [text("found")]},
            text("Mapped."),
        ),
        message("c", "b", "human", text("sink it")),
        message("d", "b", "human", text("paint it")),
    ]
    path = tmp_path / "data-2026.zip"
    with zipfile.ZipFile(path, "w") as archive:
        value = {"uuid": "C1", "name": "Harbour", "chat_messages": talk}
        archive.writestr("conversations.json", json.dumps([value]))
        archive.writestr("users.json", "[]")
    (report,) = imported.bring_all(path)
    rows = shown(imported, "agent:claude-ai:C1")
    assert [(role, words) for role, words, *_ in rows] == [
        ("user", "map it [map.txt]\na map"),
        ("assistant", ""),
        ("tool", "found"),
        ("assistant", "Mapped."),
        ("user", "paint it"),
    ]
    assert imported.archived("agent:claude-ai:C1") == [["sink it"]]
    assert (report.format, report.conversations[0].title) == ("claude-ai", "Harbour")


def test_a_task_of_roo_code_is_named_by_its_folder(imported: Imported, tmp_path: Path) -> None:
    folder = tmp_path / "tasks" / "1762000000000"
    folder.mkdir(parents=True)
    details = {"type": "text", "text": "<environment_details>\nfiles\n</environment_details>"}
    asked = {
        "role": "user",
        "content": [{"type": "text", "text": "map it"}, details],
        "ts": 1_762_000_000_000,
    }
    (folder / "api_conversation_history.json").write_text(json.dumps([asked]))
    (folder / "ui_messages.json").write_text('[{"ts": 1, "type": "say", "say": "text"}]')
    (folder / "history_item.json").write_text('{"id": "x", "task": "map it", "workspace": "/work/app"}')
    imported.bring_all(tmp_path)
    assert words(imported.active("agent:cline:1762000000000")) == ["map it"]
    (row,) = imported.lane("agent:cline:1762000000000")
    assert (row.title, row.project) == ("map it", "/work/app")


def test_a_database_of_goose(imported: Imported, tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE sessions (id, description, working_dir, created_at)")
        db.execute(
            "CREATE TABLE messages (id, session_id, role, content_json, created_timestamp, metadata_json)"
        )
        db.execute("INSERT INTO sessions VALUES ('g1', 'Harbour', '/work', '2026-11-02 00:00:00')")
        for at, (role, said) in enumerate((("user", "map it"), ("assistant", "Mapped."))):
            content = json.dumps([{"type": "text", "text": said}])
            db.execute(
                "INSERT INTO messages VALUES (?, 'g1', ?, ?, ?, NULL)",
                (at, role, content, 1_762_000_000 + at),
            )
    db.close()
    imported.bring_all(path)
    assert words(imported.active("agent:goose:g1")) == ["map it", "Mapped."]
    assert imported.lane("agent:goose:g1")[0].title == "Harbour"
