"""What each turn's newest model call was given: ids, amounts and reasons, kept for a number of turns.

A context is noted in memory when it is handed out, and written with the messages that are stored next in its
conversation: with the turn's answer, as a rule. So it costs no transaction, and a call whose answer is never stored
leaves no record.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace

from lcm_plugin import forks
from lcm_plugin.lru import LruCache
from lcm_plugin.store.insight.contexts import SentContext, SentItem
from lcm_plugin.store.protocol import Writer
from lcm_plugin.types import InContext

_CONVERSATIONS = 16
_RUNS = 8
_LAYERS = {"instruction": "instructions", "summary": "summaries", "standing": "pins"}
_MERGED = ("instructions", "messages")

Shown = tuple[InContext, ...]
Items = tuple[SentItem, ...]
Noted = tuple[SentContext, Shown]


class ContextLog(forks.FreshLocks):
    """Notes contexts and writes them with the next messages. Thread-safe."""

    def __init__(self, turns: int) -> None:
        """``turns`` is how many turns of a conversation are kept; 0 for none."""
        self._turns = turns
        self._lock = threading.Lock()
        self._waiting: LruCache[int, tuple[Noted, ...]] = LruCache(_CONVERSATIONS)
        self._newest: LruCache[int, tuple[Shown, Items]] = LruCache(_CONVERSATIONS)
        forks.join(self)

    def note(self, call: SentContext, shown: Shown) -> None:
        """Takes what a call is given, ``shown`` of its conversation. The same again is the same call."""
        number = call.conversation_id
        if not self._turns or not shown or self._newest.get(number, ((), ()))[0] is shown:
            return
        with self._lock:
            waiting = list(self._waiting.get(number, ()))
            for one in waiting:
                if one[1] is shown:
                    return
                if one[0].request_id == call.request_id:
                    call = replace(call, calls=one[0].calls + 1)
                    waiting.remove(one)
                    break
            self._waiting.put(number, (*waiting[1 - _RUNS :], (call, shown)))

    def write(self, writer: Writer, conversation_id: int) -> Sequence[Noted]:
        """Writes what waits for a conversation and returns it; `written` follows once that is committed."""
        waiting = self._waiting.get(conversation_id, ())
        for call, shown in waiting:
            items = self._items(conversation_id, shown)
            writer.keep_sent_context(replace(call, items=items), self._turns)
        return waiting

    def written(self, conversation_id: int, noted: Sequence[Noted]) -> None:
        """These wait no longer."""
        if noted:
            with self._lock:
                waiting = self._waiting.get(conversation_id, ())
                self._waiting.put(conversation_id, tuple(one for one in waiting if one not in noted))

    def _items(self, conversation_id: int, shown: Shown) -> Items:
        """The items of a context, which begins as the one before it did, as a rule."""
        before, items = self._newest.get(conversation_id, ((), ()))
        if shown[: len(before)] != before:
            before, items = (), ()
        items = items_of(shown[len(before) :], items)
        self._newest.put(conversation_id, (shown, items))
        return items


def items_of(shown: Iterable[InContext], before: Items = ()) -> Items:
    """What stands in a context behind the items ``before`` and they; messages that follow each other by number as one."""
    found = list(before)
    layer, first, last, tokens = "", 0, -1, 0
    cleared: list[int] = []

    def close() -> None:
        if last >= 0:
            found.append(
                SentItem(layer, f"msg_{first}", tokens, last if last > first else 0, 0, tuple(cleared))
            )

    if found and found[-1].layer in _MERGED and not found[-1].cuts and found[-1].ref.startswith("msg_"):
        run = found.pop()
        layer, first, tokens, cleared = run.layer, int(run.ref[4:]), run.tokens, list(run.cleared)
        last = run.last or first
    for one in shown:
        kind, ref = one.kind, one.ref
        own, cuts = _LAYERS.get(kind, "messages"), 0 if one.cleared else one.cuts
        if cuts or own not in _MERGED or not ref.startswith("msg_"):
            close()
            last = -1
            found.append(SentItem(own, ref, one.tokens, cuts=cuts))
            continue
        number = int(ref[4:])
        if number == last + 1 and own == layer:
            last, tokens = number, tokens + one.tokens
        else:
            close()
            layer, first, last, tokens, cleared = own, number, number, one.tokens, []
        if one.cleared:
            cleared.append(number)
    close()
    return tuple(found)
