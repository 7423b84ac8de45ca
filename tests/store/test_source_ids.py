"""The store's side of imports: rows by the source's ids, and conversations that are archived from the start."""

from __future__ import annotations

from test_contract import KEY, fill, message

from lcm_plugin.store.protocol import Store


def test_messages_are_found_by_the_hosts_ids_within_one_conversation(store: Store) -> None:
    first = fill(store, 2)
    with store.write() as writer:
        writer.append(writer.open_conversation(KEY, 2), [message(3, host_id="user:a"), message(4)], 2)
        other = writer.open_archived(KEY, "rollover", 3)
        writer.append(other, [message(5, host_id="user:a"), message(6, host_id="user:é")], 3)
    with store.read() as reader:
        found = reader.heads_with_host_ids(first.conversation_id, ["user:a", "user:é", "missing"])
        assert {host_id: head.seq for host_id, head in found.items()} == {"user:a": 3}
        beside = reader.heads_with_host_ids(other.conversation_id, ["user:a", "user:é"])
        assert {host_id: head.seq for host_id, head in beside.items()} == {"user:a": 1, "user:é": 2}
        assert reader.heads_with_host_ids(first.conversation_id, []) == {}
        assert reader.conversation_holding(KEY.key, "user:é") == reader.conversation(other.conversation_id)
        assert reader.conversation_holding(KEY.key, "user:a") == reader.conversation(other.conversation_id)
        assert reader.conversation_holding(KEY.key, "missing") is None
        assert reader.conversation_holding("other", "user:a") is None


def test_conversations_that_begin_with_a_mark_are_left_out(store: Store) -> None:
    talk = fill(store, 2)
    with store.write() as writer:
        imported = writer.open_archived(KEY, "session-end", 7)
        writer.append(imported, [message(1, host_id="assistant:import:x"), message(2, host_id="user:a")], 8)
        without_rows = writer.open_archived(KEY, "session-end", 9)
        begun = writer.open_archived(KEY, "session-end", 10)
        writer.append(begun, [message(3, host_id="user:b"), message(4, host_id="assistant:import:y")], 11)
    with store.read() as reader:
        left = [row.conversation_id for row in reader.lane(KEY.key, without="assistant:import:")]
        assert left == [one.conversation_id for one in (talk, without_rows, begun)]
        assert len(reader.lane(KEY.key)) == 4


def test_a_conversation_can_be_archived_from_the_start(store: Store) -> None:
    active = fill(store, 1)
    with store.write() as writer:
        made = writer.open_archived(KEY, "session-end", 7)
        assert (made.active, made.archive_cause, made.archived_at, made.created_at) == (
            False,
            "session-end",
            7,
            7,
        )
        assert writer.append(made, [message(1)], 8)
        assert writer.find_conversation(KEY) == writer.conversation(active.conversation_id)
        assert [row.conversation_id for row in writer.lane(KEY.key)] == [
            active.conversation_id,
            made.conversation_id,
        ]
        assert len(writer.newest_items(made.conversation_id, limit=5)) == 1
