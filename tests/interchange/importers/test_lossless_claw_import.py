"""lossless-claw's databases: the DAG stands as it stood, and what cannot stand is kept and told."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from imported_store import Imported, asides, words
from peer_databases import CLAW, LONG, Peer, add_claw_message, add_claw_summary, claw_database

from lcm_plugin.messages.parts import rebuild
from lcm_plugin.sessions.library import Node

KEY = "agent:main:telegram:42"


def outline(imported: Imported) -> list[Node]:
    conversation = imported.engine.library.conversation(KEY)
    return imported.engine.library.outline(conversation.conversation_id)


def test_the_dag_and_the_context_stand_as_they_stood(imported: Imported, tmp_path: Path) -> None:
    report = imported.bring(claw_database(tmp_path / "claw.db"))
    head, root, *raw = outline(imported)
    assert report.total("summaries") == 3
    assert head.message is not None
    assert head.message.hidden
    assert root.summary is not None
    assert (root.summary.depth, root.summary.content) == (1, "The harbour office moved")
    assert root.summary.model == "gpt-x"
    assert [len(leaf.message_ids) for leaf in root.sources] == [3, 3]
    assert [node.message.seq for node in raw if node.message] == [8, 9]
    assert imported.troubles() == []


def test_every_message_is_reached_once_from_the_context(imported: Imported, tmp_path: Path) -> None:
    imported.bring(claw_database(tmp_path / "claw.db"))
    conversation = imported.engine.library.conversation(KEY)
    walked = [one.message for one in imported.engine.library.walk(conversation.conversation_id)]
    assert [message["content"][0]["text"].split(":")[0] for message in walked[1:]] == list("12345678")


def test_times_are_utc_and_ids_are_the_transcripts(imported: Imported, tmp_path: Path) -> None:
    imported.bring(claw_database(tmp_path / "claw.db"))
    first = imported.active(KEY)[1]
    assert first.head.host_id == "user:entry-1"
    assert first.head.created_at == 1_767_603_660_000


def test_tools_senders_and_reasoning_come_back_from_the_parts(imported: Imported, tmp_path: Path) -> None:
    peer = Peer(tmp_path / "claw.db", CLAW)
    peer.add("conversations", session_id="r", session_key=KEY, created_at="2026-01-05 09:00:00")
    add_claw_message(peer, 1, "user", "weigh it", openclaw_sender_metadata=json.dumps({"name": "Lena"}))
    calls = [
        {"type": "thinking", "thinking": "use the scale"},
        {"type": "toolCall", "id": "call_1", "name": "scale", "arguments": {"unit": "g"}},
        {"type": "toolCall", "id": "call_2", "name": "scale", "arguments": {"unit": "oz"}},
    ]
    add_claw_message(peer, 2, "assistant", "", calls)
    block = {"type": "toolResult", "toolCallId": "call_1", "toolName": "scale", "content": "812 g"}
    add_claw_message(peer, 3, "tool", "812 g", [block])
    add_claw_message(peer, 4, "tool", "28.6 oz", [{"type": "text", "text": "28.6 oz"}])
    told = {"originalRole": "toolResult", "toolCallId": "call_2", "toolName": "scale", "isError": False}
    raw = {"raw": {"type": "text", "text": "28.6 oz"}}
    peer.db.execute("UPDATE message_parts SET metadata = ? WHERE message_id = 4", (json.dumps(told | raw),))
    add_claw_message(peer, 5, "assistant", "Done.")
    reasoned = {"originalRole": "assistant", "modelId": "m", "topLevelReasoningContent": "both agree"}
    peer.db.execute("UPDATE message_parts SET metadata = ? WHERE message_id = 5", (json.dumps(reasoned),))
    peer.done()
    imported.bring(tmp_path / "claw.db")
    _, user, made, first, second, last = imported.active(KEY)
    assert user.head.sender == "Lena"
    assert made.head.calls == ("call_1", "call_2")
    assert (*first.head.answers, *second.head.answers) == made.head.calls
    assert rebuild(made)["content"][1]["input"] == {"unit": "g"}
    assert rebuild(first)["content"] == "812 g"
    assert rebuild(second)["content"] == [{"type": "text", "text": "28.6 oz"}]
    assert rebuild(last) == {"role": "assistant", "content": "Done.", "reasoning_content": "both agree"}
    assert json.loads(str(last.parts[-1].metadata))["modelId"] == "m"


def test_summaries_that_cannot_stand_are_kept_as_records(imported: Imported, tmp_path: Path) -> None:
    claw_database(tmp_path / "claw.db")
    with sqlite3.connect(tmp_path / "claw.db") as db:
        # One more summary over a message that a leaf has already, one without sources, one over mixed depths.
        for summary_id, kind in (("sum_d", "leaf"), ("sum_e", "leaf"), ("sum_f", "condensed")):
            db.execute(
                "INSERT INTO summaries (summary_id, conversation_id, kind, content, created_at) "
                "VALUES (?, 1, ?, ?, '2026-01-05 11:00:00')",
                (summary_id, kind, f"odd {summary_id}"),
            )
        db.execute("INSERT INTO summary_messages VALUES ('sum_d', 3, 0), ('sum_d', 7, 1)")
        db.execute(
            "INSERT INTO summary_parents VALUES ('sum_f', 'sum_cccccccccccccccc', 0), ('sum_f', 'sum_e', 1)"
        )
    db.close()
    report = imported.bring(tmp_path / "claw.db")
    kept = {
        block["record"]["source_id"]: block["record"]["why"]
        for kind, block in asides(imported.active(KEY))
        if kind == "compaction"
    }
    assert set(kept) == {"sum_d", "sum_e", "sum_f"}
    assert "under another summary" in kept["sum_d"]
    assert "not named" in kept["sum_e"]
    assert "are gone" in kept["sum_f"]
    assert any("sum_d" in note for note in report.conversations[0].notes)
    assert imported.troubles() == []


def test_a_summary_over_several_depths_keeps_its_lineage_and_is_to_be_written_again(
    imported: Imported, tmp_path: Path
) -> None:
    claw_database(tmp_path / "claw.db", messages=10)
    with sqlite3.connect(tmp_path / "claw.db") as db:
        for summary_id, kind in (("sum_leaf", "leaf"), ("sum_mixed", "condensed")):
            db.execute(
                "INSERT INTO summaries (summary_id, conversation_id, kind, content, created_at) "
                "VALUES (?, 1, ?, ?, '2026-01-05 11:00:00')",
                (summary_id, kind, f"Notes of {summary_id}"),
            )
        db.execute("INSERT INTO summary_messages VALUES ('sum_leaf', 7, 0), ('sum_leaf', 8, 1)")
        db.execute(
            "INSERT INTO summary_parents VALUES ('sum_mixed', 'sum_cccccccccccccccc', 0), ('sum_mixed', 'sum_leaf', 1)"
        )
        db.execute("DELETE FROM context_items")
    db.close()
    imported.bring(tmp_path / "claw.db")
    top, *raw = imported.context(KEY)
    assert len(raw) == 2
    with imported.engine.store.read() as reader:
        summary = reader.summaries([top])[top]
        below = reader.summaries(reader.source_summaries(top))
    assert (summary.depth, summary.content, summary.fallback) == (2, "Notes of sum_mixed", True)
    assert summary.message_count == 8
    assert sorted((one.depth, one.content) for one in below.values()) == [
        (1, "Notes of sum_leaf"),
        (1, "The harbour office moved"),
    ]
    assert set(imported.troubles()) <= {"summary_fallback"}
    assert imported.bring(tmp_path / "claw.db").total("new") == 0


def test_a_summary_that_is_not_smaller_stands_and_is_told(imported: Imported, tmp_path: Path) -> None:
    peer = Peer(tmp_path / "claw.db", CLAW)
    peer.add("conversations", session_id="r", session_key=KEY, created_at="2026-01-05 09:00:00")
    add_claw_message(peer, 1, "user", "short")
    add_claw_summary(peer, "sum_x", "leaf", LONG)
    peer.add("summary_messages", summary_id="sum_x", message_id=1, ordinal=0)
    peer.done()
    report = imported.bring(tmp_path / "claw.db")
    assert any("not smaller" in note for note in report.conversations[0].notes)
    assert imported.troubles() == ["summary_oversize"]


def test_a_text_that_a_failed_model_left_is_marked_for_rewriting(imported: Imported, tmp_path: Path) -> None:
    claw_database(tmp_path / "claw.db")
    with sqlite3.connect(tmp_path / "claw.db") as db:
        db.execute(
            "UPDATE summaries SET content = 'cut text [LCM fallback summary; truncated for context management]' "
            "WHERE summary_id LIKE 'sum_a%'"
        )
    db.close()
    imported.bring(tmp_path / "claw.db")
    assert imported.troubles() == ["summary_fallback"]


def test_what_the_source_pruned_stays_out_of_the_context(imported: Imported, tmp_path: Path) -> None:
    claw_database(tmp_path / "claw.db")
    with sqlite3.connect(tmp_path / "claw.db") as db:
        db.execute("DELETE FROM context_items WHERE summary_id IS NOT NULL OR message_id = 7")
    db.close()
    imported.bring(tmp_path / "claw.db")
    (shown,) = imported.context(KEY)
    assert shown.startswith("8:")
    assert len(words(imported.active(KEY))) == 8


def test_new_messages_and_summaries_of_a_grown_database_join(imported: Imported, tmp_path: Path) -> None:
    path = claw_database(tmp_path / "claw.db", messages=6)
    imported.bring(path)
    again = imported.bring(path)
    assert (again.total("new"), again.total("summaries")) == (0, 0)
    peer = Peer(path, "")
    for number in (7, 8, 9):
        add_claw_message(peer, number, "user", f"{number}: {LONG}")
    add_claw_summary(peer, "sum_9", "leaf", "later notes")
    for ordinal, message in enumerate((7, 8)):
        peer.add("summary_messages", summary_id="sum_9", message_id=message, ordinal=ordinal)
    peer.done()
    grown = imported.bring(path)
    assert (grown.total("new"), grown.total("summaries")) == (3, 1)
    root, leaf, last = imported.context(KEY)
    assert root.startswith("sum_")
    assert leaf.startswith("sum_")
    assert last.startswith("9:")


def test_files_beside_the_database_come_along_and_others_do_not(imported: Imported, tmp_path: Path) -> None:
    home = tmp_path / "openclaw"
    (home / "lcm-files").mkdir(parents=True)
    inside, outside = home / "lcm-files" / "log.txt", tmp_path / "secret.txt"
    inside.write_text("boot ok\n" * 50)
    outside.write_text("not yours")
    peer = Peer(home / "lcm.db", CLAW)
    peer.add("conversations", session_id="r", session_key=KEY, created_at="2026-01-05 09:00:00")
    for number, (file_id, path) in enumerate(
        (("file_00000000000000aa", inside), ("file_00000000000000bb", outside)), 1
    ):
        peer.add(
            "large_files",
            file_id=file_id,
            conversation_id=1,
            file_name=path.name,
            mime_type="text/plain",
            storage_uri=str(path),
        )
        add_claw_message(
            peer, number, "user", f"[LCM File: {file_id} | {path.name} | text/plain | 400 bytes]"
        )
    peer.done()
    imported.bring(home / "lcm.db")
    _, with_file, without = imported.active(KEY)
    part = next(part for part in with_file.parts if part.file_id)
    with imported.engine.store.read() as reader:
        assert imported.engine.payloads.read_file(reader, str(part.file_id)) == inside.read_bytes()
    assert not any(part.file_id for part in without.parts)
    assert json.loads(str(without.parts[-1].metadata))["missing_files"] == ["file_00000000000000bb"]
