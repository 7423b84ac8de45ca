"""The reads that assembly asks of a store."""

from __future__ import annotations

from test_contract import current, fill, message, publish

from lcm_plugin.store.protocol import Store


def test_messages_are_read_by_their_place(store: Store) -> None:
    conversation = fill(store, 5)
    with store.read() as reader:
        found = reader.messages_at(conversation.conversation_id, [4, 2, 99])
        assert [stored.head.seq for stored in found] == [2, 4]
        assert [part.text for stored in found for part in stored.parts] == ["text 1", "text 3"]
        assert reader.messages_at(conversation.conversation_id, []) == []


def test_the_newest_request_is_one_in_which_a_user_speaks_and_that_is_not_hidden(store: Store) -> None:
    conversation = fill(store, 1)
    with store.write() as writer:
        more = [
            message(1, role="assistant"),
            message(2, answers=("c1",), speaks=False),
            message(3, answers=("c2",)),
            message(4, hidden=True),
            message(5, answers=("c3",), speaks=False),
        ]
        writer.append(current(store), more, 1)
    with store.read() as reader:
        newest = reader.newest_user(conversation.conversation_id)
        assert newest is not None
        assert newest.seq == 4
        older = reader.newest_user(conversation.conversation_id, before=4)
        assert older is not None
        assert older.seq == 1
        spans = [(1, 3), (1, 4), (4, 6)]
        assert reader.users_within(conversation.conversation_id, spans) == {(1, 4)}


def test_the_newest_summaries_before_a_place(store: Store) -> None:
    conversation = fill(store, 9)
    publish(store, 0, 1, "1" * 16)
    publish(store, 1, 2, "2" * 16)
    publish(store, 2, 3, "3" * 16)
    with store.read() as reader:

        def found(before: int, limit: int) -> list[str]:
            items = reader.newest_summary_items(conversation.conversation_id, before=before, limit=limit)
            return [item.ref[-1] for item in items]

        assert found(100, 10) == ["1", "2", "3"]
        assert found(100, 2) == ["2", "3"]
        third = reader.newest_summary_items(conversation.conversation_id, before=100, limit=1)[0]
        assert found(third.ordinal, 10) == ["1", "2"]
