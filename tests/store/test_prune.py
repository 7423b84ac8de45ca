"""The store's side of ``/new``: pruning by depth, stacked undo, and runs with a conversation of their own."""

from __future__ import annotations

from test_contract import KEY, current, fill, items, message, publish

from lcm_plugin.store.protocol import Store
from lcm_plugin.types import Session


def test_pruning_takes_raw_items_and_shallow_summaries(store: Store) -> None:
    conversation = fill(store, 8)
    publish(store, 0, 3)
    number = conversation.conversation_id
    with store.write() as writer:
        assert set(writer.context_depths(number)) == {0}
        before = items(writer, conversation)
        writer.prune(number, 0, "new", 3)
        assert [item.kind for item in items(writer, conversation)] == ["summary"]
        assert (current_row := writer.conversation(number)) is not None
        assert (current_row.raw_items, current_row.raw_tokens, current_row.restart_seq) == (0, 0, 9)
        writer.prune(number, 1, "new", 4)
        assert items(writer, conversation) == []
        assert writer.context_depths(number) == {}
        assert writer.restore_snapshot(number, 5) == 1
        assert writer.restore_snapshot(number, 6) == 5
        assert items(writer, conversation) == before


def test_pruning_that_keeps_all_only_marks_the_restart(store: Store) -> None:
    conversation = fill(store, 3)
    with store.write() as writer:
        writer.prune(conversation.conversation_id, -1, "new", 3)
        assert writer.snapshot(conversation.conversation_id) is None
    assert (current(store).restart_seq, current(store).raw_items) == (4, 3)


def test_three_removals_are_undone_one_after_the_other_with_messages_between(store: Store) -> None:
    conversation = fill(store, 2)
    number = conversation.conversation_id
    for at in (3, 4, 5):
        with store.write() as writer:
            writer.prune(number, 0, "new", at)
            writer.append(writer.open_conversation(KEY, at), [message(at)], at)
    for expected in ([4, 5], [3, 4, 5], [1, 2, 3, 4, 5]):
        with store.write() as writer:
            assert writer.restore_snapshot(number, 9) > 0
            assert [item.ordinal for item in items(writer, conversation)] == expected
    with store.write() as writer:
        assert writer.restore_snapshot(number, 9) == 0
    assert current(store).raw_items == 5


def test_an_old_removal_stays_out_of_reach_after_a_newer_one_was_undone(store: Store) -> None:
    conversation = fill(store, 8)
    number = conversation.conversation_id
    with store.write() as writer:
        writer.remove_items(number, [8], "new", 3)
    publish(store, 0, 3)
    with store.write() as writer:
        writer.remove_items(number, [7], "new", 4)
        assert writer.restore_snapshot(number, 5) == 1
        assert writer.restore_snapshot(number, 6) == 0


def test_a_message_hidden_while_it_was_out_of_the_context_comes_back_without_cost(store: Store) -> None:
    conversation = fill(store, 3)
    number = conversation.conversation_id
    with store.write() as writer:
        hidden = writer.heads(number, limit=3)[0]
        writer.prune(number, 0, "new", 3)
        writer.hide(number, [hidden.message_id], 4)
        writer.restore_snapshot(number, 5)
        assert writer.oldest_items(number, limit=1)[0].tokens == 0
        rest = sum(item.tokens for item in items(writer, conversation))
    assert current(store).raw_tokens == rest


def test_a_run_is_found_with_the_conversation_it_wrote_to(store: Store) -> None:
    conversation = fill(store, 1)
    number = conversation.conversation_id
    with store.write() as writer:
        writer.open_conversation(Session(KEY.key, "run-9"), 2)
        writer.archive(number, "cron-rotation", 3)
    with store.read() as reader:
        found = reader.conversation_of_run(Session(KEY.key, "run-9"))
        assert found is not None
        assert (found.conversation_id, found.active) == (number, False)
        assert reader.conversation_of_run(Session(KEY.key, "run-8")) is None
        assert reader.conversation_of_run(Session("other", "run-9")) is None
