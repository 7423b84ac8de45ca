"""Vectors are derived: stored on request, thrown away with what they stand for."""

from __future__ import annotations

from collections.abc import Callable

from messages import user

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.store.protocol import Store

HERE, THERE = Session("agent:main:here"), Session("agent:main:there")


def filled(store: Store) -> list[int]:
    """Two messages here, one there; their row ids."""
    engine = Engine(LcmConfig(), store)
    engine.ingest(HERE, [user("one"), user("two")])
    engine.ingest(THERE, [user("three")])
    with store.read() as reader:
        return reader.messages_without_vectors("mini", 10)


def put(store: Store, model: str, vectors: dict[int, bytes]) -> None:
    with store.write() as writer:
        writer.store_vectors(model, vectors)


def test_a_database_without_vectors_answers_like_an_empty_one(store: Store) -> None:
    ids = filled(store)
    assert len(ids) == 3
    with store.read() as reader:
        assert reader.vector_model() is None
        assert reader.vectors(ids) == {}
        assert reader.vector_count() == 0
        assert list(reader.vectors_after(0)) == []
        assert reader.messages_without_vectors("mini", 2) == ids[:2]


def test_vectors_come_back_by_id_and_by_conversation(store: Store) -> None:
    first, second, third = filled(store)
    put(store, "mini", {first: b"\x01\x02", second: b"", third: b"\xff"})
    with store.read() as reader:
        here, there = reader.find_conversation(HERE), reader.find_conversation(THERE)
        assert here is not None
        assert there is not None
        assert reader.vector_model() == "mini"
        assert reader.vectors([third, first, 99]) == {first: b"\x01\x02", third: b"\xff"}
        assert reader.vector_count() == 3
        assert [row for batch in reader.vectors_after(first) for row in batch] == [
            (second, here.conversation_id, b""),
            (third, there.conversation_id, b"\xff"),
        ]
        assert reader.messages_without_vectors("mini", 10) == []


def test_a_new_message_is_without_and_a_known_one_is_not_named_again(store: Store) -> None:
    first, second, third = filled(store)
    put(store, "mini", {first: b"\x01"})
    with store.read() as reader:
        assert reader.messages_without_vectors("mini", 10) == [second, third]
    put(store, "mini", {second: b"\x01", third: b"\x01"})
    Engine(LcmConfig(), store).ingest(HERE, [user("four")])
    with store.read() as reader:
        [new] = reader.messages_without_vectors("mini", 10)
    assert new > third


def test_the_vectors_of_another_model_are_thrown_away(store: Store) -> None:
    first, second, third = filled(store)
    put(store, "mini", {first: b"\x01", second: b"\x01", third: b"\x01"})
    with store.read() as reader:
        assert reader.messages_without_vectors("maxi", 10) == [first, second, third]
    put(store, "maxi", {first: b"\x07"})
    with store.read() as reader:
        assert reader.vector_model() == "maxi"
        assert reader.vectors([first, second]) == {first: b"\x07"}
        assert reader.messages_without_vectors("maxi", 10) == [second, third]


def test_what_is_taken_out_of_the_index_is_without_vectors_again(store: Store) -> None:
    first, second, third = filled(store)
    put(store, "mini", {first: b"\x01", second: b"\x02", third: b"\x03"})
    with store.write() as writer:
        writer.unindex_messages([second])
    with store.read() as reader:
        assert reader.vectors([first, second, third]) == {first: b"\x01", third: b"\x03"}
        assert reader.messages_without_vectors("mini", 10) == [second]


def test_two_processes_may_both_be_the_first(open_store: Callable[[], Store]) -> None:
    one, two = open_store(), open_store()
    first, second, third = filled(one)
    put(one, "mini", {first: b"\x01", second: b"\x02"})
    put(two, "mini", {second: b"\x02", third: b"\x03"})
    with one.read() as reader:
        assert set(reader.vectors([first, second, third])) == {first, second, third}
