"""Texts that would be SQL, patterns or paths elsewhere are texts and nothing else, wherever they stand."""

from __future__ import annotations

from pathlib import Path

import pytest
from messages import assistant, call, result, user

from lcm_plugin import CompletionRequest, CompletionResult, Engine, LcmConfig, Session, Turn, Usage
from lcm_plugin.maintenance.redaction.targets import MatchingTexts
from lcm_plugin.maintenance.selection import LaneKind, Selection
from lcm_plugin.store.protocol import Store
from lcm_plugin.store.records import NewMessage

HOSTILE = [
    "'; DROP TABLE messages; --",
    '" OR "1"="1',
    "%s %(x)s %% {0} {name} ?1 :here $1 $$",
    "a' UNION SELECT * FROM conversations --",
    "*:** _% \\ [a-z] NEAR(a b) a* AND NOT ^b",
    "line\nbreak\ttab \u202e rtl \U0001f9a9",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_comes_back_as_it_was_and_harms_nothing(
    store: Store, tmp_path: Path, text: str
) -> None:
    engine = Engine(LcmConfig(database=str(tmp_path / "x.db"), recall_scope="all"), store)
    bystander, lane = Session("agent:main:bystander"), Session(f"lane {text}", f"run {text}")
    engine.ingest(bystander, [user("an innocent heron"), assistant("yes")])
    given = [
        user(text, name=text, id=text, channel=text),
        call(f"c {text}", name=text, arguments=f'{{"x": "{len(text)}"}}'),
        result(f"c {text}", text),
        assistant(text, **{f"key {text}": text}),
    ]
    engine.ingest(lane, given)
    assert engine.messages(lane) == given
    assert engine.ingest(lane, given, mode="sync").stored == 0
    for arguments in (
        {"pattern": text},
        {"pattern": text, "mode": "regex"},
        {"pattern": "heron", "tool_name": text},
        {"pattern": text, "scope": "both", "sort": "hybrid", "all_conversations": True},
    ):
        answer = engine.call_tool(lane, "lcm_grep", arguments)
        # A text may be no regular expression; anything else that fails here is a fault.
        assert "hits" in answer or arguments.get("mode") == "regex", answer
    refused = (
        ("lcm_describe", {"id": text}),
        ("lcm_expand", {"summary_ids": [text]}),
        ("lcm_grep", {"pattern": "heron", "roles": [text]}),
    )
    for name, arguments in refused:
        assert engine.call_tool(lane, name, arguments)["error_code"] == "INVALID_ARGUMENTS"
    assert "items" in engine.call_tool(lane, "lcm_expand", {"query": text})
    for command in ("show", "grep", "tree", "config", "prune --sessions", "doctor"):
        engine.command(lane, f"/lcm {command} {text}")
    everything = Selection(older_than_ms=0, kinds=frozenset(LaneKind), sessions=text)
    chosen = [one.conversation.session_key for one in engine.retention.plan(everything).candidates]
    assert bystander.key not in chosen
    engine.redaction(store).apply(MatchingTexts.of_text(text), text)
    engine.reset_session(lane)
    engine.end_session(lane, text)
    assert engine.messages(bystander) == [user("an innocent heron"), assistant("yes")]
    with store.read() as reader:
        assert reader.removals()[0].requested_by == text
        assert len(reader.conversations()) == 3
    assert engine.check().ok


@pytest.mark.parametrize("odd", ["us\x00er", "user\ud800", "\x00"])
def test_what_a_database_refuses_in_a_role_or_a_name_is_stored_all_the_same(
    store: Store, tmp_path: Path, odd: str
) -> None:
    engine = Engine(LcmConfig(database=str(tmp_path / "x.db")), store)
    lane = Session("agent:main:odd")
    given = [
        {"role": odd, "content": "the heron"},
        user("who is that?", name=odd, id=odd, channel=odd),
        call(f"c{odd}", name=odd),
        result(f"c{odd}", "done"),
    ]
    for message in given:
        assert engine.ingest(lane, [message]).stored == 1
    assert engine.messages(lane) == given
    assert engine.ingest(lane, given, mode="sync").stored == 0
    assert engine.assemble(lane, 8_000).messages
    assert engine.check().ok


@pytest.mark.parametrize("odd", ["a\x00b", "a\ud800b"])
def test_what_a_database_refuses_in_a_key_a_model_or_a_file_name_is_one_session_all_the_same(
    store: Store, tmp_path: Path, odd: str
) -> None:
    def complete(request: CompletionRequest) -> CompletionResult:
        return CompletionResult("The heron stands at the third bridge.", model=odd)

    config = LcmConfig(
        database=str(tmp_path / "x.db"),
        fresh_tail_count=1,
        leaf_min_fanout=1,
        large_file_token_threshold=1_000,
    )
    engine, again = (Engine(config, store, complete) for _ in range(2))
    lane = Session(f"agent:{odd}:main", f"run {odd}")
    attached = {
        "type": "file",
        "file": {"filename": odd, "file_data": "data:text/plain;base64," + "aGVyb24g" * 2_000},
    }
    given = [
        user("where does the heron stand? " * 40),
        assistant("at the bridge " * 40),
        user([attached]),
        user("and now?"),
    ]
    assert engine.ingest(lane, given).stored == 4
    assert again.messages(lane) == given
    assert again.ingest(lane, given, "sync").stored == 0
    assert engine.compact(lane, force=True, budget=8_000).passes
    assert engine.assemble(lane, 8_000, model=odd).summaries
    sent = Turn(lane, [], model=odd, usage=Usage(prompt_tokens=900))
    engine.note_usage(sent)
    engine.schedule_compaction(lane, 2_000, model=odd)
    assert engine.wait_idle(30)
    assert engine.call_tool(lane, "lcm_grep", {"pattern": "heron"})["hits"]
    for command in ("status", "doctor later", "config", "files"):
        assert engine.command(lane, f"/lcm {command}").text
    engine.new_session(lane)
    engine.end_session(lane, odd)
    assert engine.check().ok
    with store.read() as reader:
        (kept,) = reader.lane(lane.key)
        assert kept.session_key == "agent:a\ufffdb:main"


def test_a_list_of_texts_is_looked_for_as_it_is_stored(store: Store) -> None:
    with store.write() as writer:
        conversation = writer.open_conversation(Session("k"), 1)
        writer.append(conversation, [NewMessage("user", None, 1, 1, 1, (), host_id="a\ufffdb")], 1)
    with store.read() as reader:
        assert reader.known_host_ids([conversation.conversation_id], ["a\x00b"]) == {"a\ufffdb"}
