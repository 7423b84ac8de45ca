"""A turn's budget, and the host's live copies of its messages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile
from numbers import Real
from typing import Any

from lcm_plugin.messages.blocks import calls_answered, calls_made, is_instruction, text_of, user_speaks
from lcm_plugin.messages.convert import as_message, rough_size
from lcm_plugin.messages.identity import identity_of
from lcm_plugin.messages.markup import is_own, plain_text
from lcm_plugin.messages.validate import validate
from lcm_plugin.types import LIST_MODES, Context, Message, Session, Turn


def turn_budget(turn: Turn) -> int | None:
    """The token budget that a host gives: the model's window, when it names one that can be used."""
    return turn.window if isinstance(turn.window, Real) and turn.window > 0 else None


def lane_of(given: Any) -> Session:
    """The session of a turn or reset; of what is neither, that itself, so that a hook names it instead of raising."""
    session: Session = getattr(given, "session", given)
    return session


def own_list(turn: Turn) -> Context | None:
    """The host's own list; None for a delta, which is no context: the host goes on with what it has."""
    if turn.mode not in LIST_MODES:
        return None
    own: list[Message] = list(turn.messages)
    return Context(own, rough_size(own) // 4)


def newest_request(messages: Sequence[Message]) -> int | None:
    """The index of the newest message in which a user says something that is none of our own texts."""
    return next((index for index in range(len(messages) - 1, -1, -1) if _is_request(messages[index])), None)


def with_live_copies(context: Context, turn: Turn, count: Callable[[Any], int], limit: int) -> Context:
    """The context with the host's own copies of its system message and of the current turn.

    A host may have decorated them (a task list, a date, keys of its own). A copy replaces the stored
    message only when it is the same one, when providers take it, and while the whole stays within
    ``limit`` tokens.
    """
    if turn.mode not in LIST_MODES or context.over_budget or not context.messages:
        return context
    pairs = _instructions(context.messages, turn.messages)
    pairs += _live_turn(context.messages, _since_newest_request(turn.messages))
    changed = [(index, dict(copy)) for index, copy in pairs if context.messages[index] != copy]
    if not changed:
        return context
    messages = list(context.messages)
    tokens = context.tokens
    for index, copy in changed:
        tokens += count(copy) - count(messages[index])
        messages[index] = copy
    if tokens > limit or validate(messages):
        return context
    first = changed[0][0]
    seed = json.dumps([context.prefix_epoch, *changed], default=str)
    hint = context.cache_hint if first == 0 else first - 1
    return replace(
        context,
        messages=messages,
        tokens=tokens,
        sent=context.sent and replace(context.sent, tokens=tokens),
        prefix_epoch=hashlib.sha256(seed.encode()).hexdigest()[:16],
        cache_hint=None if hint is None else min(hint, len(messages) - 1),
    )


def _instructions(ours: Sequence[Message], theirs: Sequence[Any]) -> list[tuple[int, Message]]:
    """Which of our leading instructions are which of the host's: all of its run, in order, or none."""
    run = list(takewhile(lambda message: is_instruction(message["role"]), map(as_message, theirs)))
    roles = [message["role"] for message in ours[: len(run)]]
    return list(enumerate(run)) if roles == [message["role"] for message in run] else []


def _since_newest_request(theirs: Sequence[Any]) -> list[Message]:
    """The host's messages from the newest request on, as they can be sent; none without a request."""
    found: list[Message] = []
    for value in reversed(theirs):
        found.append(as_message(value))
        if _is_request(found[-1]):
            return found[::-1]
    return []


def _live_turn(ours: Sequence[Message], theirs: Sequence[Message]) -> list[tuple[int, Message]]:
    """Which of our messages since the newest request are which of the host's, which begin with it."""
    mine = newest_request(ours)
    if mine is None or not theirs or not _is_same_request(ours[mine], theirs[0]):
        return []
    pairs = [(mine, theirs[0])]
    at = 1
    for index in range(mine + 1, len(ours)):
        found = next((n for n in range(at, len(theirs)) if _is_same(ours[index], theirs[n])), None)
        if found is not None:
            pairs.append((index, theirs[found]))
            at = found + 1
    return pairs


def _is_request(message: Message) -> bool:
    """Whether a user says something in it that is none of our own texts."""
    text = plain_text(message)
    return user_speaks(message) and (text is None or not is_own(text))


def _is_same(stored: Message, live: Message) -> bool:
    return stored == live or (
        stored.get("role") == live.get("role")
        and calls_made(stored) == calls_made(live)
        and calls_answered(stored) == calls_answered(live)
        and identity_of(stored) == identity_of(live)
    )


def _is_same_request(stored: Message, live: Message) -> bool:
    """Whether one text is the other with something put before, into or after it."""
    one, other = text_of(stored).strip(), text_of(live).strip()
    if one == other or (one and one in other) or (other and other in one):
        return True
    shared = _alike(one, other) + _alike(one[::-1], other[::-1])
    return 2 * shared >= min(len(one), len(other)) > 0


def _alike(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
