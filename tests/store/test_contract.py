"""What every store promises. Runs against each of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from lcm_plugin.errors import EngineClosed, StoreConflict
from lcm_plugin.store.protocol import Reader, Store, Writer, iterate_messages
from lcm_plugin.store.records import (
    Conversation,
    FileRecord,
    Item,
    NewMessage,
    Part,
    Publication,
    Summary,
)
from lcm_plugin.types import Session

KEY = Session("agent:main:main", "run-1")


def message(number: int, **fields: object) -> NewMessage:
    values: dict[str, object] = {
        "role": "user",
        "skeleton": None,
        "tokens": 10,
        "identity": number - 2**62,
        "created_at": 1_000 + number,
        "parts": (Part(0, "text", "content", f"text {number}"),),
        **fields,
    }
    return NewMessage(**{"speaks": values["role"] == "user", **values})  # type: ignore[arg-type]


def fill(store: Store, count: int, session: Session = KEY) -> Conversation:
    with store.write() as writer:
        conversation = writer.open_conversation(session, 1)
        writer.append(conversation, [message(n) for n in range(count)], 1)
    return current(store, session)


def current(store: Store, session: Session = KEY) -> Conversation:
    with store.read() as reader:
        conversation = reader.find_conversation(session)
    assert conversation is not None
    return conversation


def items(reader: Reader, conversation: Conversation) -> list[Item]:
    return reader.oldest_items(conversation.conversation_id, limit=1_000)


def node(conversation: Conversation, chunk: list[Item], name: str = "0" * 16, depth: int = 0) -> Publication:
    heads = [item.message for item in chunk if item.message]
    summary = Summary(
        summary_id=f"sum_{name}",
        conversation_id=conversation.conversation_id,
        depth=depth,
        content="what happened",
        tokens=5,
        earliest_at=1_000,
        latest_at=2_000,
        first_seq=heads[0].seq if heads else 1,
        last_seq=heads[-1].seq if heads else 1,
        descendant_count=len(chunk),
        message_count=len(chunk),
        source_tokens=sum(item.tokens for item in chunk),
        message_tokens=sum(item.tokens for item in chunk),
        level="extractive",
        file_ids=("file_1",),
    )
    return Publication(summary, tuple(chunk), conversation.revision, item_tokens=8, reason="threshold")


def publish(store: Store, low: int, high: int, name: str = "0" * 16, depth: int = 0) -> Publication:
    """Replaces the context items at positions low..high by a summary."""
    conversation = current(store)
    with store.write() as writer:
        publication = node(conversation, items(writer, conversation)[low:high], name, depth)
        writer.publish(publication, 5)
    return publication


def test_one_active_conversation_per_key(store: Store) -> None:
    with store.write() as writer:
        first = writer.open_conversation(KEY, 1)
        again = writer.open_conversation(Session(KEY.key, "run-2"), 2)
    assert first.conversation_id == again.conversation_id
    assert current(store).session_id == "run-2"


def test_a_conversation_is_found_by_the_id_of_any_of_its_runs(store: Store) -> None:
    conversation = fill(store, 1)
    with store.write() as writer:
        writer.open_conversation(Session(KEY.key, "run-2"), 2)
    with store.read() as reader:
        for run in ("run-1", "run-2"):
            found = reader.find_conversation(Session("", run))
            assert found is not None
            assert found.conversation_id == conversation.conversation_id
            assert reader.session_key_of(run) == KEY.key
        assert reader.find_conversation(Session("", "run-3")) is None


def test_twenty_threads_open_one_conversation(store: Store) -> None:
    errors: list[Exception] = []

    def open_it() -> None:
        try:
            with store.write() as writer:
                writer.open_conversation(KEY, 1)
        except Exception as error:  # noqa: BLE001 - the test reports whatever it was
            errors.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with store.read() as reader:
        assert len(reader.conversations()) == 1
    assert errors == []


def test_messages_come_back_in_order_with_their_parts(store: Store) -> None:
    parts = (
        Part(0, "text", "content", "hi"),
        Part(1, "tool", "tool_calls.0.function.arguments", "{}", tool_name="ls", tool_call_id="c1"),
        Part(2, "file", "content.1.data", "ref", exact='"x"', file_id="file_1", metadata="{}"),
    )
    rich = message(
        7, role="assistant", skeleton='{"k":1}', parts=parts, calls=("c1",), sender="ada", channel="ops"
    )
    with store.write() as writer:
        conversation = writer.open_conversation(KEY, 1)
        ids = writer.append(conversation, [message(1), rich], 1)
    with store.read() as reader:
        first, second = iterate_messages(reader, conversation.conversation_id, page=1)
        assert reader.messages_by_id(ids)[ids[1]] == second
    assert [first.head.seq, second.head.seq] == [1, 2]
    assert second.parts == parts
    assert second.skeleton == '{"k":1}'
    assert (second.head.calls, second.head.sender, second.head.channel) == (("c1",), "ada", "ops")


def test_totals_follow_every_change(store: Store) -> None:
    conversation = fill(store, 6)
    assert (conversation.message_count, conversation.raw_items, conversation.raw_tokens) == (6, 6, 60)
    publish(store, 0, 4)
    conversation = current(store)
    assert (conversation.raw_items, conversation.raw_tokens) == (2, 20)
    assert (conversation.summary_items, conversation.summary_tokens) == (1, 8)
    assert conversation.context_tokens == 28


def test_heads_are_paged_from_the_newest(store: Store) -> None:
    conversation = fill(store, 9)
    with store.read() as reader:
        newest = reader.heads(conversation.conversation_id, limit=4)
        older = reader.heads(conversation.conversation_id, before_seq=newest[0].seq, limit=4)
    assert [head.seq for head in older + newest] == [2, 3, 4, 5, 6, 7, 8, 9]


def test_messages_are_found_by_identity(store: Store) -> None:
    with store.write() as writer:
        conversation = writer.open_conversation(KEY, 1)
        writer.append(conversation, [message(n, identity=n % 3) for n in range(9)], 1)
        found = writer.heads_with_identity(conversation.conversation_id, [0, 2, 7], limit=4)
    assert [head.seq for head in found] == [4, 6, 7, 9]


def test_a_host_id_that_is_taken_costs_no_row(store: Store) -> None:
    with store.write() as writer:
        conversation = writer.open_conversation(KEY, 1)
        writer.append(conversation, [message(1, host_id="user:1"), message(2, host_id="user:1")], 1)
    with store.read() as reader:
        assert len(reader.heads(conversation.conversation_id, limit=9)) == 2
        assert reader.known_host_ids([conversation.conversation_id], ["user:1", "user:2"]) == {"user:1"}


def test_call_rows_are_only_messages_that_make_or_answer_one_of_the_calls(store: Store) -> None:
    with store.write() as writer:
        conversation = writer.open_conversation(KEY, 1)
        rows = [
            message(1),
            message(2, calls=("a", "b")),
            message(3, answers=("a",)),
            message(4, calls=("c",)),
        ]
        writer.append(conversation, rows, 1)

        def seqs(ids: set[str], limit: int = 9) -> list[int]:
            return [row.seq for row in writer.call_rows(conversation.conversation_id, ids, limit=limit)]

        assert seqs({"a"}) == [2, 3]
        assert seqs({"b", "c"}) == [2, 4]
        assert seqs({"a", "d"}, limit=2) == [3]
        assert seqs({"d"}) == []


def test_instructions_are_found_with_whether_they_stand_raw(store: Store) -> None:
    with store.write() as writer:
        conversation = writer.open_conversation(KEY, 1)
        rows = [
            message(1, role="system"),
            message(2, role="system"),
            message(3),
            message(4, role="developer"),
        ]
        ids = writer.append(conversation, rows, 1)
        writer.hide(conversation.conversation_id, ids[:1], 2)
        writer.set_instructions(conversation.conversation_id, [4, 2], 3)
        found = writer.instructions(conversation.conversation_id)
        stored = writer.conversation(conversation.conversation_id)
    assert [(head.seq, raw) for head, raw in found] == [(2, True), (4, True)]
    assert stored is not None
    assert stored.instruction_seqs == (4, 2)


def test_the_lowest_group_minds_span_and_floor(store: Store) -> None:
    with store.write() as writer:
        conversation = writer.open_conversation(KEY, 1)
        writer.append(conversation, [message(1), message(2), message(3, group_seq=1), message(4)], 1)
        cid = conversation.conversation_id
        assert writer.lowest_group(cid, 2, 512, 0) == 1
        assert writer.lowest_group(cid, 2, 512, 2) == 2
        assert writer.lowest_group(cid, 4, 512, 0) == 4
        assert writer.lowest_group(cid, 9, 512, 0) is None


def test_hidden_messages_cost_no_context(store: Store) -> None:
    conversation = fill(store, 3)
    with store.write() as writer:
        head = writer.heads(conversation.conversation_id, limit=1)[0]
        writer.hide(conversation.conversation_id, [head.message_id], 2)
        assert writer.heads(conversation.conversation_id, limit=1)[0].hidden
    assert current(store).raw_tokens == 20


def test_stretches_that_overlap_give_each_message_once_in_order(store: Store) -> None:
    first = fill(store, 12)
    other = fill(store, 5, Session("agent:main:other", "run-1"))
    with store.write() as writer:
        [gone] = [head for head in writer.heads(first.conversation_id, limit=12) if head.seq == 4]
        writer.hide(first.conversation_id, [gone.message_id], 2)
    here, there = first.conversation_id, other.conversation_id
    with store.read() as reader:
        assert reader.rows_within([]) == []
        rows = reader.rows_within(
            [(there, 4, 9), (here, 5, 6), (here, 2, 5), (here, 9, 10), (here, 3, 3), (99, 1, 5)]
        )
    assert [(row.conversation_id, row.position) for row in rows] == [
        *((here, seq) for seq in (2, 3, 5, 6, 9, 10)),
        *((there, seq) for seq in (4, 5)),
    ]


def test_hidden_messages_that_are_shown_again_cost_what_they_did(store: Store) -> None:
    conversation = fill(store, 3)
    before = current(store)
    with store.write() as writer:
        numbers = [head.message_id for head in writer.heads(conversation.conversation_id, limit=3)]
        writer.hide(conversation.conversation_id, numbers[1:], 2)
    with store.write() as writer:
        writer.show(conversation.conversation_id, numbers, 3)
        assert not any(head.hidden for head in writer.heads(conversation.conversation_id, limit=3))
    assert current(store).raw_tokens == before.raw_tokens
    with store.read() as reader:
        assert [item.tokens for item in reader.newest_items(conversation.conversation_id, limit=3)] == [
            10
        ] * 3


def test_a_summary_replaces_its_sources_and_links_to_them(store: Store) -> None:
    conversation = fill(store, 5)
    publication = publish(store, 1, 4)
    with store.read() as reader:
        kinds = [(item.kind, item.ordinal) for item in items(reader, conversation)]
        ids = reader.source_messages("sum_" + "0" * 16)
        assert reader.summaries([publication.summary.summary_id]) == {
            publication.summary.summary_id: publication.summary
        }
        assert reader.covering_leaf(ids) == dict.fromkeys(ids, "sum_" + "0" * 16)
        assert reader.sources_of(["sum_" + "0" * 16]) == {"sum_" + "0" * 16: [f"msg_{n}" for n in ids]}
        covered = reader.messages_by_id(ids)
    assert kinds == [("message", 1), ("summary", 2), ("message", 5)]
    assert [stored.head.seq for stored in covered.values()] == [2, 3, 4]
    assert covered[ids[-1]].parts[-1].type == "compaction"


def test_summaries_of_summaries_link_both_ways(store: Store) -> None:
    conversation = fill(store, 4)
    publish(store, 0, 2, "a" * 16)
    publish(store, 1, 3, "b" * 16)
    publish(store, 0, 2, "c" * 16, depth=1)
    with store.read() as reader:
        assert reader.source_summaries("sum_" + "c" * 16) == ["sum_" + "a" * 16, "sum_" + "b" * 16]
        assert reader.derived_from("sum_" + "a" * 16) == ["sum_" + "c" * 16]
        assert reader.summary_counts(conversation.conversation_id) == {0: 2, 1: 1}
        names = [summary.summary_id[-1] for summary in reader.list_summaries(conversation.conversation_id)]
        assert names == ["a", "b", "c"]
        after = reader.list_summaries(conversation.conversation_id, after="sum_" + "a" * 16, depth=0)
        assert [summary.summary_id[-1] for summary in after] == ["b"]
        (item,) = items(reader, conversation)
        assert (item.depth, item.tokens) == (1, 8)


def test_a_chunk_that_changed_is_not_replaced(store: Store) -> None:
    conversation = fill(store, 6)
    with store.read() as reader:
        chunk = items(reader, conversation)[:4]
    publish(store, 0, 2, "a" * 16)
    with pytest.raises(StoreConflict), store.write() as writer:
        writer.publish(node(conversation, chunk, "b" * 16), 6)
    with pytest.raises(StoreConflict), store.write() as writer:
        writer.publish(node(current(store), chunk, "b" * 16), 6)
    with store.read() as reader:
        assert reader.summary_counts(conversation.conversation_id) == {0: 1}


def test_a_message_that_arrives_meanwhile_is_no_conflict(store: Store) -> None:
    conversation = fill(store, 4)
    with store.read() as reader:
        chunk = items(reader, conversation)[:3]
    with store.write() as writer:
        writer.append(writer.open_conversation(KEY, 2), [message(9)], 2)
    with store.write() as writer:
        writer.publish(node(conversation, chunk), 6)
    with store.read() as reader:
        assert [item.kind for item in items(reader, conversation)] == ["summary", "message", "message"]


def test_removed_items_come_back_in_place(store: Store) -> None:
    conversation = fill(store, 6)
    publish(store, 0, 3)
    before = current(store)
    with store.read() as reader:
        all_before = items(reader, conversation)
    with store.write() as writer:
        writer.remove_items(conversation.conversation_id, [1, 5], "new", 3)
    assert current(store).context_tokens < before.context_tokens
    with store.write() as writer:
        assert writer.restore_snapshot(conversation.conversation_id, 4) == 2
        assert items(writer, conversation) == all_before
    assert current(store).context_tokens == before.context_tokens


def test_two_removals_are_undone_one_after_the_other(store: Store) -> None:
    conversation = fill(store, 4)
    with store.write() as writer:
        writer.remove_items(conversation.conversation_id, [1], "new", 3)
        writer.remove_items(conversation.conversation_id, [2], "new", 4)
    for expected in ([2, 3, 4], [1, 2, 3, 4]):
        with store.write() as writer:
            assert writer.restore_snapshot(conversation.conversation_id, 5) == 1
            assert [item.ordinal for item in items(writer, conversation)] == expected
    with store.write() as writer:
        assert writer.restore_snapshot(conversation.conversation_id, 6) == 0


def test_a_removal_cannot_be_undone_after_a_compaction(store: Store) -> None:
    conversation = fill(store, 6)
    with store.write() as writer:
        writer.remove_items(conversation.conversation_id, [1], "new", 3)
    publish(store, 0, 3)
    with store.write() as writer:
        assert writer.restore_snapshot(conversation.conversation_id, 4) == 0


def test_an_archived_conversation_keeps_its_first_cause_and_frees_the_key(store: Store) -> None:
    old = fill(store, 2)
    with store.write() as writer:
        writer.archive(old.conversation_id, "manual-reset", 5)
        writer.archive(old.conversation_id, "session-end", 6)
        fresh = writer.open_conversation(KEY, 7)
    assert fresh.conversation_id != old.conversation_id
    with store.read() as reader:
        lane = reader.lane(KEY.key)
    assert [(row.active, row.archive_cause) for row in lane] == [(False, "manual-reset"), (True, None)]


def test_an_exception_rolls_everything_back(store: Store) -> None:
    conversation = fill(store, 1)

    def fail(writer: Writer) -> None:
        writer.append(current(store), [message(5)], 2)
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError), store.write() as writer:
        fail(writer)
    assert current(store) == conversation


def test_one_lease_at_a_time_and_a_dead_one_expires(store: Store) -> None:
    cid = fill(store, 1).conversation_id
    with store.write() as writer:
        assert writer.claim_debt(cid, "one", now=100, lease_ms=50) is not None
        assert writer.claim_debt(cid, "two", now=120, lease_ms=50) is None
        assert writer.renew_lease(cid, "one", now=140, lease_ms=50)
        assert writer.claim_debt(cid, "two", now=160, lease_ms=50) is None
        assert writer.claim_debt(cid, "two", now=300, lease_ms=50) is not None
        assert not writer.renew_lease(cid, "one", now=310, lease_ms=50)
        writer.settle_debt(cid, "two", "done", 320, reason="done")
        debt = writer.debt(cid)
    assert debt is not None
    assert (debt.state, debt.owner, debt.attempts) == ("done", None, 0)


def test_debts_coalesce_and_come_due(store: Store) -> None:
    cid = fill(store, 1).conversation_id
    with store.write() as writer:
        writer.request_compaction(cid, "over_threshold", 1_000, 10)
        writer.request_compaction(cid, "leaf_chunk_ready", 2_000, 20)
        (debt,) = writer.due_debts(20)
        assert (debt.requested_at, debt.budget) == (10, 2_000)
        writer.claim_debt(cid, "one", 20, 50)
        assert writer.due_debts(30) == []
        assert len(writer.due_debts(100)) == 1
        writer.settle_debt(cid, "one", "deferred", 30, next_attempt_at=500)
        assert writer.due_debts(499) == []
        assert len(writer.due_debts(500)) == 1


def test_files_blobs_and_guards(store: Store) -> None:
    conversation = fill(store, 1)
    record = FileRecord(
        "file_1", conversation.conversation_id, "ab" * 32, "db:", 3, "a.txt", "text/plain", 1, "x"
    )
    with store.write() as writer:
        writer.add_file(record)
        writer.add_file(record)
        writer.put_blob("ab" * 32, b"abc")
        writer.save_guard("breaker", {"failures": 2})
        writer.save_guard("breaker", {"failures": 3})
    with store.read() as reader:
        assert reader.file("file_1") == record
        assert reader.file("file_2") is None
        assert reader.files(conversation.conversation_id) == [record]
        assert reader.blob("ab" * 32) == b"abc"
        assert reader.guard("breaker") == {"failures": 3}
        assert reader.guards() == {"breaker": {"failures": 3}}


def test_what_is_told_of_a_file_may_be_replaced(store: Store) -> None:
    conversation = fill(store, 1)
    record = FileRecord(
        "file_1", conversation.conversation_id, "ab" * 32, "db:", 3, "a.txt", "text/plain", 1, "x"
    )
    with store.write() as writer:
        writer.add_file(record)
        writer.describe_file("file_1", "y")
        writer.describe_file("file_2", "z")
    with store.read() as reader:
        assert reader.file("file_1") == replace(record, exploration="y")


def test_status_counts_without_reading_messages(store: Store) -> None:
    fill(store, 5)
    publish(store, 0, 3)
    with store.read() as reader:
        status = reader.status()
    assert (status.conversations, status.messages, dict(status.summaries_by_depth)) == (1, 5, {0: 1})
    assert status.size_bytes > 0


def test_a_second_store_on_the_same_database_sees_everything(open_store: Callable[[], Store]) -> None:
    one, two = open_store(), open_store()
    fill(one, 3)
    assert current(two).message_count == 3


def test_eight_threads_mix_reads_and_writes(store: Store) -> None:
    errors: list[Exception] = []

    def work(number: int) -> None:
        session = Session(f"lane:{number % 3}")
        try:
            for step in range(25):
                with store.write() as writer:
                    writer.append(writer.open_conversation(session, 1), [message(step)], 1)
                with store.read() as reader:
                    assert reader.find_conversation(session) is not None
        except Exception as error:  # noqa: BLE001 - the test reports whatever it was
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with store.read() as reader:
        assert sum(row.message_count for row in reader.conversations()) == 200


def test_a_closed_store_says_so(open_store: Callable[[], Store]) -> None:
    store = open_store()
    store.close()
    with pytest.raises(EngineClosed), store.read():
        pass
    with pytest.raises(EngineClosed), store.write():
        pass
