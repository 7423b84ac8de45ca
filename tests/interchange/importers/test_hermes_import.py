"""Hermes' state.db and hermes-lcm's database."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from imported_store import Imported, asides, words
from peer_databases import HERMES, HERMES_LCM, LONG, Peer

from lcm_plugin import Session
from lcm_plugin.messages.parts import rebuild
from lcm_plugin.store.session_keys import hermes_key


def state_db(path: Path) -> Path:
    peer = Peer(path, HERMES)
    peer.add("sessions", id="s1", source="cli", started_at=1_767_225_600.0, ended_at=1_767_225_700.0,
             end_reason="compression", title="Sails")  # fmt: skip
    peer.add("sessions", id="s2", source="cli", parent_session_id="s1", started_at=1_767_225_700.0)
    peer.add("sessions", id="s3", source="subagent", parent_session_id="s2",
             started_at=1_767_225_800.0, model_config='{"_delegate_from": "s2"}')  # fmt: skip
    calls = json.dumps([{"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}])
    rows = [
        ("s1", "user", "which sails?", {}),
        (
            "s1",
            "assistant",
            None,
            {"tool_calls": calls, "reasoning": "look first", "finish_reason": "tool_calls"},
        ),
        ("s1", "tool", "main, jib", {"tool_call_id": "c1", "tool_name": "ls"}),
        ("s1", "assistant", "Main and jib.", {"active": 0, "compacted": 1}),
        ("s1", "user", "never mind", {"active": 0}),
        ("s1", "user", '\x00json:[{"type": "text", "text": "see"}]', {}),
        ("s1", "session_meta", "odd", {}),
        ("s2", "user", "and the spinnaker?", {}),
        ("s3", "user", "measure it", {}),
    ]
    for number, (session, role, content, more) in enumerate(rows):
        values = {
            "session_id": session,
            "role": role,
            "content": content,
            "timestamp": 1_767_225_600.5 + number,
        }
        peer.add("messages", **values, **more)
    return peer.done()


def test_a_compacted_session_and_its_successor_share_a_lane(imported: Imported, tmp_path: Path) -> None:
    imported.bring(state_db(tmp_path / "state.db"))
    key = hermes_key("", "cli", "s1")
    assert words(imported.active(key)) == ["and the spinnaker?"]
    first = next(lane for lane in imported.archived(key) if "which sails?" in lane)
    assert first == ["which sails?", "", "main, jib", "see"]


def test_our_hermes_host_goes_on_in_the_imported_lane(imported: Imported, tmp_path: Path) -> None:
    imported.bring(state_db(tmp_path / "state.db"))
    with imported.engine.store.read() as reader:
        assert reader.session_key_of("s2") == hermes_key("", "cli", "s1")


def test_what_was_compacted_or_taken_back_is_archived(imported: Imported, tmp_path: Path) -> None:
    imported.bring(state_db(tmp_path / "state.db"))
    lanes = imported.archived(hermes_key("", "cli", "s1"))
    assert ["Main and jib."] in lanes
    assert ["never mind"] in lanes


def test_tools_reasoning_times_and_unknown_roles_are_kept(imported: Imported, tmp_path: Path) -> None:
    report = imported.bring(state_db(tmp_path / "state.db"))
    rows = {str(row.head.host_id): row for row in imported.rows(report.conversations[0].conversation_id or 0)}
    made = rebuild(rows["assistant:2"])
    assert made["reasoning_content"] == "look first"
    assert rows["assistant:2"].head.calls == rows["tool:3"].head.answers == ("c1",)
    assert rows["tool:3"].parts[0].tool_name == "ls"
    assert rows["user:1"].head.created_at == 1_767_225_600_500
    assert rebuild(rows["user:6"])["content"] == [{"type": "text", "text": "see"}]
    assert asides(list(rows.values()))[-1][1]["record"]["role"] == "session_meta"


def test_a_sub_agents_session_names_its_parent(imported: Imported, tmp_path: Path) -> None:
    report = imported.bring(state_db(tmp_path / "state.db"))
    lane = next(lane for lane in report.conversations if lane.session == "s3")
    assert lane.kind == "sub-agent"
    assert lane.parent == hermes_key("", "cli", "s1")
    assert words(imported.active(hermes_key("", "subagent", "s3"))) == ["measure it"]


def test_a_later_successor_becomes_the_active_one(imported: Imported, tmp_path: Path) -> None:
    path = state_db(tmp_path / "state.db")
    imported.bring(path)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE sessions SET end_reason = 'compression' WHERE id = 's2'")
        db.execute(
            "INSERT INTO sessions (id, source, parent_session_id, started_at) VALUES ('s4', 'cli', 's2', 1767226000)"
        )
        db.execute(
            "INSERT INTO messages (session_id, role, content, timestamp) VALUES ('s4', 'user', 'go on', 1767226001)"
        )
    db.close()
    report = imported.bring(path)
    assert report.total("new") == 1
    key = hermes_key("", "cli", "s1")
    assert words(imported.active(key)) == ["go on"]
    assert ["and the spinnaker?"] in imported.archived(key)


def lcm_db(path: Path) -> Path:
    peer = Peer(path, HERMES_LCM)
    for number in range(1, 10):
        role = "user" if number % 2 else "assistant"
        peer.add("messages", session_id="h1", source="discord", role=role, content=f"{number}: {LONG}",
                 timestamp=1_767_225_600.0 + number)  # fmt: skip
    for depth, sources, kind, text in (
        (0, [1, 2, 3], "messages", "first notes"),
        (0, [4, 5, 6], "messages", "second notes"),
        (1, [1, 2], "nodes", "all notes"),
    ):
        peer.add("summary_nodes", session_id="h1", depth=depth, summary=text, source_ids=json.dumps(sources),
                 source_type=kind, created_at=1_767_225_700.0,
                 expand_hint="Expand for details about: the harbour")  # fmt: skip
    return peer.done()


def test_the_dag_of_hermes_lcm_stands(imported: Imported, tmp_path: Path) -> None:
    report = imported.bring(lcm_db(tmp_path / "lcm.db"))
    key = hermes_key("", "discord", "h1")
    root, *raw = imported.context(key)
    assert report.total("summaries") == 3
    assert [text.split(":")[0] for text in raw] == ["7", "8", "9"]
    summary = imported.engine.library.summary(root)
    assert (summary.depth, summary.message_count) == (1, 6)
    assert summary.content == "all notes\n\nExpand for details about: the harbour"
    assert imported.troubles() == []
    assert imported.bring(tmp_path / "lcm.db").total("new") == 0


def test_a_node_of_hermes_lcm_over_several_depths_is_to_be_written_again(
    imported: Imported, tmp_path: Path
) -> None:
    path = lcm_db(tmp_path / "lcm.db")
    with sqlite3.connect(path) as db:
        for depth, sources, kind, text in (
            (0, [7, 8], "messages", "third notes"),
            (1, [3, 4], "nodes", "mixed"),
        ):
            db.execute(
                "INSERT INTO summary_nodes (session_id, depth, summary, source_ids, source_type, created_at) "
                "VALUES ('h1', ?, ?, ?, ?, 1767225800.0)",
                (depth, text, json.dumps(sources), kind),
            )
    db.close()
    imported.bring(path)
    root, *raw = imported.context(hermes_key("", "discord", "h1"))
    assert [text.split(":")[0] for text in raw] == ["9"]
    summary = imported.engine.library.summary(root)
    assert (summary.content, summary.depth, summary.message_count, summary.fallback) == ("mixed", 2, 8, True)
    assert set(imported.troubles()) <= {"summary_fallback"}
    assert imported.bring(path).total("new") == 0


def test_a_node_whose_messages_are_gone_is_kept_as_a_record(imported: Imported, tmp_path: Path) -> None:
    path = lcm_db(tmp_path / "lcm.db")
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM messages WHERE store_id = 2")
    db.close()
    imported.bring(path)
    key = hermes_key("", "discord", "h1")
    kept = [
        block["record"]["summary"].split("\n")[0]
        for kind, block in asides(imported.active(key))
        if kind == "compaction"
    ]
    assert kept == ["first notes", "all notes"]
    assert imported.engine.messages(Session(key))
    assert imported.bring(path).total("new") == 0
