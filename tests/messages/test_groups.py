"""Calls and their results belong together: linking them, and where a cut is legal."""

from __future__ import annotations

from collections.abc import Sequence

from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from lcm_plugin.messages.groups import MAX_SPAN, GroupLinker, legal_cut, next_legal_cut
from lcm_plugin.store.records import MessageHead

Row = tuple[tuple[str, ...], tuple[str, ...]]  # the ids a message calls, and those it answers


def linked(rows: Sequence[Row]) -> list[MessageHead]:
    linker = GroupLinker([])
    return [
        MessageHead(seq, 1, seq, "tool" if answers else "assistant", 1, 0, 0,
                    linker.link(seq, calls, answers), None, None, None, calls, answers, False)
        for seq, (calls, answers) in enumerate(rows, start=1)
    ]  # fmt: skip


def cut_before(heads: Sequence[MessageHead], seq: int) -> int:
    def lowest(start: int) -> int | None:
        return min((h.group_seq for h in heads if start <= h.seq < start + MAX_SPAN), default=None)

    return legal_cut(seq, lowest)


def test_results_join_the_message_that_called_them() -> None:
    heads = linked([((), ()), (("a", "b"), ()), ((), ("a",)), ((), ("b",)), ((), ())])
    assert [head.group_seq for head in heads] == [1, 2, 2, 2, 5]


def test_an_id_used_again_means_its_newest_call() -> None:
    heads = linked([(("x",), ()), ((), ("x",)), (("x",), ()), ((), ("x",))])
    assert [head.group_seq for head in heads] == [1, 1, 3, 3]


def test_a_result_before_its_call_takes_the_call_into_its_group() -> None:
    assert [head.group_seq for head in linked([((), ("x",)), (("x",), ())])] == [1, 1]


def test_a_result_too_far_from_its_call_stands_for_itself() -> None:
    rows: list[Row] = [(("x",), ()), *[((), ())] * MAX_SPAN, ((), ("x",))]
    assert linked(rows)[-1].group_seq == MAX_SPAN + 2


def test_a_cut_moves_back_before_the_call() -> None:
    heads = linked([((), ()), (("a", "b"), ()), ((), ("a",)), ((), ("b",)), ((), ())])
    assert [cut_before(heads, seq) for seq in range(1, 7)] == [1, 2, 2, 2, 5, 6]


def test_groups_that_overlap_are_cut_before_the_first_of_them() -> None:
    heads = linked([(("a",), ()), (("b",), ()), ((), ("a",)), ((), ("b",)), ((), ())])
    assert cut_before(heads, 4) == 1
    assert next_legal_cut(heads, 1) == 4


def test_groups_that_overlap_without_end_are_cut_where_asked() -> None:
    rows: list[Row] = [(("c0",), ())]
    for number in range(1, 2 * MAX_SPAN):
        rows += [((f"c{number}",), ()), ((), (f"c{number - 1}",))]
    heads = linked(rows)
    assert cut_before(heads, len(heads) - 1) == len(heads) - 1


@settings(deadline=None, max_examples=examples(150))
@given(st.lists(st.sampled_from(["say", "call", "answer", "old"]), max_size=40), st.data())
def test_no_legal_cut_splits_a_group(kinds: list[str], data: st.DataObject) -> None:
    rows: list[Row] = []
    made: list[str] = []
    for number, kind in enumerate(kinds):
        if kind == "call":
            made.append(f"c{number}")
            rows.append(((made[-1],), ()))
        elif kind in ("answer", "old") and made:
            rows.append(((), (made[-1] if kind == "answer" else made[0],)))
        else:
            rows.append(((), ()))
    heads = linked(rows)
    seq = data.draw(st.integers(1, len(heads) + 1))
    cut = cut_before(heads, seq)
    assert cut <= seq
    assert all(head.group_seq >= cut for head in heads if head.seq >= cut)
    index = next_legal_cut(heads, seq - 1)
    assert index >= min(seq - 1, len(heads))
    assert all(head.group_seq >= heads[index].seq for head in heads[index:]) if index < len(heads) else True
