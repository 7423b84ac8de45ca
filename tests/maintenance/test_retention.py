"""Pruning: what goes, what never goes, and that the database is whole afterwards."""

from __future__ import annotations

import string
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from messages import assistant, call, result, user

from lcm_plugin import Engine, Session
from lcm_plugin.maintenance.selection import LaneKind, Selection
from lcm_plugin.recall.tools import TOOL_NAMES
from lcm_plugin.store.records import Conversation
from lcm_plugin.store.transfer import table_hashes

pytestmark = pytest.mark.both_stores

DAY = 86_400_000
LANE = Session("agent:main:main", "run-1")
ARCHIVED = frozenset({LaneKind.ARCHIVED})
NOW = Selection(older_than_ms=0, kinds=ARCHIVED)
SMALL: dict[str, Any] = {"fresh_tail_count": 2, "leaf_chunk_tokens": 300, "leaf_min_fanout": 2}


def talk(engine: Engine, session: Session, turns: int, mark: str = "weather") -> None:
    for number in range(turns):
        engine.ingest(
            session,
            [
                user(f"{mark} question {number} of {session.key}: " + "how is it there and here " * 4),
                assistant(f"{mark} answer {number}: " + "it is fine there and here today " * 4),
            ],
        )


def archive(engine: Engine, session: Session) -> Conversation:
    archived = engine.reset_session(session)
    assert archived is not None
    return archived


def healthy(engine: Engine) -> bool:
    report = engine.check()
    assert report.complete
    errors = [finding.message for finding in report.findings if finding.severity == "error"]
    assert errors == []
    return True


def ids(engine: Engine) -> list[int]:
    return [row.conversation_id for row in engine.library.conversations()]


def test_an_archived_conversation_goes_as_a_whole_and_the_live_one_stays(
    open_engine: Callable[..., Engine], clock: Any
) -> None:
    engine = open_engine(**SMALL)
    talk(engine, LANE, 12, "ancient")
    engine.compact(LANE, force=True)
    old = archive(engine, LANE)
    clock.forward(100 * DAY)
    talk(engine, LANE, 3, "present")
    plan = engine.retention.plan(Selection(older_than_ms=90 * DAY))
    assert [one.conversation.conversation_id for one in plan.candidates] == [old.conversation_id]
    assert plan.messages == 24
    assert plan.candidates[0].kind is LaneKind.ARCHIVED
    before = engine.messages(LANE)
    outcome = engine.retention.apply(plan, "a person")
    assert (outcome.conversations, outcome.messages) == (1, 24)
    assert outcome.problem == ""
    assert old.conversation_id not in ids(engine)
    assert engine.messages(LANE) == before
    assert healthy(engine)
    found = engine.call_tool(LANE, "lcm_grep", {"pattern": "ancient", "all_conversations": True})
    assert found["hits"] == []
    assert engine.call_tool(LANE, "lcm_grep", {"pattern": "present"})["hits"]


def test_what_was_removed_is_on_record_with_who_and_how_much(
    open_engine: Callable[..., Engine], clock: Any
) -> None:
    engine = open_engine()
    talk(engine, LANE, 2)
    archive(engine, LANE)
    engine.retention.apply(engine.retention.plan(NOW), "anna")
    with engine.store.read() as reader:
        record = reader.removals()[0]
    assert (record.kind, record.requested_by, record.conversations, record.messages) == (
        "prune",
        "anna",
        1,
        4,
    )
    assert record.created_at == clock()
    assert record.bytes > 0


def test_a_plan_writes_nothing(open_engine: Callable[..., Engine]) -> None:
    engine = open_engine()
    talk(engine, LANE, 2)
    archive(engine, LANE)

    def stored() -> dict[str, str]:
        with engine.store.read() as reader:
            return table_hashes(reader)

    before = stored()
    with Engine.open(engine.config, read_only=True) as reading:
        plan = reading.retention.plan(NOW, max_bytes=0)
        assert plan.messages == 4
    assert stored() == before


@pytest.mark.sqlite_only
def test_a_plan_leaves_the_file_as_it_is(open_engine: Callable[..., Engine], tmp_path: Path) -> None:
    engine = open_engine()
    talk(engine, LANE, 2)
    archive(engine, LANE)
    engine.close()
    before = (tmp_path / "lcm.db").read_bytes()
    with Engine.open(engine.config, read_only=True) as reading:
        assert reading.retention.plan(NOW, max_bytes=0).messages == 4
    assert (tmp_path / "lcm.db").read_bytes() == before


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("agent:main:cron:nightly", LaneKind.CRON),
        ("agent:main:subagent:7f", LaneKind.SUBAGENT),
        ("agent:main:cron:nightly:run:1", LaneKind.CRON),
        ("agent:main:run:9", LaneKind.SUBAGENT),
        ("agent:main:subagents:7f", LaneKind.OLD),
        ("agent:main:telegram:cron", LaneKind.OLD),
        ("agent:main:main", LaneKind.OLD),
    ],
)
def test_a_lane_is_classed_by_whole_segments_of_its_key(engine: Engine, key: str, kind: LaneKind) -> None:
    talk(engine, Session(key), 1)
    plan = engine.retention.plan(Selection(older_than_ms=0, kinds=frozenset(LaneKind)))
    assert [one.kind for one in plan.candidates] == [kind]


def test_open_lanes_of_people_go_only_when_asked_for_by_name(engine: Engine, clock: Any) -> None:
    talk(engine, LANE, 1)
    talk(engine, Session("agent:main:subagent:1"), 1)
    talk(engine, Session("agent:main:cron:1", "r1"), 1)
    clock.forward(400 * DAY)
    usual = engine.retention.plan(Selection())
    assert {one.kind for one in usual.candidates} == {LaneKind.CRON, LaneKind.SUBAGENT}
    named = engine.retention.plan(Selection(kinds=frozenset({LaneKind.OLD})))
    assert [one.conversation.session_key for one in named.candidates] == [LANE.key]


def test_without_an_age_open_lanes_must_have_rested_for_a_while(engine: Engine, clock: Any) -> None:
    talk(engine, Session("agent:main:subagent:1"), 1)
    clock.forward(6 * DAY)
    assert engine.retention.plan(Selection()).candidates == ()
    clock.forward(2 * DAY)
    assert len(engine.retention.plan(Selection()).candidates) == 1


def test_a_glob_and_a_reach_narrow_the_choice(engine: Engine) -> None:
    for name in ("a", "b", "c"):
        talk(engine, Session(f"agent:{name}:main"), 1)
        archive(engine, Session(f"agent:{name}:main"))
    by_glob = engine.retention.plan(Selection(older_than_ms=0, kinds=ARCHIVED, sessions="agent:b:*"))
    assert [one.conversation.session_key for one in by_glob.candidates] == ["agent:b:main"]
    first = by_glob.candidates[0].conversation.conversation_id
    assert (
        engine.retention.plan(
            Selection(older_than_ms=0, kinds=ARCHIVED, in_reach=frozenset({first}))
        ).messages
        == 2
    )
    assert (
        engine.retention.plan(Selection(older_than_ms=0, kinds=ARCHIVED, in_reach=frozenset())).candidates
        == ()
    )


def test_a_conversation_that_is_being_compacted_is_left_alone(engine: Engine, clock: Any) -> None:
    lane = Session("agent:main:subagent:1")
    talk(engine, lane, 1)
    clock.forward(30 * DAY)
    with engine.store.write() as writer:
        assert writer.claim_debt(1, "somebody", clock(), 60_000) is not None
    plan = engine.retention.plan(Selection())
    assert (plan.candidates, plan.in_use) == ((), 1)


def test_a_conversation_that_comes_into_use_after_the_plan_stays(engine: Engine, clock: Any) -> None:
    lane = Session("agent:main:subagent:1")
    talk(engine, lane, 2)
    clock.forward(30 * DAY)
    plan = engine.retention.plan(Selection())
    talk(engine, lane, 1)
    before = engine.messages(lane)
    outcome = engine.retention.apply(plan, "a person")
    assert outcome.skipped == [1]
    assert outcome.conversations == 0
    assert engine.messages(lane) == before
    assert healthy(engine)


def test_keeping_summaries_takes_the_texts_and_leaves_lineage_and_counts_whole(
    open_engine: Callable[..., Engine], clock: Any
) -> None:
    engine = open_engine(**SMALL)
    talk(engine, LANE, 12, "ancient")
    engine.ingest(LANE, [call("c1", "read", '{"path": "ancient.txt"}'), result("c1", "ancient words")])
    engine.compact(LANE, force=True)
    old = archive(engine, LANE)
    with engine.store.read() as reader:
        summaries = reader.list_summaries(old.conversation_id)
    assert summaries
    plan = engine.retention.plan(NOW, keep_summaries=True)
    assert plan.messages == 26
    assert 0 < plan.candidates[0].uncovered < 26
    engine.retention.apply(plan, "a person")
    assert healthy(engine)
    with engine.store.read() as reader:
        assert reader.list_summaries(old.conversation_id) == summaries
        rows = reader.messages(old.conversation_id, limit=100)
    assert len(rows) == 26
    assert all("was pruned on" in str(engine.library.whole(row)["content"]) for row in rows)
    assert not engine.call_tool(LANE, "lcm_grep", {"pattern": "ancient.txt", "all_conversations": True})[
        "hits"
    ]
    # Nothing is left to remove; asking again finds nothing.
    assert engine.retention.plan(NOW, keep_summaries=True).candidates == ()


def test_a_kept_summary_and_its_messages_say_that_the_sources_were_pruned(
    open_engine: Callable[..., Engine],
) -> None:
    engine = open_engine(recall_scope="agent", **SMALL)
    talk(engine, LANE, 12)
    engine.compact(LANE, force=True)
    old = archive(engine, LANE)
    engine.retention.apply(engine.retention.plan(NOW, keep_summaries=True), "a person")
    with engine.store.read() as reader:
        top = reader.list_summaries(old.conversation_id)[-1]
        message_id = reader.messages(old.conversation_id, limit=1)[0].head.ref
    here = {"all_conversations": True}
    told = engine.call_tool(LANE, "lcm_describe", {"id": top.summary_id, **here})
    assert told["content"] == top.content
    assert told["sources_removed"] == top.message_count
    message = engine.call_tool(LANE, "lcm_describe", {"id": message_id, **here})
    assert "pruned" in message["removed"]
    expanded = engine.call_tool(
        LANE, "lcm_expand", {"summary_ids": [top.summary_id], "depth": 9, "include_messages": True, **here}
    )
    assert any("removed" in item for item in expanded["items"])


def test_an_open_lane_keeps_everything_that_its_context_holds(
    open_engine: Callable[..., Engine], clock: Any
) -> None:
    engine = open_engine(**SMALL)
    lane = Session("agent:main:subagent:1")
    talk(engine, lane, 12)
    engine.compact(lane, force=True)
    before = engine.assemble(lane).messages
    clock.forward(30 * DAY)
    plan = engine.retention.plan(Selection(), keep_summaries=True)
    assert 0 < plan.messages < 24
    engine.retention.apply(plan, "a person")
    assert engine.assemble(lane).messages == before
    assert healthy(engine)


def test_a_replay_of_pruned_messages_is_known_again(open_engine: Callable[..., Engine], clock: Any) -> None:
    engine = open_engine(**SMALL)
    lane = Session("agent:main:subagent:1")
    talk(engine, lane, 12)
    full = engine.messages(lane)
    engine.compact(lane, force=True)
    clock.forward(30 * DAY)
    engine.retention.apply(engine.retention.plan(Selection(), keep_summaries=True), "a person")
    assert engine.ingest(lane, full, mode="sync").stored == 0


@pytest.mark.long
@pytest.mark.sqlite_only
def test_the_file_shrinks(open_engine: Callable[..., Engine], tmp_path: Path) -> None:
    engine = open_engine()
    for number in range(12):
        engine.ingest(LANE, [user(f"{number} " + "a long story about many things " * 4_000)])
    engine.call_tool(LANE, "lcm_grep", {"pattern": "story"})
    archive(engine, LANE)
    outcome = engine.retention.apply(engine.retention.plan(NOW), "a person")
    assert outcome.size_after < outcome.size_before / 2
    assert (tmp_path / "lcm.db").stat().st_size == outcome.size_after
    assert (tmp_path / "lcm.db-wal").stat().st_size == 0


def story(random: Random) -> str:
    """A text that cannot be stored in much less than its length."""
    return " ".join("".join(random.choices(string.ascii_letters, k=9)) for _ in range(500))


@pytest.mark.long
def test_pruning_to_a_size_takes_the_longest_unused_first_and_only_as_much_as_it_takes(
    open_engine: Callable[..., Engine], clock: Any
) -> None:
    engine = open_engine()
    random = Random(1)
    for number in range(8):
        session = Session(f"agent:main:lane{number}")
        engine.ingest(session, [user(story(random)) for _ in range(40)])
        archive(engine, session)
        clock.forward(DAY)
    engine.store.give_back_space(scrub=True)
    with engine.store.read() as reader:
        size = reader.status().size_bytes
    wanted = size * 6 // 10
    outcome = engine.retention.apply_to_size(NOW, wanted, "a person")
    assert outcome.size_after <= wanted
    left = [row.session_key for row in engine.library.conversations() if row.message_count]
    assert left == [f"agent:main:lane{number}" for number in range(8)][-len(left) :]
    assert left
    assert healthy(engine)
    nothing = engine.retention.apply_to_size(NOW, wanted, "a person")
    assert nothing.conversations == 0


def big(text: str) -> str:
    return f"{text}\n" + "\n".join(f"{text} line {number} of a long file" for number in range(600))


def test_payloads_go_with_their_messages_unless_others_refer_to_them(
    open_engine: Callable[..., Engine], tmp_path: Path
) -> None:
    folder = tmp_path / "lcm-files"
    engine = open_engine(large_file_token_threshold=1_000, large_files_dir=str(folder))
    shared, own = big("shared"), big("own")
    engine.ingest(LANE, [user(shared), assistant("ok"), user(own), assistant("ok")])
    archive(engine, LANE)
    engine.ingest(LANE, [user("something new"), assistant("yes"), user(shared), assistant("again")])
    assert sum(path.is_file() for path in folder.rglob("*")) == 2
    outcome = engine.retention.apply(engine.retention.plan(NOW), "a person")
    assert outcome.files == 1
    left = [path for path in folder.rglob("*") if path.is_file()]
    assert len(left) == 1
    assert left[0].read_text() == shared
    assert engine.messages(LANE)[2]["content"] == shared
    assert healthy(engine)


def test_the_same_bytes_of_another_lane_stay(open_engine: Callable[..., Engine]) -> None:
    engine = open_engine(large_file_token_threshold=1_000)
    other = Session("agent:main:other")
    engine.ingest(LANE, [user(big("shared"))])
    engine.ingest(other, [user(big("shared"))])
    archive(engine, LANE)
    engine.retention.apply(engine.retention.plan(NOW), "a person")
    assert engine.messages(other)[0]["content"] == big("shared")
    assert healthy(engine)


def test_the_same_bytes_of_another_database_in_the_folder_stay(open_engine: Callable[..., Engine]) -> None:
    first, second = open_engine("first"), open_engine("second")
    for engine in (first, second):
        engine.ingest(LANE, [user(big("shared")), assistant("ok")])
        archive(engine, LANE)
    first.retention.apply(first.retention.plan(NOW), "a person")
    with second.store.read() as reader:
        row = reader.messages(1, limit=1)[0]
    assert second.library.whole(row)["content"] == big("shared")
    second.retention.apply(second.retention.plan(NOW), "a person")
    with second.store.read() as reader:
        assert reader.files(1) == []
    assert second.payloads.folder_bytes() == 0


def test_payloads_inside_the_database_go_as_well(open_engine: Callable[..., Engine]) -> None:
    engine = open_engine(large_file_token_threshold=1_000, large_files_dir="db")
    engine.ingest(LANE, [user(big("own"))])
    archive(engine, LANE)
    with engine.store.read() as reader:
        digest = reader.files(1)[0].sha256
        assert reader.blob(digest) is not None
    engine.retention.apply(engine.retention.plan(NOW), "a person")
    with engine.store.read() as reader:
        assert reader.blob(digest) is None


def test_no_tool_can_remove_anything(engine: Engine) -> None:
    talk(engine, LANE, 1)
    assert set(TOOL_NAMES) == {"lcm_grep", "lcm_describe", "lcm_expand", "lcm_expand_query"}
    for name in ("lcm_prune", "lcm_redact", "prune", "lcm_doctor"):
        assert engine.call_tool(LANE, name, {"apply": True, "confirm": "delete"})["error_code"]
    assert len(engine.messages(LANE)) == 2
