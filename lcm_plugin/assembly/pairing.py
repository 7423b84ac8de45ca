"""Putting calls and results together, so that any provider accepts the list.

One pass forward, as the messages came. Each result stands directly behind its call; one that came late,
displaced, or just before its call is found again. A call without a result gets one marked result as
soon as something else follows; while nothing does, it is still open and is left out. A result whose call
is no longer in the context comes with a copy of that call where the result stands; a result whose call
nobody knows is named in a notice. Ids are made unique on both sides.

Since only what came before decides, what was shown once stays as it was. The exceptions are in
`Paired.breaks`: rows that changed something shown before, above all a result that came after its call
was given the marked one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from lcm_plugin.assembly.ids import UniqueIds
from lcm_plugin.assembly.render import Rendered
from lcm_plugin.assembly.shape import (
    answer_like,
    only_call,
    only_results,
    rename_calls,
    words_beside_results,
)
from lcm_plugin.markup import notice_block
from lcm_plugin.types import Message

NO_RESULT = "[lcm: no result of this call was recorded]"
_SYNTHETIC = ("[lcm: no result", "[lossless-claw] missing tool result")

FindCall = Callable[[Rendered, str], Message | None]
"""A bare assistant message with a result's call, from the store; None when no such call is stored."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A message of the output. ``tokens`` is None where it must be counted."""

    message: Message
    tokens: int | None
    reply: bool = False


@dataclass(frozen=True, slots=True)
class Paired:
    """The output, and what hosts need to know about its stability.

    ``breaks`` are the ordinals of rows that changed what had been shown before; ``open`` names calls
    whose marked result may yet be replaced; ``settled`` is how many messages will stay as they are.
    """

    messages: list[Placed]
    breaks: tuple[int, ...]
    open: tuple[str, ...]
    settled: int


@dataclass(slots=True)
class _Answer:
    item: Rendered
    index: int

    @property
    def is_synthetic(self) -> bool:
        content = self.item.message.get("content")
        return isinstance(content, str) and content.startswith(_SYNTHETIC)

    @property
    def text(self) -> str:
        return str(only_results(self.item.message, [self.index], [""]))


@dataclass(slots=True)
class _Caller:
    """A message with calls: ``shown`` once it stands in the output, ``closed`` once something follows."""

    item: Rendered
    slots: list[_Answer | None]
    shown: bool = False
    closed: bool = False


@dataclass(slots=True)
class _Orphans:
    """Results that came before their call, or without one."""

    answers: list[_Answer] = field(default_factory=list)
    shown: bool = False


_Entry = Rendered | _Caller | _Orphans


def pair(items: Sequence[Rendered], find_call: FindCall) -> Paired:
    """The items with every call answered, every result behind its call, and every id unique."""
    forward = _Forward(find_call)
    for item in items:
        forward.take(item)
    return _Output(forward.entries, forward.breaks).paired()


class _Forward:
    """The pass over the messages: what stands where, and which result belongs to which call."""

    def __init__(self, find_call: FindCall) -> None:
        self.entries: list[_Entry] = []
        self.breaks: list[int] = []
        self._find_call = find_call
        self._slots: dict[str, list[tuple[_Caller, int]]] = {}
        self._open: list[_Caller] = []
        self._waiting: list[_Orphans] = []
        self._orphans: list[_Orphans] = []
        self._now = 0

    def take(self, item: Rendered) -> None:
        """The next message."""
        self._now = item.ordinal
        if item.answers:
            for index, call_id in enumerate(item.answers):
                self._answer(_Answer(item, index), call_id)
            if item.with_words:
                self._close()
                self.entries.append(item)
        elif item.calls:
            self._call(item)
        else:
            if item.kind != "reply":
                self._close()
            self.entries.append(item)

    def _call(self, item: Rendered) -> None:
        caller = _Caller(item, [None] * len(item.calls))
        for index, call_id in enumerate(item.calls):
            caller.slots[index] = self._claim_early(call_id)
            self._slots.setdefault(call_id, []).append((caller, index))
        self._open.append(caller)
        self.entries.append(caller)
        if any(caller.slots):
            self._show(caller)

    def _claim_early(self, call_id: str) -> _Answer | None:
        return _take_orphan(self._waiting, call_id)

    def _answer(self, answer: _Answer, call_id: str) -> None:
        elsewhere = self._find_call(answer.item, call_id) if call_id else None
        if elsewhere is not None:
            self._repeat(answer, elsewhere, call_id)
            return
        found = self._unanswered(call_id)
        if found is not None:
            caller, index = found
            if caller.closed:
                self.breaks.append(answer.item.ordinal)
            caller.slots[index] = answer
            self._show(caller)
        elif call_id and call_id in self._slots:
            self._again(answer, call_id)
        else:
            self._without_call(answer)

    def _unanswered(self, call_id: str) -> tuple[_Caller, int] | None:
        """The open call with the id that waits longest; else the closed one that was made last."""
        if not call_id:
            waiting = [(caller, n) for caller in self._open for n, got in enumerate(caller.slots) if not got]
            newest = [pair for pair in waiting if pair[0] is waiting[-1][0]]
            return newest[0] if newest else None
        free = [(caller, index) for caller, index in self._slots.get(call_id, ()) if not caller.slots[index]]
        still_open = [pair for pair in free if not pair[0].closed]
        return still_open[0] if still_open else free[-1] if free else None

    def _again(self, answer: _Answer, call_id: str) -> None:
        """One more result of an answered call: a real one replaces a made-up one, a copy is dropped."""
        caller, index = self._slots[call_id][-1]
        known = caller.slots[index]
        assert known is not None
        if known.is_synthetic and not answer.is_synthetic:
            if caller.closed:
                self.breaks.append(answer.item.ordinal)
            caller.slots[index] = answer
        elif not answer.is_synthetic and all(
            answer.text != other.slots[n].text  # type: ignore[union-attr]
            for other, n in self._slots[call_id]
            if other.slots[n]
        ):
            self._repeat(answer, only_call(caller.item.message, call_id), call_id)

    def _without_call(self, answer: _Answer) -> None:
        last = self.entries[-1] if self.entries else None
        if not (isinstance(last, _Orphans) and not last.shown):
            last = _Orphans()
            self.entries.append(last)
            self._waiting.append(last)
            self._orphans.append(last)
        last.answers.append(answer)

    def _repeat(self, answer: _Answer, call: Message | None, call_id: str) -> None:
        """The result with a copy of its call, where the result stands."""
        if call is None:
            return
        copied = replace(
            answer.item, message=call, tokens=-1, kind="call", calls=(call_id,), answers=(), with_words=False
        )
        caller = _Caller(copied, [answer])
        self._slots.setdefault(call_id, []).append((caller, 0))
        self._open.append(caller)
        self.entries.append(caller)
        self._show(caller)

    def _show(self, caller: _Caller) -> None:
        """A call got its first result: it stands in the output, and so does all before it."""
        caller.shown = True
        if caller.closed:
            return
        position = self._open.index(caller)
        for earlier in self._open[:position]:
            self._shut(earlier)
        del self._open[:position]
        self._show_orphans(before=caller.item.ordinal)

    def _close(self) -> None:
        """Something else follows: what is open stays unanswered for now."""
        for caller in self._open:
            self._shut(caller)
        self._open.clear()
        self._show_orphans(before=self._now)

    def _shut(self, caller: _Caller) -> None:
        """Instead of a made-up result a call takes one that came long before it."""
        caller.shown = caller.closed = True
        for index, answer in enumerate(caller.slots):
            if answer is None:
                found = _take_orphan(self._orphans, caller.item.calls[index])
                if found is not None:
                    caller.slots[index] = found
                    self.breaks.append(self._now)

    def _show_orphans(self, before: int) -> None:
        kept = []
        for orphans in self._waiting:
            if orphans.answers and orphans.answers[0].item.ordinal < before:
                orphans.shown = True
            else:
                kept.append(orphans)
        self._waiting = kept


def _take_orphan(groups: Sequence[_Orphans], call_id: str) -> _Answer | None:
    for orphans in groups:
        for answer in orphans.answers:
            if call_id and answer.item.answers[answer.index] == call_id:
                orphans.answers.remove(answer)
                return answer
    return None


class _Output:
    """Writes the entries out, a trailing reply left out."""

    def __init__(self, entries: Sequence[_Entry], breaks: Sequence[int]) -> None:
        self._entries = entries
        self._breaks = breaks
        self._unique = UniqueIds()
        self._messages: list[Placed] = []
        self._open: list[str] = []
        self._settled = -1
        self._said: set[int] = set()

    def paired(self) -> Paired:
        """All of it."""
        for position, entry in enumerate(self._entries):
            if isinstance(entry, _Caller):
                if entry.shown:
                    self._exchange(entry, self._neighbour(position))
            elif isinstance(entry, _Orphans):
                if entry.shown and entry.answers:
                    self._messages.append(_notice(entry))
            elif entry.ordinal not in self._said:
                self._plain(entry)
        while self._messages and self._messages[-1].reply:
            self._messages.pop()
        settled = len(self._messages) if self._settled < 0 else min(self._settled, len(self._messages))
        return Paired(self._messages, tuple(self._breaks), tuple(self._open), settled)

    def _neighbour(self, position: int) -> Rendered | None:
        after = self._entries[position + 1] if position + 1 < len(self._entries) else None
        return after if isinstance(after, Rendered) and after.with_words else None

    def _plain(self, item: Rendered) -> None:
        if item.with_words:
            words = words_beside_results(item.message)
            assert words is not None
            self._messages.append(Placed(words, None))
        else:
            self._messages.append(Placed(item.message, item.tokens, item.kind == "reply"))

    def _exchange(self, caller: _Caller, neighbour: Rendered | None) -> None:
        item, start = caller.item, len(self._messages)
        names = [self._unique.name(call, f"call_{item.ordinal}_{n}") for n, call in enumerate(item.calls)]
        renamed = list(names) != list(item.calls)
        message = rename_calls(item.message, names) if renamed else item.message
        self._messages.append(Placed(message, None if renamed or item.tokens < 0 else item.tokens))
        results = _by_message(caller.slots)
        missing = [index for index, answer in enumerate(caller.slots) if answer is None]
        whole = neighbour if len(results) == 1 and not missing else None
        for result, slots in results:
            self._messages.append(_result(result, slots, names, whole))
            if whole is result:
                self._said.add(result.ordinal)
        for index in missing:
            self._messages.append(Placed(answer_like(item.message, names[index], index, NO_RESULT), None))
        made_up = any(answer.is_synthetic for answer in caller.slots if answer)
        if (missing and results) or made_up:
            self._open.append(f"{item.ref}:{missing}:{made_up}")
            if not caller.closed:
                self._settled = start


def _by_message(slots: Sequence[_Answer | None]) -> list[tuple[Rendered, list[tuple[int, int]]]]:
    """The results in the order in which they came, each with pairs of slot and place in the message."""
    found: dict[int, tuple[Rendered, list[tuple[int, int]]]] = {}
    for slot, answer in enumerate(slots):
        if answer is not None:
            found.setdefault(answer.item.ordinal, (answer.item, []))[1].append((slot, answer.index))
    return [found[ordinal] for ordinal in sorted(found)]


def _result(
    result: Rendered, slots: list[tuple[int, int]], names: Sequence[str], whole: Rendered | None
) -> Placed:
    complete = len(slots) == len(result.answers) and (not result.with_words or whole is result)
    if complete and all(names[slot] == result.answers[index] for slot, index in slots):
        return Placed(result.message, result.tokens)
    slots = sorted(slots, key=lambda pair: pair[1])
    part = only_results(result.message, [index for _, index in slots], [names[slot] for slot, _ in slots])
    if whole is result and result.with_words:
        words = words_beside_results(result.message)
        part = {**part, "content": [*part["content"], *(words or {}).get("content", ())]}
    return Placed(part, None)


def _notice(orphans: _Orphans) -> Placed:
    refs = " ".join(dict.fromkeys(answer.item.ref for answer in orphans.answers))
    text = f"Tool results whose call is not in this conversation: {refs}. Read them with lcm_describe."
    return Placed({"role": "user", "content": notice_block(text)}, None)
