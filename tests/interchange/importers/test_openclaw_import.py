"""OpenClaw's transcripts: branches, compactions, senders, tools, the list of session keys."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from imported_store import Imported, asides, words

from lcm_plugin import Session
from lcm_plugin.hosts.openclaw.methods import OpenclawMethods
from lcm_plugin.interchange.importers.sources import openclaw
from lcm_plugin.messages.parts import rebuild
from lcm_plugin.plugin import LcmPlugin

KEY = "agent:openclaw:b7300bff"
FixtureFile = Callable[[str], Path]


def test_the_compaction_covers_all_before_the_first_kept_entry(
    imported: Imported, fixture_file: FixtureFile
) -> None:
    imported.bring(fixture_file("openclaw.jsonl"))
    summary_id, *rest = imported.context(KEY)
    with imported.engine.store.read() as reader:
        assert reader.summaries([summary_id])[summary_id].content == "The invoice goes out on Mondays."
    assert rest == [
        "And who signs? See the scan.",
        "Lena is on holiday from May",
        "Lena signs it.",
        "$ date\nThu",
    ]


def test_branches_senders_tools_and_times_are_kept(imported: Imported, fixture_file: FixtureFile) -> None:
    imported.bring(fixture_file("openclaw.jsonl"))
    assert imported.archived(KEY) == [["Cancel it", "Cancelled."]]
    rows = {str(row.head.host_id): row for row in imported.active(KEY)}
    assert rows["user:e2"].head.sender == "Lena"
    assert rows["user:e2"].head.created_at == 1_775_116_801_000
    assert rows["assistant:e3"].head.calls == ("call_1",)
    result = rows["tool:1775116804000/call1"]
    assert result.head.answers == ("call_1",)
    assert result.parts[0].tool_name == "memory_search"
    blocks = rebuild(rows["assistant:e3"])["content"]
    assert blocks[0] == {"type": "thinking", "thinking": "Check the notes.", "signature": "abc"}
    assert blocks[1]["input"] == {"query": "invoice"}


def test_records_that_are_no_messages_are_kept_aside(imported: Imported, fixture_file: FixtureFile) -> None:
    imported.bring(fixture_file("openclaw.jsonl"))
    kept = {block.get("record", {}).get("type") for _, block in asides(imported.active(KEY))}
    assert {"model_change", "custom", "unheard_of"} <= kept


def test_the_list_of_sessions_gives_the_key(
    imported: Imported, fixture_file: FixtureFile, tmp_path: Path
) -> None:
    path = tmp_path / "b7300bff.jsonl"
    path.write_bytes(fixture_file("openclaw.jsonl").read_bytes())
    known = {"agent:main:telegram:42": {"sessionId": "b7300bff"}}
    (tmp_path / "sessions.json").write_text(json.dumps(known))
    imported.bring(path)
    assert imported.engine.messages(Session("agent:main:telegram:42"))


def test_first_versions_without_ids_form_one_line(imported: Imported, tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    lines = [
        {"type": "session", "id": "old", "timestamp": "2025-01-01T00:00:00Z"},
        {
            "type": "message",
            "message": {"role": "user", "content": "hi"},
            "timestamp": "2025-01-01T00:00:01Z",
        },
        {"type": "message", "message": {"role": "assistant", "content": "hello"}},
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    imported.bring(path)
    rows = [row for row in imported.active("agent:openclaw:old") if not row.head.hidden]
    assert words(rows) == ["hi", "hello"]
    assert rows[1].head.created_at == rows[0].head.created_at == 1_735_689_601_000


def test_an_entry_whose_parent_is_lost_goes_on_from_the_one_before(
    imported: Imported, fixture_file: FixtureFile, tmp_path: Path
) -> None:
    lines = fixture_file("openclaw.jsonl").read_text().splitlines()
    path = tmp_path / "b7300bff.jsonl"
    path.write_text("\n".join(text for text in lines if '"id": "e5"' not in text))
    imported.bring(path)
    spoken = words(imported.active(KEY))
    assert spoken[0].startswith("When does the invoice go out?")
    assert spoken[-1] == "$ date\nThu"


def entry(name: str, parent: str | None, text: str, role: str = "user") -> dict[str, Any]:
    message = {"role": role, "content": [{"type": "text", "text": text}]}
    return {
        "type": "message",
        "id": name,
        "parentId": parent,
        "timestamp": "2026-09-01T00:00:00Z",
        "message": message,
    }


def write_database(
    path: Path,
    windows: list[tuple[str, str]],
    nodes: list[tuple[str | None, ...]],
    talks: dict[str, list[dict[str, Any]]],
) -> Path:
    """An agent's database: sessions with their keys, what each key stands for now and was forked from, and the events."""
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE session_windows (session_id, session_key, created_at)")
        db.execute(
            "CREATE TABLE session_nodes (session_key, current_session_id, fork_source_session_key, "
            "fork_source_session_id, fork_source_entry_id)"
        )
        db.execute("CREATE TABLE transcript_events (session_id, seq, event_json TEXT, event_zstd BLOB)")
        rows = [(name, key, at) for at, (name, key) in enumerate(windows)]
        db.executemany("INSERT INTO session_windows VALUES (?, ?, ?)", rows)
        db.executemany("INSERT INTO session_nodes VALUES (?, ?, ?, ?, ?)", nodes)
        for name, events in talks.items():
            header = {"type": "session", "version": 4, "id": name, "timestamp": "2026-09-01T00:00:00Z"}
            told = [(name, seq, json.dumps(event)) for seq, event in enumerate([header, *events])]
            db.executemany("INSERT INTO transcript_events VALUES (?, ?, ?, NULL)", told)
    db.close()
    return path


def said_at(name: str, parent: str | None, text: str, at: int, role: str = "user") -> dict[str, Any]:
    """A message with what OpenClaw calls it, which its plugin stores it under too."""
    told = entry(name, parent, text, role)
    told["message"] |= {"timestamp": at, "idempotencyKey": f"run-{at}:{role}"}
    return told


ANNA = [said_at("a", None, "Call it Anna.", 1), said_at("b", "a", "Anna it is.", 2, "assistant")]
BERTA = [said_at("c", "b", "Call it Berta.", 3), said_at("d", "c", "Berta it is.", 4, "assistant")]
BACK = [{"type": "leaf", "id": "x", "parentId": "d", "targetId": "b"}]
CLARA = [said_at("e", "b", "Call it Clara.", 5), said_at("f", "e", "Clara it is.", 6, "assistant")]
RESET = [{"type": "reset", "id": "r", "parentId": "f", "reason": "reset"}]
NEW = [said_at("g", "r", "What is new?", 7), said_at("h", "g", "Nothing.", 8, "assistant")]
DORIS = [said_at("i", "b", "Call it Doris.", 9), said_at("j", "i", "Doris it is.", 10, "assistant")]
MAIN, FORK = "agent:main:main", "agent:main:dashboard:1"
OWN_COPY = "agent:main:internal-session-effects:run-1"


def rewound_and_reset(path: Path) -> Path:
    """A rewind writes the session anew, with all that was said; a reset goes on in it; a fork copies its beginning."""
    windows = [("s1", MAIN), ("f1", FORK), ("s2", MAIN), ("i1", OWN_COPY)]
    nodes = [
        (MAIN, "s2", None, None, None),
        (FORK, "f1", MAIN, "s1", "c"),
        (OWN_COPY, "i1", None, None, None),
    ]
    talks = {
        "s1": [*ANNA, *BERTA],
        "f1": [*ANNA, *DORIS],
        "s2": [*ANNA, *BERTA, *BACK, *CLARA, *RESET, *NEW],
        "i1": [*ANNA, *BERTA],
    }
    return write_database(path, windows, nodes, talks)


def texts(*parts: list[dict[str, Any]]) -> list[str]:
    return [one["message"]["content"][0]["text"] for part in parts for one in part]


def test_a_session_that_was_rewound_reset_and_forked_is_imported_once(
    imported: Imported, tmp_path: Path
) -> None:
    path = rewound_and_reset(tmp_path / "openclaw-agent.sqlite")
    (report,) = imported.bring_all(path)
    assert imported.context(MAIN) == texts(NEW)
    assert imported.archived(MAIN) == [texts(ANNA, CLARA), texts(BERTA)]
    assert words(imported.active(FORK)) == texts(DORIS)
    assert imported.lane(OWN_COPY) == []
    assert dict(report.repeats) == {"copy from before a rewind": 5, "copy that OpenClaw made for itself": 5}
    assert imported.bring(path).total("new") == 0


def test_what_was_imported_before_a_rewind_and_before_a_reset_is_gone_on_with(
    imported: Imported, tmp_path: Path
) -> None:
    path = tmp_path / "openclaw-agent.sqlite"
    node = [(MAIN, "s1", None, None, None)]
    imported.bring_all(write_database(path, [("s1", MAIN)], node, {"s1": [*ANNA, *BERTA]}))
    talks = {"s1": [*ANNA, *BERTA], "s2": [*ANNA, *BERTA, *BACK, *CLARA]}
    windows, rewound = [("s1", MAIN), ("s2", MAIN)], [(MAIN, "s2", None, None, None)]
    imported.bring_all(write_database(path, windows, rewound, talks))
    assert imported.context(MAIN) == texts(ANNA, CLARA)
    assert words(imported.active(MAIN)) == texts(ANNA, BERTA, CLARA)
    imported.bring_all(rewound_and_reset(path))
    assert imported.context(MAIN) == texts(NEW)
    assert imported.archived(MAIN) == [texts(ANNA, BERTA, CLARA)]
    assert imported.bring(path).total("new") == 0


@pytest.mark.parametrize("imported_first", [False, True])
def test_what_the_plugin_stored_of_a_rewound_and_reset_session_is_not_imported_again(
    imported: Imported, tmp_path: Path, imported_first: bool
) -> None:
    path = tmp_path / "openclaw-agent.sqlite"
    node = [(MAIN, "s1", None, None, None)]
    if imported_first:
        imported.bring_all(write_database(path, [("s1", MAIN)], node, {"s1": [*ANNA, *BERTA]}))
    live = LcmPlugin(imported.engine.config)
    host = OpenclawMethods(live).all()

    def turn(run: str, key: str, before: list[dict[str, Any]], new: list[dict[str, Any]]) -> None:
        session = {"key": key, "id": run}
        history = [one["message"] for one in before]
        host["openclaw.assemble"]({"session": session, "messages": history})
        messages = [one["message"] for one in new]
        host["openclaw.commit"]({"session": session, "key": new[0]["id"], "messages": messages})

    if not imported_first:
        turn("s1", MAIN, [], ANNA)
        turn("s1", MAIN, ANNA, BERTA)
    turn("f1", FORK, ANNA, DORIS)
    turn("s2", MAIN, ANNA, CLARA)
    turn("s2", MAIN, [], NEW)
    live.close()
    assert words(imported.active(MAIN)) == texts(NEW)
    (report,) = imported.bring_all(rewound_and_reset(path))
    assert report.total("messages") == 0
    assert imported.context(MAIN) == texts(NEW)
    assert imported.archived(MAIN) == [texts(ANNA, BERTA, CLARA)]
    assert words(imported.active(FORK)) == texts(ANNA, DORIS)
    assert imported.bring(path).total("new") == 0


def agent_database(path: Path) -> Path:
    """Two sessions of one key, a larger event compressed, and a fork."""
    header = {"type": "session", "version": 4, "timestamp": "2026-09-01T00:00:00Z", "cwd": "/work"}
    first = [
        {**header, "id": "s1"},
        entry("a", None, "map the harbour"),
        entry("b", "a", "Mapped.", "assistant"),
    ]
    second = [{**header, "id": "s2"}, entry("c", None, "mark the cranes")]
    fork = [{**header, "id": "s3"}, *first[1:], entry("d", "b", "mark the ships")]
    with sqlite3.connect(path) as db:
        db.execute(
            "CREATE TABLE session_windows (session_id, session_key, created_at, display_name, spawned_by)"
        )
        db.execute(
            "CREATE TABLE session_nodes (session_key, current_session_id, display_name, label, "
            "fork_source_session_key, fork_source_entry_id)"
        )
        db.execute(
            "CREATE TABLE transcript_events (session_id, seq, event_json TEXT, created_at, event_zstd BLOB)"
        )
        key, other = "agent:main:main", "agent:main:fork"
        db.execute(
            "INSERT INTO session_windows VALUES ('s1', ?, 1, NULL, NULL), ('s2', ?, 2, NULL, NULL)",
            (key, key),
        )
        db.execute("INSERT INTO session_windows VALUES ('s3', ?, 3, 'Ships', NULL)", (other,))
        db.execute("INSERT INTO session_nodes VALUES (?, 's2', 'Harbour', NULL, NULL, NULL)", (key,))
        db.execute("INSERT INTO session_nodes VALUES (?, 's3', NULL, NULL, ?, 'b')", (other, key))
        for name, events in (("s1", first), ("s2", second), ("s3", fork)):
            for seq, event in enumerate(events):
                text = json.dumps(event)
                packed = zstandard.compress(text.encode()) if seq == 1 else None
                row = (name, seq, None if packed else text, seq, packed)
                db.execute("INSERT INTO transcript_events VALUES (?, ?, ?, ?, ?)", row)
    db.close()
    return path


def test_an_agents_database_is_read_as_its_files_were(imported: Imported, tmp_path: Path) -> None:
    (report,) = imported.bring_all(agent_database(tmp_path / "openclaw-agent.sqlite"))
    assert imported.context("agent:main:main") == ["mark the cranes"]
    assert imported.archived("agent:main:main") == [["map the harbour", "Mapped."]]
    assert words(imported.active("agent:main:fork")) == ["mark the ships"]
    assert [one.kind for one in report.conversations] == ["session", "session", "fork"]
    assert imported.lane("agent:main:fork")[0].title == "Ships"
    assert imported.bring(tmp_path / "openclaw-agent.sqlite").total("new") == 0


@pytest.mark.parametrize("version", [1, 2, 3, 4])
@pytest.mark.parametrize("kept", ["marked", "unmarked"])
def test_what_a_compaction_kept_is_known_in_every_version(
    imported: Imported, tmp_path: Path, version: int, kept: str
) -> None:
    long = "the tide tables of the harbour " * 30
    marks = {"firstKeptEntryIndex": 3} if version == 1 else {"firstKeptEntryId": "e3"}
    compaction = {"type": "compaction", "summary": "Tides.", "tokensBefore": 900}
    lines = [
        {"type": "message", "message": {"role": "user", "content": long}},
        {"type": "message", "message": {"role": "assistant", "content": long}},
        {"type": "message", "message": {"role": "user", "content": "kept"}},
        {**compaction, **marks} if kept == "marked" else compaction,
        {"type": "message", "message": {"role": "assistant", "content": "Done."}},
    ]
    header: dict[str, Any] = {"type": "session", "id": "old", "timestamp": "2025-11-01T00:00:00Z"}
    if version > 1:
        header["version"] = version
        for number, line in enumerate(lines, 1):
            line |= {"id": f"e{number}", "parentId": f"e{number - 1}" if number > 1 else None}
    path = tmp_path / "old.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in (header, *lines)))
    imported.bring_all(path)
    summary_id, *rest = imported.context("agent:openclaw:old")
    assert summary_id.startswith("sum_")
    assert rest == (["kept", "Done."] if kept == "marked" else ["Done."])
    assert imported.bring(path).total("new") == 0


@pytest.mark.parametrize("role", ["hookMessage", "custom"])
def test_what_an_extension_adds_is_shown_as_it_was(imported: Imported, tmp_path: Path, role: str) -> None:
    lines = [
        {"type": "session", "id": "s", "version": 2 if role == "hookMessage" else 3},
        {**entry("a", None, "map the harbour")},
        {**entry("b", "a", "The tide is high.", role)},
    ]
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    imported.bring_all(path)
    assert imported.context("agent:openclaw:s") == ["map the harbour", "The tide is high."]


def test_a_fork_of_first_versions_holds_what_is_new(imported: Imported, tmp_path: Path) -> None:
    def write(name: str, *texts: str, **header: Any) -> None:
        lines = [{"type": "session", "id": name, "timestamp": "2025-11-01T00:00:00Z", **header}]
        for second, text in enumerate(texts):
            message = {"role": "user", "content": text}
            at = f"2025-11-01T00:00:{second:02d}Z"
            lines.append({"type": "message", "timestamp": at, "message": message})
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))

    write("zz", "map the harbour", "mark the cranes")
    write("aa", "map the harbour", "mark the ships", branchedFrom="/gone/zz.jsonl")
    imported.bring_all(tmp_path)
    assert words(imported.active("agent:openclaw:zz")) == ["map the harbour", "mark the cranes"]
    assert words(imported.active("agent:openclaw:aa")) == ["mark the ships"]


def test_a_fork_of_a_file_holds_what_is_new(imported: Imported, tmp_path: Path) -> None:
    def write(name: str, *lines: dict[str, Any], **header: Any) -> None:
        first = {"type": "session", "id": name, "timestamp": "2026-09-01T00:00:00Z", **header}
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in (first, *lines)))

    shared = (entry("a", None, "map the harbour"), entry("b", "a", "Mapped.", "assistant"))
    write("zz", *shared, entry("c", "b", "mark the cranes"))
    write("aa", *shared, entry("d", "b", "mark the ships"), parentSession="/gone/zz.jsonl")
    imported.bring_all(tmp_path)
    assert words(imported.active("agent:openclaw:zz")) == ["map the harbour", "Mapped.", "mark the cranes"]
    assert words(imported.active("agent:openclaw:aa")) == ["mark the ships"]


def written(path: Path, *records: dict[str, Any]) -> Path:
    """A session's file."""
    head = {"type": "session", "id": "s1"}
    path.write_text("\n".join(json.dumps(one) for one in (head, *records)) + "\n", encoding="utf-8")
    return path


def test_what_was_imported_under_the_records_ids_is_not_imported_again(
    imported: Imported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = entry("e1", None, "Who signs?")
    said["message"] |= {"timestamp": 1_775_116_804_000, "idempotencyKey": "run-1:user"}
    path = written(tmp_path / "s1.jsonl", said, entry("e2", "e1", "Lena signs.", "assistant"))
    with monkeypatch.context() as before:
        before.setattr(openclaw, "message_name", lambda message: "")
        assert imported.bring(path).total("messages") == 2
    assert imported.bring(path).total("messages") == 0


def test_a_result_that_was_written_anew_is_kept_beside_its_first_text(
    imported: Imported, tmp_path: Path
) -> None:
    def result(name: str, text: str) -> dict[str, Any]:
        about = {"role": "toolResult", "toolCallId": "c1", "toolName": "exec", "timestamp": 1_775_116_804_000}
        content = [{"type": "text", "text": text}]
        return {"type": "message", "id": name, "parentId": "e1", "message": {**about, "content": content}}

    whole, short = result("e2", "all of it, at length"), result("e3", "cut")
    imported.bring(written(tmp_path / "s1.jsonl", entry("e1", None, "Look."), whole, short))
    texts = str([*imported.archived("agent:openclaw:s1"), *imported.context("agent:openclaw:s1")])
    assert "all of it, at length" in texts
    assert "cut" in texts
