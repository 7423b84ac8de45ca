"""Texts that would be SQL, patterns or paths elsewhere are texts and nothing else, wherever they stand."""

from __future__ import annotations

from pathlib import Path

import pytest
from messages import assistant, call, result, user

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.maintenance.redaction.targets import MatchingTexts
from lcm_plugin.maintenance.selection import LaneKind, Selection
from lcm_plugin.store.protocol import Store

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
        {"pattern": "heron", "tool_name": text, "roles": [text]},
        {"pattern": text, "scope": "both", "sort": "hybrid", "all_conversations": True},
    ):
        answer = engine.call_tool(lane, "lcm_grep", arguments)
        # A text may be no regular expression; anything else that fails here is a fault.
        assert "hits" in answer or arguments.get("mode") == "regex", answer
    for name, arguments in (("lcm_describe", {"id": text}), ("lcm_expand", {"summary_ids": [text]})):
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
