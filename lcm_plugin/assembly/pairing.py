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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from lcm_plugin.assembly.entries import Answer, Caller, Direct, Entry, Orphans, Paired
from lcm_plugin.assembly.output import Output
from lcm_plugin.assembly.render import Rendered
from lcm_plugin.assembly.steady import Steady, direct_results
from lcm_plugin.messages.shape import only_call
from lcm_plugin.messages.stubs import shortened
from lcm_plugin.types import Message

FindCall = Callable[[Rendered, str], Message | None]
"""A bare assistant message with a result's call, from the store; None when no such call is stored."""


def pair(items: Sequence[Rendered], find_call: FindCall, steady: Steady | None = None) -> Paired:
    """The items with every call answered, every result behind its call, and every id unique.

    ``steady`` is the beginning of the list as it was paired last, which becomes this one's.
    """
    begun = steady or Steady()
    begun.follow(items)
    forward = _Forward(find_call, begun.direct)
    position = len(begun.items)
    while position < len(items):
        size = forward.take_direct(items, position)
        if not size:
            forward.take(items[position])
        position += size or 1
    return Output(forward.entries, forward.breaks, begun.placed, begun.unique.copy()).paired()


def stored_calls(
    items: Sequence[Rendered],
    restart: int,
    read: Callable[[Sequence[int]], Mapping[int, Message]],
    count: Callable[[str], int],
) -> FindCall:
    """Finds the calls of results whose call is not among the items: compacted, or left out.

    What ``/new`` took out, before ``restart``, stays out: the call of a result that came after it is not shown again.
    ``read`` gives messages by seq; it is called once, when a call is looked for.
    """
    found: Mapping[int, Message] | None = None

    def missing() -> Mapping[int, Message]:
        present = {item.group for item in items if item.calls}
        wanted = {
            item.group
            for item in items
            if item.answers and restart <= item.group < item.ordinal and item.group not in present
        }
        return read(sorted(wanted)) if wanted else {}

    def find(result: Rendered, call_id: str) -> Message | None:
        nonlocal found
        found = missing() if found is None else found
        message = found.get(result.group)
        call = only_call(message, call_id) if message else None
        return call and shortened(call, f"msg_{result.group}", count).message

    return find


class _Forward:
    """The pass over the messages: what stands where, and which result belongs to which call.

    ``direct`` are calls before the first of them, with their results.
    """

    def __init__(self, find_call: FindCall, direct: Mapping[str, tuple[Rendered, Answer]]) -> None:
        self.entries: list[Entry] = []
        self.breaks: list[int] = []
        self._find_call = find_call
        self._slots: dict[str, list[tuple[Caller, int]]] = {}
        self._open: list[Caller] = []
        self._waiting: list[Orphans] = []
        self._orphans: list[Orphans] = []
        self._direct = dict(direct)
        self._now = 0

    def take_direct(self, items: Sequence[Rendered], position: int) -> int:
        """Takes a call with its results if nothing about them is unusual; how many messages that were."""
        item = items[position]
        if not item.calls or self._waiting or any(call in self._slots for call in item.calls):
            return 0
        results = direct_results(items, position, self._direct)
        if results is None:
            return 0
        if self._open:
            self._now = item.ordinal
            self._close()
        for result in results:
            self._direct[result.answers[0]] = (item, Answer(result, 0))
        self.entries.append(Direct(item, results))
        return 1 + len(results)

    def take(self, item: Rendered) -> None:
        """The next message."""
        self._now = item.ordinal
        if item.answers:
            for index, call_id in enumerate(item.answers):
                self._answer(Answer(item, index), call_id)
            if item.with_words:
                self._close()
                # The words stand behind the notice of their message's results, which must not come in later.
                self._show_orphans(before=item.ordinal + 1)
                self.entries.append(item)
        elif item.calls:
            self._call(item)
        else:
            if item.kind != "reply":
                self._close()
            self.entries.append(item)

    def _call(self, item: Rendered) -> None:
        caller = Caller(item, [None] * len(item.calls))
        for index, call_id in enumerate(item.calls):
            caller.slots[index] = self._claim_early(call_id)
            self._slots.setdefault(call_id, []).append((caller, index))
        self._open.append(caller)
        self.entries.append(caller)
        if any(caller.slots):
            self._show(caller)

    def _claim_early(self, call_id: str) -> Answer | None:
        return _take_orphan(self._waiting, call_id)

    def _answer(self, answer: Answer, call_id: str) -> None:
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
        elif call_id and (call_id in self._slots or call_id in self._direct):
            self._again(answer, call_id)
        else:
            self._without_call(answer)

    def _unanswered(self, call_id: str) -> tuple[Caller, int] | None:
        """The open call with the id that waits longest; else the closed one that was made last."""
        if not call_id:
            waiting = [(caller, n) for caller in self._open for n, got in enumerate(caller.slots) if not got]
            newest = [pair for pair in waiting if pair[0] is waiting[-1][0]]
            return newest[0] if newest else None
        free = [(caller, index) for caller, index in self._slots.get(call_id, ()) if not caller.slots[index]]
        still_open = [pair for pair in free if not pair[0].closed]
        return still_open[0] if still_open else free[-1] if free else None

    def _again(self, answer: Answer, call_id: str) -> None:
        """One more result of an answered call: a real one replaces a made-up one, a copy is dropped."""
        caller, index = self._slots[call_id][-1] if call_id in self._slots else (None, 0)
        known = caller.slots[index] if caller else None
        if caller and known and known.is_synthetic and not answer.is_synthetic:
            if caller.closed:
                self.breaks.append(answer.item.ordinal)
            caller.slots[index] = answer
        elif not answer.is_synthetic and answer.text not in self._texts(call_id):
            made = caller.item if caller else self._direct[call_id][0]
            self._repeat(answer, only_call(made.message, call_id), call_id)

    def _texts(self, call_id: str) -> set[str]:
        known = [caller.slots[index] for caller, index in self._slots.get(call_id, ())]
        if call_id in self._direct:
            known.append(self._direct[call_id][1])
        return {answer.text for answer in known if answer}

    def _without_call(self, answer: Answer) -> None:
        last = self.entries[-1] if self.entries else None
        if not (isinstance(last, Orphans) and not last.shown):
            last = Orphans()
            self.entries.append(last)
            self._waiting.append(last)
            self._orphans.append(last)
        last.answers.append(answer)

    def _repeat(self, answer: Answer, call: Message | None, call_id: str) -> None:
        """The result with a copy of its call, where the result stands."""
        if call is None:
            return
        copied = replace(
            answer.item, message=call, tokens=-1, kind="call", calls=(call_id,), answers=(), with_words=False
        )
        caller = Caller(copied, [answer])
        self._slots.setdefault(call_id, []).append((caller, 0))
        self._open.append(caller)
        self.entries.append(caller)
        self._show(caller)

    def _show(self, caller: Caller) -> None:
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

    def _shut(self, caller: Caller) -> None:
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


def _take_orphan(groups: Sequence[Orphans], call_id: str) -> Answer | None:
    for orphans in groups:
        for answer in orphans.answers:
            if call_id and answer.item.answers[answer.index] == call_id:
                orphans.answers.remove(answer)
                return answer
    return None
