"""What the fresh tail protects."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import assistant, call, calls, result, user

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.compaction.tail import Tail, TailBounds, fresh_tail
from lcm_plugin.messages.groups import GroupLinker
from lcm_plugin.store.records import Item, MessageHead

SESSION = Session("agent:tail:main")


class Context:
    """The three queries that the tail needs, over rows in memory."""

    def __init__(self, rows: Sequence[tuple[str, int, tuple[str, ...], tuple[str, ...]]]) -> None:
        linker = GroupLinker([])
        self.items: list[Item] = []
        for seq, (role, tokens, made, answered) in enumerate(rows, start=1):
            group = linker.link(seq, made, answered)
            head = MessageHead(
                seq, 1, seq, role, tokens, 0, 0, group, None, None, None, made, answered, False
            )
            self.items.append(Item(seq, "message", tokens, message=head))
        self.users = [item.message for item in self.items if item.message and item.message.role == "user"]

    def cover(self, first: int, last: int) -> None:
        """A summary takes the place of some messages."""
        covered = [item for item in self.items if first <= item.ordinal <= last]
        node = Item(covered[0].ordinal, "summary", 50, 0, summary_id="sum_1")
        self.items = sorted(
            [item for item in self.items if item not in covered] + [node], key=lambda item: item.ordinal
        )

    def newest_items(self, conversation_id: int, *, before: int | None = None, limit: int) -> list[Item]:
        older = [item for item in self.items if before is None or item.ordinal < before]
        return older[-limit:]

    def newest_user(self, conversation_id: int, *, before: int | None = None) -> MessageHead | None:
        older = [head for head in self.users if before is None or head.seq < before]
        return older[-1] if older else None


def tail(context: Context, *, yields: bool = False, **bounds: int) -> Tail:
    return fresh_tail(context, 1, TailBounds(**bounds), yields=yields)  # type: ignore[arg-type]


def plain(*roles: str, tokens: int = 10) -> Context:
    names = {"u": "user", "a": "assistant"}
    return Context([(names[role], tokens, (), ()) for role in roles])


def test_the_newest_messages_by_count() -> None:
    found = tail(plain(*"uauauaua"), count=3)
    assert (found.start, found.messages, found.tokens) == (6, 3, 30)


def test_a_tail_larger_than_the_talk_protects_all_of_it() -> None:
    assert tail(plain(*"uau"), count=64).start == 1


def test_an_empty_context_has_no_tail() -> None:
    assert tail(plain(), count=4).tokens == 0
    assert not tail(plain(), count=4).protects(1)


def test_tokens_bound_the_tail_too() -> None:
    assert tail(plain(*"uauauaua"), count=6, tokens=25).start == 7


def test_everything_from_the_newest_user_message_on_is_protected_whatever_the_bounds() -> None:
    assert tail(plain(*"uauaaaaa"), count=2, tokens=20).start == 3


def test_a_yielding_tail_gives_up_the_turn_but_its_newest_messages() -> None:
    context = plain(*"uauaaaaa")
    assert tail(context, count=8, tokens=45, yields=True).start == 6
    assert tail(context, count=8, tokens=0, yields=True).start == 8


def test_a_call_and_its_results_are_never_split_by_count() -> None:
    rows = [("user", 10, (), ()), ("assistant", 10, ("a", "b", "c"), ())]
    rows += [("tool", 10, (), (name,)) for name in "abc"]
    assert tail(Context([*rows, ("user", 5, (), ())]), count=2).start == 2


def test_under_a_token_bound_the_group_that_does_not_fit_is_left_out_whole() -> None:
    rows = [
        ("user", 10, (), ()),
        ("assistant", 10, ("a",), ()),
        ("tool", 90, (), ("a",)),
        ("user", 10, (), ()),
    ]
    assert tail(Context(rows), count=9, tokens=105).start == 4


def test_a_result_whose_call_was_compacted_stands_for_itself() -> None:
    rows = [("user", 10, (), ()), ("assistant", 10, ("late",), ())]
    rows += [("user", 10, (), ()), ("assistant", 10, (), ())] * 5
    context = Context([*rows, ("tool", 10, (), ("late",))])
    assert tail(context, count=3).start == 2  # the call still stands raw
    context.cover(1, 6)
    assert tail(context, count=3).start == 11


def test_a_tail_ends_at_a_summary() -> None:
    context = plain(*"uauauaua")
    context.cover(1, 6)
    assert tail(context, count=64).start == 7


def test_a_covered_user_message_protects_nothing_and_room_is_left_for_it() -> None:
    context = plain("u", *("a" * 11))
    context.cover(1, 6)
    assert tail(context, count=3).start == 10
    assert tail(context, count=9, tokens=40, yields=True).start == 10


def test_talk_without_a_user_is_bounded_by_count_alone() -> None:
    assert tail(plain(*("a" * 300)), count=5).start == 296


_ROW = st.sampled_from(["user", "assistant", "call", "answer", "old answer"])


@settings(deadline=None, max_examples=examples(120))
@given(st.lists(_ROW, min_size=1, max_size=40), st.integers(1, 12), st.integers(0, 200), st.booleans())
def test_a_tail_never_begins_inside_a_group(kinds: list[str], count: int, room: int, yields: bool) -> None:
    rows: list[tuple[str, int, tuple[str, ...], tuple[str, ...]]] = []
    made: list[str] = []
    for number, kind in enumerate(kinds):
        if kind == "call":
            made.append(f"c{number}")
            rows.append(("assistant", 10, (made[-1],), ()))
        elif kind.endswith("answer") and made:
            rows.append(("tool", 10, (), (made[0] if kind.startswith("old") else made[-1],)))
        else:
            rows.append(("user" if kind == "user" else "assistant", 10, (), ()))
    context = Context(rows)
    found = tail(context, count=count, tokens=room, yields=yields)
    inside = [item for item in context.items if found.protects(item.ordinal)]
    assert inside
    assert inside[-1] is context.items[-1]
    assert all(item.message and item.message.group_seq >= found.start for item in inside)
    assert found.tokens == sum(item.tokens for item in inside)
    newest = context.newest_user(1)
    if not yields and newest is not None:
        assert found.start <= newest.seq


@pytest.mark.long
def test_the_tail_costs_the_same_however_long_the_history_is(tmp_path: Path) -> None:
    """The queries of one look at the tail, counted in a real database."""
    with Engine.open(LcmConfig(database=str(tmp_path / "lcm.db"))) as engine:
        asked = []
        for size in (200, 2_000):
            engine.ingest(SESSION, [assistant(f"entry {size} {n}") for n in range(size)])
            engine.ingest(SESSION, [user("now"), call("x"), result("x", "done")])
            with engine.store.read() as reader:
                conversation = reader.find_conversation(SESSION)
                assert conversation is not None
                seen: list[str] = []
                reader.db.set_trace_callback(seen.append)  # type: ignore[attr-defined]
                fresh_tail(reader, conversation.conversation_id, TailBounds(64))
                reader.db.set_trace_callback(None)  # type: ignore[attr-defined]
                asked.append(len(seen))
        assert asked[0] == asked[1] <= 5


@pytest.mark.parametrize("parallel", [2, 5])
def test_parallel_results_stay_with_their_call_in_a_real_store(tmp_path: Path, parallel: int) -> None:
    names = [f"p{n}" for n in range(parallel)]
    with Engine.open(LcmConfig(database=str(tmp_path / "lcm.db"))) as engine:
        engine.ingest(
            SESSION, [user("go"), calls(*names), *(result(name, "x") for name in names), user("on")]
        )
        with engine.store.read() as reader:
            conversation = reader.find_conversation(SESSION)
            assert conversation is not None
            found = fresh_tail(reader, conversation.conversation_id, TailBounds(2))
    assert found.start == 2
