"""Claude Code's transcripts: branches, parallel calls, sub-agents, compactions, unknown records."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from imported_store import Imported, asides, words

from lcm_plugin import Session
from lcm_plugin.messages.parts import rebuild

KEY = "agent:claude-code:claude-code"
FixtureFile = Callable[[str], Path]


def test_the_live_branch_is_the_conversation(imported: Imported, fixture_file: FixtureFile) -> None:
    imported.bring(fixture_file("claude-code.jsonl"))
    spoken = [text for text in words(imported.active(KEY)) if text]
    assert spoken[0].startswith("Why does the tokenizer drop tokens?")
    assert spoken[-2:] == ["Go on with the fix", "Fixed in lexer.py, line 12."]
    assert "Rewrite everything in Rust" not in spoken


def test_the_abandoned_branch_is_archived_and_found(imported: Imported, fixture_file: FixtureFile) -> None:
    imported.bring(fixture_file("claude-code.jsonl"))
    assert imported.archived(KEY) == [["Rewrite everything in Rust", "That would take a while."]]
    (hit,) = imported.engine.call_tool(Session(KEY), "lcm_grep", {"pattern": "Rust"})["hits"]
    with imported.engine.store.read() as reader:
        assert reader.messages_by_id([int(hit["id"][4:])])


def test_results_of_calls_made_at_once_all_belong_to_the_live_branch(
    imported: Imported, fixture_file: FixtureFile
) -> None:
    imported.bring(fixture_file("claude-code.jsonl"))
    answers = [answer for row in imported.active(KEY) for answer in row.head.answers]
    assert answers == ["toolu_1", "toolu_2", "toolu_3"]


def test_original_times_and_envelopes_are_kept(imported: Imported, fixture_file: FixtureFile) -> None:
    imported.bring(fixture_file("claude-code.jsonl"))
    first = next(row for row in imported.active(KEY) if row.head.role == "user")
    assert first.head.created_at == 1_772_359_200_000
    assert first.head.host_id == "user:u1"
    about = json.loads(str(first.parts[-1].metadata))
    assert about["gitBranch"] == "main"
    assert about["cwd"] == "/work/parser"
    result = next(row for row in imported.active(KEY) if row.head.host_id == "user:r1")
    patch = next(part for part in result.parts if part.type == "patch")
    assert json.loads(str(patch.metadata))["toolUseResult"]["originalFile"] == "def lex(line): ..."


def test_messages_hold_nothing_but_what_models_take(imported: Imported, fixture_file: FixtureFile) -> None:
    imported.bring(fixture_file("claude-code.jsonl"))
    for row in imported.active(KEY):
        if not row.head.hidden:
            assert set(rebuild(row)) == {"role", "content"}


def test_a_compaction_is_a_leaf_over_what_it_replaced(imported: Imported, fixture_file: FixtureFile) -> None:
    report = imported.bring(fixture_file("claude-code.jsonl"))
    summary_id, *rest = imported.context(KEY)
    assert report.total("summaries") == 1
    assert rest == ["Go on with the fix", "Fixed in lexer.py, line 12."]
    with imported.engine.store.read() as reader:
        summary = reader.summaries([summary_id])[summary_id]
        covered = reader.messages_by_id(reader.source_messages(summary_id))
    assert "callers are parse and repl" in summary.content
    assert summary.level == "normal"
    assert {"user:u1", "user:r1", "user:r2", "user:r3"} <= {row.head.host_id for row in covered.values()}


def test_a_sub_agent_is_a_session_that_names_its_parent(
    imported: Imported, fixture_file: FixtureFile
) -> None:
    imported.bring(fixture_file("claude-code.jsonl"))
    rows = imported.active(f"{KEY}:sub:a9f3")
    assert words(rows) == ["Find callers of lex", "Two callers: parse and repl."]
    kind, head = asides(rows)[0]
    assert kind == "subtask"
    assert head["record"]["parent_session_key"] == KEY


def test_an_image_moves_to_a_file_and_comes_back(imported: Imported, fixture_file: FixtureFile) -> None:
    imported.bring(fixture_file("claude-code.jsonl"))
    row = next(row for row in imported.active(KEY) if row.head.host_id == "user:u2")
    assert any(part.type == "file" and part.file_id for part in row.parts)
    source = json.loads(fixture_file("claude-code.jsonl").read_text().splitlines()[11])
    assert imported.engine.library.whole(row)["content"] == source["message"]["content"]


def test_unknown_records_are_kept_as_typed_parts(imported: Imported, fixture_file: FixtureFile) -> None:
    imported.bring(fixture_file("claude-code.jsonl"))
    kept = {
        block["record"].get("type"): kind for kind, block in asides(imported.active(KEY)) if "record" in block
    }
    assert kept["future-kind"] == "agent"
    assert kept["file-history-snapshot"] == "snapshot"
    assert kept["summary"] == "agent"
    assert kept["system"] == "compaction"


def line(uuid: str, parent: str | None, text: str, second: int) -> str:
    at = f"2026-03-01T10:00:{second:02d}.000Z"
    message = {"role": "user", "content": text}
    record = {"type": "user", "uuid": uuid, "parentUuid": parent, "sessionId": "x", "timestamp": at}
    return json.dumps({**record, "message": message}) + "\n"


def test_a_rewind_after_an_import_takes_the_branch_out_of_the_context(
    imported: Imported, tmp_path: Path
) -> None:
    path, key = tmp_path / "x.jsonl", "agent:claude-code:x"
    path.write_text(line("a", None, "one", 1) + line("b", "a", "two", 2))
    imported.bring(path)
    assert imported.context(key) == ["one", "two"]
    with path.open("a") as file:
        file.write(line("c", "a", "another two", 3))
    report = imported.bring(path)
    assert imported.context(key) == ["one", "another two"]
    assert words(imported.active(key)) == ["one", "two", "another two"]
    assert report.total("new") == 1


def test_going_back_to_a_branch_brings_it_back(imported: Imported, tmp_path: Path) -> None:
    path, key = tmp_path / "x.jsonl", "agent:claude-code:x"
    path.write_text(line("a", None, "one", 1) + line("b", "a", "two", 2))
    imported.bring(path)
    with path.open("a") as file:
        file.write(line("c", "a", "another two", 3))
    imported.bring(path)
    with path.open("a") as file:
        file.write(line("d", "b", "three", 4))
    imported.bring(path)
    assert imported.context(key) == ["one", "two", "three"]
    before = imported.lane(key)
    imported.bring(path)
    assert imported.lane(key) == before


def test_what_was_left_is_taken_back_until_it_is_live_again(imported: Imported, tmp_path: Path) -> None:
    path, session = tmp_path / "x.jsonl", Session("agent:claude-code:x")
    path.write_text(line("a", None, "one", 1) + line("b", "a", "The code is 5.", 2))
    imported.bring(path)
    for record, gone in ((line("c", "a", "another two", 3), True), (line("d", "b", "three", 4), False)):
        with path.open("a") as file:
            file.write(record)
        imported.bring(path)
        found = imported.engine.call_tool(session, "lcm_grep", {"pattern": "code is 5"})
        [hit] = [hit for hit in found["hits"] if "5" in hit["snippet"]]
        assert bool(hit.get("taken_back")) is gone


def test_what_a_person_took_back_stays_so(imported: Imported, tmp_path: Path) -> None:
    path, key = tmp_path / "x.jsonl", "agent:claude-code:x"
    path.write_text(line("a", None, "one", 1) + line("b", "a", "two", 2) + line("c", "b", "three", 3))
    imported.bring(path)
    [row] = [one.head for one in imported.active(key) if words([one]) == ["two"]]
    imported.engine.record.withdraw(Session(key), [row.message_id])
    for record in (line("d", "b", "another three", 4), line("e", "c", "four", 5)):
        with path.open("a") as file:
            file.write(record)
        imported.bring(path)
    assert imported.context(key) == ["one", "three", "four"]


def test_messages_that_a_compaction_kept_and_wrote_again_stay_on_the_live_branch(
    imported: Imported, tmp_path: Path
) -> None:
    path, key = tmp_path / "x.jsonl", "agent:claude-code:x"
    long = "the tide tables of the harbour " * 30
    boundary = json.loads(line("mark", None, "", 5)) | {
        "type": "system",
        "subtype": "compact_boundary",
        "logicalParentUuid": "d",
        "compactMetadata": {"preservedSegment": {"headUuid": "c", "tailUuid": "d"}},
    }
    del boundary["message"]
    summary = json.loads(line("sum", "mark", "The tide tables.", 6)) | {"isCompactSummary": True}
    path.write_text(
        line("a", None, long, 1)
        + line("b", "a", long, 2)
        + line("c", "b", "kept", 3)
        + json.dumps(boundary)
        + "\n"
        + json.dumps(summary)
        + "\n"
        + line("d", "sum", "kept too", 4)
        + line("e", "d", "go on", 7)
    )
    imported.bring(path)
    summary_id, *rest = imported.context(key)
    assert summary_id.startswith("sum_")
    assert rest == ["kept", "kept too", "go on"]
    assert imported.archived(key) == []


def test_a_sub_agents_own_file_joins_its_session(imported: Imported, tmp_path: Path) -> None:
    record = {
        "type": "user",
        "uuid": "s1",
        "parentUuid": None,
        "sessionId": "main-session",
        "isSidechain": True,
        "agentId": "7f",
        "timestamp": "2026-03-01T10:00:00Z",
        "message": {"role": "user", "content": "look"},
    }
    path = tmp_path / "agent-7f.jsonl"
    path.write_text(json.dumps(record) + "\n")
    report = imported.bring(path)
    assert [lane.key for lane in report.conversations] == ["agent:claude-code:main-session:sub:7f"]
    assert report.conversations[0].parent == "agent:claude-code:main-session"


def test_a_record_whose_parent_is_lost_goes_on_from_the_one_before(
    imported: Imported, tmp_path: Path
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(line("a", None, "one", 1) + line("b", "a", "two", 2) + line("c", "gone", "three", 3))
    imported.bring(path)
    assert imported.context("agent:claude-code:x") == ["one", "two", "three"]
    assert imported.archived("agent:claude-code:x") == []


def test_a_file_without_a_tree_is_one_line(imported: Imported, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("".join(line(name, None, f"say {name}", n) for n, name in enumerate("abcd")))
    imported.bring(path)
    assert imported.context("agent:claude-code:x") == ["say a", "say b", "say c", "say d"]


def test_a_line_that_comes_twice_is_counted_and_one_that_differs_is_kept(
    imported: Imported, tmp_path: Path
) -> None:
    path = tmp_path / "x.jsonl"
    first = line("a", None, "one", 1)
    path.write_text(first + first + line("a", None, "not one", 2) + line("b", "a", "two", 3))
    report = imported.bring(path)
    assert dict(report.repeats) == {"line seen before": 1}
    assert imported.context("agent:claude-code:x") == ["one", "two"]
    kept = [block["record"]["message"]["content"] for _, block in asides(imported.active("agent:claude-code:x"))[1:]
            if "message" in block.get("record", {})]  # fmt: skip
    assert kept == ["not one"]


def test_an_old_compaction_without_a_boundary_follows_what_it_summarises(
    imported: Imported, tmp_path: Path
) -> None:
    path = tmp_path / "x.jsonl"
    long = "the tide tables of the harbour " * 30
    summary = json.loads(line("s", None, "The tide tables.", 3)) | {"isCompactSummary": True}
    path.write_text(
        line("a", None, long, 1)
        + line("b", "a", long, 2)
        + json.dumps(summary)
        + "\n"
        + line("c", "s", "go on", 4)
    )
    imported.bring(path)
    summary_id, rest = imported.context("agent:claude-code:x")
    assert summary_id.startswith("sum_")
    assert rest == "go on"
