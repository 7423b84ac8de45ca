"""Telling the model that its room is nearly full of what no compaction makes smaller.

A line stands behind the result with which the running turn comes past the mark, or a notice before the request where
that is past it by itself. Either stays where it is while the turn goes on, and is gone with the next one; which earlier
turns had one is worked out again, so that a context says that its beginning changed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lcm_plugin.assembly.render import Rendered
from lcm_plugin.assembly.request import Request
from lcm_plugin.messages.blocks import with_line
from lcm_plugin.messages.markup import nearly_full_block, nearly_full_line
from lcm_plugin.types import Fixed, Message

# In a smaller room a line of warning would take what it warns of.
_LEAST_ROOM = 4_000
_FOR_A_PERSON = "Nearly full of what cannot be compacted: "
_FREE_SHARE, _LEAST_FREE_SHARE = 0.15, 0.05
_GRAINS = 64
_WORTH_NAMING = 0.1


@dataclass(frozen=True, slots=True)
class Warned:
    """The items of a context with the warning of the running turn.

    ``fixed`` is what fills the room, None where there is no warning; ``gone`` are the ids of the messages at which
    earlier turns had theirs. ``notice`` is the message before the request, if the warning is one.
    """

    items: Sequence[Rendered]
    fixed: Fixed | None = None
    gone: tuple[str, ...] = ()
    notice: Message | None = None


def with_warning(
    items: Sequence[Rendered], request: Request, standing: int, count: Callable[[Message], int]
) -> Warned:
    """``standing`` is what the standing layer before the items takes, in tokens."""
    begins = [n for n, item in enumerate(items) if item.is_request]
    if request.room < _LEAST_ROOM or not begins:
        return Warned(items)
    summaries = sum(item.tokens for item in items if item.kind == "summary")
    most = _mark(request) - standing - summaries
    gone = list[str]()
    for begin, end in itertools.pairwise(begins):
        if earlier := _passing(items[begin:end], most):
            gone.append(items[begin + earlier[0]].ref)
    found = _passing(items[begins[-1] :], most)
    if found is None:
        return Warned(items, gone=tuple(gone))
    fixed = Fixed(request.budget, request.budget - request.limit, standing, summaries, found[1])
    return _told(items, begins[-1] + found[0], fixed, tuple(gone), count)


def _mark(request: Request) -> int:
    """The tokens of talk above which less than 15 % of the call is free, or 5 % of what may be used of it.

    It moves by steps, so that a prompt of the host's that changes a little does not move it.
    """
    budget, grain = request.budget, _grain(request.budget)
    most = min(request.limit - _FREE_SHARE * budget, request.room - _LEAST_FREE_SHARE * budget)
    return int(most) // grain * grain


def _grain(budget: int) -> int:
    return max(1, budget // _GRAINS)


def _passing(turn: Sequence[Rendered], most: int) -> tuple[int, int] | None:
    """Where in a turn its warning belongs, and what it had come to by then; None when it needs none."""
    total = 0
    for n, item in enumerate(turn):
        if item.kind == "summary":
            continue
        total += item.tokens
        if total > most and (item.kind == "request" or with_line(item.message, "") is not None):
            return n, total
    return None


def _told(
    items: Sequence[Rendered], n: int, fixed: Fixed, gone: tuple[str, ...], count: Callable[[Message], int]
) -> Warned:
    item, parts = items[n], _parts_in_words(fixed)
    if item.kind == "request":
        notice: Message = {"role": "user", "content": nearly_full_block(parts)}
        one = Rendered(item.ordinal, notice, count(notice), "notice", item.ordinal, "other")
        return Warned([*items[:n], one, *items[n:]], fixed, gone, notice)
    message = with_line(item.message, nearly_full_line(item.ref, parts))
    assert message is not None
    told = replace(item, message=message, tokens=count(message))
    return Warned([*items[:n], told, *items[n + 1 :]], fixed, gone)


def parts_of(fixed: Fixed) -> Mapping[str, int]:
    """What fills a call, in words, with its tokens; the largest first."""
    parts = {
        "the system prompt and tools": fixed.host,
        "instructions and pins": fixed.standing,
        "summaries": fixed.summaries,
        "this turn": fixed.turn,
    }
    return dict(sorted(parts.items(), key=lambda part: -part[1]))


def in_words(fixed: Fixed) -> str:
    """The same for a person: a sentence that `told_in` knows again."""
    parts = ", ".join(f"{name} {tokens:,}" for name, tokens in parts_of(fixed).items() if tokens)
    return f"{_FOR_A_PERSON}{fixed.tokens:,} of {fixed.budget:,} tokens ({parts})."


def told_in(notices: Sequence[str]) -> str:
    """What such a sentence among a context's notices says; empty where there is none."""
    found = (one for one in notices if one.startswith(_FOR_A_PERSON))
    return next(found, "").removeprefix(_FOR_A_PERSON).removesuffix(".")


def _parts_in_words(fixed: Fixed) -> Sequence[str]:
    """The parts that fill a tenth of the budget or more. A host's prompt may change a little from call to call."""
    grain = _grain(fixed.budget)
    steady = parts_of(replace(fixed, host=fixed.host // grain * grain))
    named = [name for name, tokens in steady.items() if tokens >= _WORTH_NAMING * fixed.budget]
    return named or list(steady)[:1]
