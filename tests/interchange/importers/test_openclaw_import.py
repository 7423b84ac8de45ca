"""OpenClaw's transcripts: branches, compactions, senders, tools, the list of session keys."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from imported_store import Imported, asides, words

from lcm_plugin import Session
from lcm_plugin.messages.parts import rebuild

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
    result = rows["tool:e4"]
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
