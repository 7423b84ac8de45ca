"""What a list begins with is paired once, and gives what pairing all of it anew gives."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from messages import assistant, call, result, user

from lcm_plugin.assembly.pairing import pair
from lcm_plugin.assembly.render import Rendered
from lcm_plugin.assembly.steady import Steady
from lcm_plugin.messages.shape import answer_ids, call_ids

IDS = ("a", "b", "c.1", "c_1")


def rendered(place: int, kind: str, name: str) -> Rendered:
    """A message as a context has it; calls and their results are one group by their id."""
    made = {
        "user": user(f"words {place}"),
        "reply": assistant(f"answer {place}"),
        "call": call(name, "look"),
        "result": result(name, f"seen {place}"),
    }[kind]
    calls, answers = call_ids(made), () if kind == "call" else answer_ids(made)
    group = 1 + IDS.index(name) if calls or answers else place
    shown = "request" if kind == "user" else kind
    return Rendered(place, made, 10, f"msg_{place}", group, shown, calls, answers)  # type: ignore[arg-type]


KINDS = st.sampled_from(("user", "reply", "call", "result"))
ROWS = st.lists(st.tuples(KINDS, st.sampled_from(IDS)), max_size=8)


@settings(max_examples=120, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), ROWS), min_size=1, max_size=4))
def test_a_list_that_grows_or_turns_off_is_paired_as_a_new_one(
    turns: list[tuple[int, list[tuple[str, str]]]],
) -> None:
    steady, items, place = Steady(), list[Rendered](), 0
    for kept, rows in turns:
        items = items[:kept]
        for kind, name in rows:
            place += 1
            items.append(rendered(place, kind, name))
        assert pair(items, lambda *_: None, steady) == pair(items, lambda *_: None)


def test_only_what_was_added_is_paired() -> None:
    items = [rendered(1, "user", "a"), rendered(2, "call", "a"), rendered(3, "result", "a")]
    steady = Steady()
    pair(items, lambda *_: None, steady)
    before = list(steady.placed)
    grown = [*items, rendered(4, "reply", "a"), rendered(5, "user", "a")]
    assert len(pair(grown, lambda *_: None, steady).messages) == len(grown)
    assert all(one is other for one, other in zip(before, steady.placed, strict=False))
    assert len(before) == len(items)
