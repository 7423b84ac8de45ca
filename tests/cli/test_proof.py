"""The proof counts a message only when its bytes came back in their place."""

from __future__ import annotations

from lcm_plugin.cli.replay.proof import prove
from lcm_plugin.sessions.library import Walked

ROWS = [{"role": "user", "content": text} for text in ("one", "two", "two", "drei ☂", "\ud83d lone")]


def walked(rows: list[dict]) -> list[Walked]:
    return [Walked(f"msg_{index}", row, ("sum_1",) if index < 2 else ()) for index, row in enumerate(rows)]


def test_all_messages_in_order_are_a_complete_proof() -> None:
    proof = prove(ROWS, walked(ROWS))
    assert proof.complete
    assert (proof.recovered, proof.through_summaries) == (5, 2)


def test_a_missing_message_is_named() -> None:
    proof = prove(ROWS, walked(ROWS[:1] + ROWS[2:]))
    assert not proof.complete
    assert (proof.recovered, proof.first_missing) == (4, 2)


def test_a_message_reached_twice_is_not_complete() -> None:
    proof = prove(ROWS, walked([*ROWS, ROWS[0]]))
    assert (proof.recovered, proof.extra, proof.complete) == (5, 1, False)


def test_a_changed_byte_does_not_count() -> None:
    changed = [*ROWS[:3], {"role": "user", "content": "drei ☔"}, ROWS[4]]
    assert not prove(ROWS, walked(changed)).complete
    assert prove(ROWS, walked(changed)).recovered == 3


def test_another_order_of_keys_does_not_count() -> None:
    assert (
        prove([{"role": "user", "content": "a"}], walked([{"content": "a", "role": "user"}])).recovered == 0
    )


def test_two_swapped_messages_do_not_count_as_complete() -> None:
    assert not prove(ROWS, walked([ROWS[1], ROWS[0], *ROWS[2:]])).complete
