"""ChatGPT's export: the tree, tools without ids, images of the archive."""

from __future__ import annotations

import base64
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

from imported_store import Imported, asides, words

from lcm_plugin.messages.parts import rebuild

KEY = "agent:chatgpt:6957-bread"
FixtureFile = Callable[[str], Path]
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_the_shown_branch_is_live_and_every_other_is_archived(
    imported: Imported, fixture_file: FixtureFile
) -> None:
    report = imported.bring(fixture_file("conversations.json"))
    assert [text for text in words(imported.active(KEY)) if text] == [
        "[image asset pointer: file-service://file-Loaf1] Is this bread done?",
        "812 g",
        "It weighs 812 g and is done.",
        "How long may it stay?",
    ]
    assert sorted(imported.archived(KEY)) == [["Not yet."], ["Thanks, bye"]]
    assert report.conversations[0].title == "Bread"
    assert words(imported.active("agent:chatgpt:6957-tea")) == ["Green or black?"]


def test_a_call_of_a_tool_and_its_result_are_a_pair(imported: Imported, fixture_file: FixtureFile) -> None:
    imported.bring(fixture_file("conversations.json"))
    rows = {str(row.head.host_id): row for row in imported.active(KEY)}
    call = rebuild(rows["assistant:n3"])["tool_calls"][0]
    assert call == {
        "id": "n3",
        "type": "function",
        "function": {"name": "python", "arguments": "weigh(loaf)"},
    }
    assert rows["tool:n4"].head.answers == ("n3",)
    assert rows["tool:n4"].head.group_seq == rows["assistant:n3"].head.seq


def test_thoughts_and_unknown_contents_are_hidden_and_kept(
    imported: Imported, fixture_file: FixtureFile
) -> None:
    imported.bring(fixture_file("conversations.json"))
    rows = {str(row.head.host_id): row for row in imported.active(KEY)}
    assert rebuild(rows["assistant:n2b"])["reasoning_content"] == "Colour\nIt is brown."
    unknown = rebuild(rows["assistant:n7"])["content"][0]["content"]
    assert unknown == {"content_type": "brand_new", "blob": {"k": 1}}
    assert rows["assistant:n2b"].head.hidden
    assert rows["assistant:n7"].head.hidden
    assert asides(list(rows.values()))[0][0] == "agent"


def test_images_come_from_the_archive(imported: Imported, fixture_file: FixtureFile, tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(fixture_file("conversations.json"), "conversations.json")
        archive.writestr("file-Loaf1-loaf.png", PNG)
    imported.bring(path)
    row = next(row for row in imported.active(KEY) if row.head.host_id == "user:n1")
    part = next(part for part in row.parts if part.type == "file")
    with imported.engine.store.read() as reader:
        assert imported.engine.payloads.read_file(reader, str(part.file_id)) == PNG


def test_the_time_of_every_message_is_its_own(imported: Imported, fixture_file: FixtureFile) -> None:
    imported.bring(fixture_file("conversations.json"))
    times = [row.head.created_at for row in imported.active(KEY)]
    assert times == sorted(times)
    assert times[-1] == 1_767_225_608_000


def test_an_export_that_is_cut_short_keeps_what_came_before(
    imported: Imported, fixture_file: FixtureFile, tmp_path: Path
) -> None:
    whole = fixture_file("conversations.json").read_text()
    path = tmp_path / "conversations.json"
    path.write_text(whole[: whole.index('"6957-tea"')])
    report = imported.bring(path)
    assert report.broken_count == 1
    assert "item 2" in report.broken[0].reason
    assert [lane.key for lane in report.conversations if lane.kind == "session"] == [KEY]


def test_one_chat_saved_alone_is_recognised(
    imported: Imported, fixture_file: FixtureFile, tmp_path: Path
) -> None:
    chats = json.loads(fixture_file("conversations.json").read_text())
    path = tmp_path / "one.json"
    path.write_text(json.dumps(chats[:1]))
    assert imported.bring(path).format == "chatgpt"
