"""The last look at a context: it holds to every provider's rules, or what breaks them is taken out.

Pairing and mending make contexts that hold. Should one not, the exchange at fault is left out and an event names
the rule: a stored history never stops a conversation.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lcm_plugin.assembly.notices import FAULTY
from lcm_plugin.events import EventBus
from lcm_plugin.lru import LruCache
from lcm_plugin.messages.blocks import is_instruction
from lcm_plugin.messages.markup import notice_block
from lcm_plugin.messages.shape import answer_ids, call_ids
from lcm_plugin.messages.validate import Rules, Seen, look_at, validate
from lcm_plugin.types import Context, Message

_CONTEXTS = 16


@dataclass(frozen=True, slots=True)
class _Passed:
    """A context that held to the rules, the rules' state behind its last message, and what was seen of each message."""

    messages: list[Message]
    rules: Rules
    seen: list[Seen]


class ContextCheck:
    """Applies the rules to what was added since a conversation's last context, or to all of it. Thread-safe."""

    def __init__(self, count: Callable[[Message], int], events: EventBus) -> None:
        self._count = count
        self._events = events
        self._passed: LruCache[int, _Passed] = LruCache(_CONTEXTS)

    def sound(self, conversation_id: int, context: Context) -> Context:
        """The context, or what of it holds to the rules."""
        faults = self._faults(conversation_id, context.messages)
        if not faults:
            return context
        messages = without_faults(context.messages)
        self._events.emit(
            "assembly.mended",
            level=logging.WARNING,
            conversation_id=conversation_id,
            rules=faults[:3],
            messages=len(context.messages) - len(messages),
        )
        return replace(
            context,
            messages=messages,
            tokens=sum(map(self._count, messages)),
            notices=(*context.notices, FAULTY),
            prefix_epoch=f"{context.prefix_epoch}-mended",
            cache_hint=None,
        )

    def _faults(self, conversation_id: int, messages: list[Message]) -> list[str]:
        passed = self._passed.get(conversation_id)
        if passed is not None and messages[: len(passed.messages)] == passed.messages:
            rules, fresh = passed.rules.copy(), list(map(look_at, messages[len(passed.messages) :]))
            seen = passed.seen + fresh
        else:
            rules, fresh = Rules(), _look_again(messages, passed)
            seen = fresh
        faults = rules.take(fresh)
        passed = _Passed(messages, rules.copy(), seen)
        faults += rules.end()
        if not faults:
            self._passed.put(conversation_id, passed)
        return faults


def _look_again(messages: Sequence[Message], passed: _Passed | None) -> list[Seen]:
    """What there is to see of each message, known from the last context for those that are the same objects."""
    known = {id(one): seen for one, seen in zip(passed.messages, passed.seen, strict=True)} if passed else {}
    return [known.get(id(message)) or look_at(message) for message in messages]


def without_faults(messages: Sequence[Message]) -> list[Message]:
    """The messages that hold to the rules, a notice where some were left out."""
    notice: Message = {"role": "user", "content": notice_block(FAULTY)}
    kept: list[Message] = []
    at = 0
    while at < len(messages):
        end = _exchange_end(messages, at)
        exchange = list(messages[at:end])
        if not _faults_of(exchange):
            kept += exchange
        elif not is_instruction(str(exchange[0].get("role"))) and (not kept or kept[-1] is not notice):
            kept.append(notice)
        at = end
    while kept and validate(kept):
        # What each exchange holds to alone may still break a rule between them: such as an id used twice.
        at = next(n for n in range(1, len(kept) + 1) if validate(kept[:n], for_model_call=n == len(kept)))
        start = max(n for n in range(at) if not answer_ids(kept[n]) or n == 0)
        kept[start : _exchange_end(kept, start)] = []
    return kept


def _exchange_end(messages: Sequence[Message], start: int) -> int:
    """Where the message at ``start`` ends together with the results that answer its calls."""
    end = start + 1
    if call_ids(messages[start]):
        while end < len(messages) and answer_ids(messages[end]):
            end += 1
    return end


def _faults_of(exchange: list[Message]) -> list[str]:
    rules = Rules()
    is_front = is_instruction(str(exchange[0].get("role")))
    asked: list[Message] = [] if is_front else [{"role": "user", "content": "asked"}]
    return rules.read([*asked, *exchange]) + rules.end(for_model_call=False)
