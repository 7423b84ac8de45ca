"""Removing and rewriting, on every store: nothing else changes, and every count stays right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from messages import assistant, call, result, user
from old_schema import take_back

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.maintenance.redaction.targets import MatchingTexts, NamedThings
from lcm_plugin.maintenance.selection import LaneKind, Selection
from lcm_plugin.store.protocol import Store
from lcm_plugin.store.sqlite.schema import SCHEMA_VERSION
from lcm_plugin.store.sqlite.store import SqliteStore

pytestmark = pytest.mark.both_stores

LANE = Session("agent:main:main", "run-1")
SECRET = "sk-Zq81xW77aaPQ"
ARCHIVED = Selection(older_than_ms=0, kinds=frozenset({LaneKind.ARCHIVED}))


@pytest.fixture
def engine(store: Store, tmp_path: Path) -> Engine:
    config = LcmConfig(
        database=str(tmp_path / "named.db"),
        large_files_dir=str(tmp_path / "payloads"),
        fresh_tail_count=2,
        leaf_chunk_tokens=300,
        leaf_min_fanout=2,
        large_file_token_threshold=1_000,
    )
    return Engine(config, store)


def talk(engine: Engine, turns: int = 8, secret_at: int = 3) -> None:
    for number in range(turns):
        said = f" my key is {SECRET}, keep it" if number == secret_at else ""
        engine.ingest(
            LANE,
            [
                user(f"question {number}{said} " + "what of this and that " * 5, name="anna"),
                assistant(f"answer {number} " + "so it goes with this and that " * 5),
            ],
        )
    engine.ingest(LANE, [call("c1", "run", f'{{"key": "{SECRET}"}}'), result("c1", f"used {SECRET}")])


def texts(engine: Engine) -> str:
    """Everything that can be read, of every conversation."""
    found: list[str] = []
    with engine.store.read() as reader:
        for conversation in reader.conversations():
            found += map(str, reader.messages(conversation.conversation_id, limit=500))
            found += [one.content for one in reader.list_summaries(conversation.conversation_id)]
            found += map(str, reader.files(conversation.conversation_id))
    return "\n".join(found)


def errors(engine: Engine) -> list[str]:
    return [finding.message for finding in engine.check().findings if finding.severity == "error"]


def sums(engine: Engine) -> list[tuple[str, int, int]]:
    """What each summary says of its sources beside what they really come to."""
    wrong = []
    with engine.store.read() as reader:
        for summary in reader.list_summaries(1):
            if summary.depth == 0:
                ids = reader.source_messages(summary.summary_id)
                total = sum(one.head.tokens for one in reader.messages_by_id(ids).values())
            else:
                below = reader.summaries(reader.source_summaries(summary.summary_id))
                total = sum(one.message_tokens for one in below.values())
            if total != summary.message_tokens:
                wrong.append((summary.summary_id, total, summary.message_tokens))
    return wrong


def test_pruning_deletes_a_conversation_and_nothing_of_the_others(engine: Engine) -> None:
    talk(engine)
    engine.compact(LANE, force=True)
    engine.reset_session(LANE)
    talk(engine)
    before = engine.messages(LANE)
    engine.retention.apply(engine.retention.plan(ARCHIVED), "a person")
    assert [row.conversation_id for row in engine.library.conversations()] == [2]
    assert engine.messages(LANE) == before
    assert errors(engine) == []
    assert engine.call_tool(LANE, "lcm_grep", {"pattern": "question"})["total"] == 8


def test_keeping_summaries_leaves_a_whole_database(engine: Engine) -> None:
    talk(engine)
    engine.compact(LANE, force=True)
    engine.reset_session(LANE)
    with engine.store.read() as reader:
        before = reader.list_summaries(1)
    engine.retention.apply(engine.retention.plan(ARCHIVED, keep_summaries=True), "a person")
    assert errors(engine) == []
    assert sums(engine) == []
    with engine.store.read() as reader:
        assert reader.list_summaries(1) == before
        assert reader.removed_below(before[0].summary_id) == before[0].message_count
        assert {row.skeleton is None for row in reader.messages(1, limit=500)} == {False}
        assert reader.footprint(1).emptied == reader.footprint(1).messages
    assert SECRET not in texts(engine).replace("\n".join(one.content for one in before), "")


def test_a_redacted_database_is_whole_and_holds_nothing_of_it(engine: Engine) -> None:
    talk(engine)
    engine.compact(LANE, force=True)
    engine.call_tool(LANE, "lcm_grep", {"pattern": "question"})
    assert SECRET in texts(engine)
    target = MatchingTexts.of_pattern(r"sk-[A-Za-z0-9]+")
    seen = engine.redaction(engine.store).look(target)
    assert SECRET in texts(engine)
    done = engine.redaction(engine.store).apply(target, "anna")
    assert (done.messages, done.summaries) == (seen.messages, seen.summaries)
    assert done.messages == 3
    assert SECRET not in texts(engine)
    assert errors(engine) == []
    assert sums(engine) == []
    assert engine.call_tool(LANE, "lcm_grep", {"pattern": SECRET})["hits"] == []
    assert engine.call_tool(LANE, "lcm_grep", {"pattern": "REDACTED"})["hits"]
    messages = engine.messages(LANE)
    assert "my key is [REDACTED], keep it" in messages[6]["content"]
    assert messages[-2]["tool_calls"][0]["function"]["arguments"] == '{"key": "[REDACTED]"}'
    with engine.store.read() as reader:
        record = reader.removals()[0]
    assert (record.kind, record.requested_by, record.messages) == ("redact", "anna", 3)
    assert SECRET not in str(record)


@pytest.mark.parametrize("with_setting", [False, True])
def test_a_host_that_repeats_its_list_does_not_bring_the_secret_back(
    engine: Engine, with_setting: bool
) -> None:
    talk(engine)
    replayed = engine.messages(LANE)
    assert SECRET in str(replayed)
    engine.redaction(engine.store).apply(MatchingTexts.of_pattern(r"sk-[A-Za-z0-9]+"), "anna")
    again = engine
    if with_setting:
        settings = engine.config.model_dump() | {"redact_patterns": [r"sk-[A-Za-z0-9]+"]}
        again = Engine(LcmConfig(**settings), engine.store)
    assert again.ingest(LANE, replayed, mode="sync").stored == 0
    more = [*replayed, user("and now for something else"), assistant("yes")]
    assert again.ingest(LANE, more, mode="sync").stored == 2
    assert SECRET not in texts(engine)


def test_named_messages_and_summaries_lose_their_texts_and_keep_their_form(engine: Engine) -> None:
    talk(engine)
    engine.compact(LANE, force=True)
    with engine.store.read() as reader:
        leaf = reader.list_summaries(1)[0].summary_id
        covered = reader.source_messages(leaf)[0]
        heads = reader.heads(1, limit=2)
    names = [f"msg_{covered}", heads[0].ref, heads[1].ref, leaf]
    before = engine.messages(LANE)
    done = engine.redaction(engine.store).apply(NamedThings(names), "anna")
    assert (done.messages, done.summaries) == (3, 1)
    assert leaf in done.above
    after = engine.messages(LANE)
    assert after[0]["content"] == "[REDACTED]"
    assert after[0]["role"] == before[0]["role"]
    assert after[-2]["tool_calls"][0]["id"] == "c1"
    assert after[-2]["tool_calls"][0]["function"] == {
        "name": "run",
        "arguments": '{"redacted": "[REDACTED]"}',
    }
    assert after[-1] == {"role": "tool", "tool_call_id": "c1", "content": "[REDACTED]"}
    assert after[1:-2] == before[1:-2]
    assert errors(engine) == []
    with engine.store.read() as reader:
        assert reader.summaries([leaf])[leaf].content == "[REDACTED]"


def test_a_summary_that_is_being_made_of_the_former_text_is_not_published(engine: Engine) -> None:
    talk(engine)
    with engine.store.read() as reader:
        before = reader.conversation(1)
    engine.redaction(engine.store).apply(MatchingTexts.of_text(SECRET), "anna")
    with engine.store.read() as reader:
        after = reader.conversation(1)
    assert before is not None
    assert after is not None
    assert after.revision > before.revision


def test_new_can_still_be_undone_after_a_redaction(engine: Engine) -> None:
    talk(engine)
    items = engine.context_items(LANE)
    engine.new_session(LANE, 0)
    engine.redaction(engine.store).apply(MatchingTexts.of_text(SECRET), "anna")
    assert engine.undo_new(LANE) == len(items)
    assert errors(engine) == []


def test_payloads_are_redacted_with_their_messages(engine: Engine, tmp_path: Path) -> None:
    long = "\n".join(f"line {n} of a log" for n in range(900))
    engine.ingest(LANE, [user(f"{long}\n{SECRET}\n{long}"), assistant("seen")])
    folder = tmp_path / "payloads"
    (before,) = [path for path in folder.rglob("*") if path.is_file()]
    done = engine.redaction(engine.store).apply(MatchingTexts.of_text(SECRET), "anna")
    assert (done.messages, done.files) == (1, 1)
    (after,) = [path for path in folder.rglob("*") if path.is_file()]
    assert after != before
    assert SECRET not in after.read_text()
    assert engine.messages(LANE)[0]["content"] == f"{long}\n[REDACTED]\n{long}"
    assert errors(engine) == []


def test_a_database_of_the_first_schema_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    with Engine(LcmConfig(database=str(path)), SqliteStore(path)) as engine:
        talk(engine)
        kept = engine.messages(LANE)
    take_back(path, "removals")
    with Engine(LcmConfig(database=str(path)), SqliteStore(path)) as engine:
        assert engine.messages(LANE) == kept
        engine.redaction(engine.store).apply(MatchingTexts.of_text(SECRET), "anna")
        assert SECRET not in texts(engine)
    assert (tmp_path / f"lcm.db.before-schema-{SCHEMA_VERSION}.bak").exists()


def test_nothing_was_removed_from_a_fresh_database(
    open_store: Callable[[], Any],
) -> None:
    with open_store().read() as reader:
        assert reader.removals() == []
        assert reader.removed_below("sum_0000000000000000") == 0


def test_a_running_host_sends_the_redacted_text_from_the_next_turn_on(engine: Engine) -> None:
    talk(engine)
    assert SECRET in str(engine.assemble(LANE).messages)
    # In a host, another process would do this; the engine's own caches are the same.
    engine.redaction(engine.store).apply(MatchingTexts.of_text(SECRET), "anna")
    assert SECRET not in str(engine.assemble(LANE).messages)
    assert SECRET not in str(engine.assemble(LANE, 2_000).messages)


def test_a_servers_database_is_pruned_only_when_a_copy_was_seen_to(postgres_url: str) -> None:
    with Engine.open(LcmConfig(database=postgres_url)) as engine:
        talk(engine)
        engine.reset_session(LANE)
        words = "/lcm prune --older-than 0m --apply --confirm delete"
        refused = engine.command(LANE, words)
        assert not refused.ok
        assert "pg_dump" in refused.text
        assert "--no-backup" in refused.text
        done = engine.command(LANE, f"{words} --no-backup")
        assert done.ok, done.text
        assert done.data["messages"] == 18


def test_a_redacted_result_keeps_the_name_of_its_tool(engine: Engine) -> None:
    talk(engine)
    engine.redaction(engine.store).apply(MatchingTexts.of_text(SECRET), "anna")
    with engine.store.read() as reader:
        newest = reader.messages_by_id([reader.heads(1, limit=1)[0].message_id])
    ((part,),) = (row.parts for row in newest.values())
    assert (part.text, part.tool_name, part.tool_call_id) == ("used [REDACTED]", "run", "c1")
