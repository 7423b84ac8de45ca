"""Why something stands in a call's context or not, and how the contexts of two calls differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice, takewhile
from typing import Any

from lcm_plugin.errors import NotFound
from lcm_plugin.messages.blocks import is_assistant
from lcm_plugin.recall.scope import family
from lcm_plugin.sessions.library import place_of
from lcm_plugin.store.insight.contexts import CLEARED, LAYERS, SentContext
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import Conversation, MessageHead, Summary
from lcm_plugin.text import plural
from lcm_plugin.types import Session

_NO_ROOM = "it stands in the active context, and there is no room for it in this call"
_HAD_NO_ROOM = "there was no room for it in this call"
_BYTES_A_TOKEN = 4

Measure = Callable[[Reader, Sequence[str]], Mapping[str, tuple[int, int]]]


@dataclass(frozen=True, slots=True)
class Reason:
    """Whether something stands in a context and why; ``way`` leads from the leaf over it to the summary in its place."""

    in_view: bool
    why: str
    way: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """What came into a context or left it for one reason: an id, and those that follow it up to ``last``."""

    first: str
    last: str
    count: int
    why: str
    way: tuple[str, ...] = ()


class Contents:
    """What one call was given, to be asked about. ``at`` is when that was, None for the next call."""

    def __init__(
        self, reader: Reader, conversation: Conversation, sent: SentContext, at: int | None = None
    ) -> None:
        self._reader = reader
        self._conversation = conversation
        self._at = at
        self.cuts = {ref: cuts for item in sent.items for ref, cuts in item.forms}
        self._tokens = {item.ref: item.tokens for item in sent.items if not item.last}
        self._quotes = sent.quotes
        numbers = [number for ref in self.cuts if (number := _number(ref))]
        self._newest = max(numbers, default=0)
        self._above: dict[str, Summary | None] = {}

    def why(self, ref: str) -> Reason:
        """The reason for one id; raises `NotFound` for one that is not stored."""
        place = place_of(self._reader, ref)
        if place is None and ref not in self.cuts:
            raise NotFound(f"there is no {ref[:40]}")
        row = self._conversation
        own = family(self._reader, Session(row.session_key, row.session_id))
        own_numbers = {row.conversation_id, *(one.conversation_id for one in own)}
        if place is not None and place[0] not in own_numbers:
            return Reason(False, "it belongs to another session, or to this one before its last reset")
        return self.reasons([ref])[ref]

    def reasons(self, refs: Sequence[str]) -> dict[str, Reason]:
        """The reasons for ids of this session."""
        numbers = [number for ref in refs if (number := _number(ref))]
        heads = {one.head.ref: one.head for one in self._reader.messages_by_id(numbers).values()}
        leaves = {f"msg_{number}": leaf for number, leaf in self._reader.covering_leaf(numbers).items()}
        return {ref: self._reason(ref, heads.get(ref), leaves.get(ref)) for ref in refs}

    def _reason(self, ref: str, head: MessageHead | None, leaf: str | None) -> Reason:
        if ref in self.cuts:
            cut = ", cleared" if self.cuts[ref] == CLEARED else ", shortened" if self.cuts[ref] else ""
            tokens = self._tokens.get(ref, tokens_of(head, self.cuts[ref]) if head else 0)
            return Reason(True, f"it stands in the context{cut}: {plural(tokens, 'token')}")
        if ref in self._quotes:
            return Reason(True, "it is quoted before the newest request, since it fits it")
        if head is not None:
            return self._of_message(head, leaf)
        if ref.startswith("sum_"):
            return self._of_summary(ref)
        return Reason(False, "it is not pinned any more, or there is no room for it")

    def _of_summary(self, ref: str) -> Reason:
        own = self._summary(ref)
        if own is None:
            return Reason(False, "it is not stored any more: it was taken apart, or written again")
        if self._is_later(own):
            return Reason(False, "it was made after this call")
        return self._covered(ref) or Reason(False, _NO_ROOM if self._at is None else _HAD_NO_ROOM)

    def _of_message(self, head: MessageHead, leaf: str | None) -> Reason:
        past = self._at is not None
        if past and head.message_id > self._newest:
            return Reason(False, "it came after this call")
        if head.withdrawn_at is not None and not (past and head.withdrawn_at > (self._at or 0)):
            return Reason(False, "the host took it back")
        if head.hidden and head.withdrawn_at is None:
            return Reason(False, "it is a record beside the talk, or was never sent: no model is shown it")
        if (covered := self._covered(head.ref, leaf)) is not None:
            return covered
        if head.conversation_id != self._conversation.conversation_id:
            return Reason(
                False, "its run of the session has ended; only what was carried over is in the context"
            )
        if leaf is None and head.withdrawn_at is None and not self._is_item(head):
            return Reason(False, "/new took it out of the context")
        if past:
            return Reason(False, _HAD_NO_ROOM)
        if is_assistant(head.role) and head.seq == self._conversation.next_seq - 1:
            return Reason(False, "it is the newest answer; the next message brings it along")
        return Reason(False, _NO_ROOM)

    def _covered(self, ref: str, leaf: str | None = None) -> Reason | None:
        """That a summary stands for something, of those that there were at the time; None when none covers it."""
        way: list[str] = []
        known = 0
        above = leaf if leaf is not None else self._above_of(ref)
        while above is not None and (own := self._summary(above)) is not None:
            way.append(above)
            if above in self.cuts:
                return Reason(False, f"it was summarised; {above} stands for it", tuple(way))
            if not self._is_later(own):
                known = len(way)
            above = self._above_of(above)
        if not known:
            return None
        why = "it was summarised, and that summary is not in the context either"
        return Reason(False, why, tuple(way[:known]))

    def _above_of(self, ref: str) -> str | None:
        if not ref.startswith("sum_"):
            return None
        return next(iter(self._reader.derived_from(ref)), None)

    def _summary(self, ref: str) -> Summary | None:
        if ref not in self._above:
            self._above[ref] = self._reader.summaries([ref]).get(ref)
        return self._above[ref]

    def _is_later(self, summary: Summary) -> bool:
        return self._at is not None and summary.created_at >= self._at

    def _is_item(self, head: MessageHead) -> bool:
        found = self._reader.oldest_items(head.conversation_id, after=head.seq - 1, limit=1)
        return bool(found) and found[0].ordinal == head.seq


def difference(
    reader: Reader, conversation: Conversation, older: SentContext, newer: SentContext, measure: Measure
) -> dict[str, Any]:
    """What came in and what left between two calls and why, and how much of the older one's beginning stayed.

    ``measure`` gives bytes and tokens of what is stored.
    """
    before = Contents(reader, conversation, older, older.sent_at)
    after = Contents(reader, conversation, newer, newer.sent_at)
    came = [ref for ref in newer.refs if ref not in before.cuts]
    left = [ref for ref in older.refs if ref not in after.cuts]
    both = {ref: (before.cuts[ref], cuts) for ref, cuts in after.cuts.items() if ref in before.cuts}
    return {
        "from": older.turn,
        "to": newer.turn,
        "came": [asdict(one) for one in _changes(came, _coming(reader, before, older, came))]
        + [
            _quote(ref, "quoted, since it fits the request")
            for ref in newer.quotes
            if ref not in older.quotes
        ],
        "left": [asdict(one) for one in _changes(left, after.reasons(left))]
        + [
            _quote(ref, "quoted for the earlier request only")
            for ref in older.quotes
            if ref not in newer.quotes
        ],
        "cleared": [ref for ref, (was, now) in both.items() if now == CLEARED != was],
        "shortened": [ref for ref, (was, now) in both.items() if now > max(was, 0)],
        "whole_again": [ref for ref, (was, now) in both.items() if 0 <= now < was or was == CLEARED != now],
        "same": same_beginning(reader, older, newer, measure),
    }


def _coming(
    reader: Reader, before: Contents, older: SentContext, refs: Sequence[str]
) -> Mapping[str, Reason]:
    made = reader.summaries([ref for ref in refs if ref.startswith("sum_")])
    found = before.reasons(refs)
    for ref, summary in made.items():
        if summary.created_at >= older.sent_at:
            found[ref] = Reason(True, "a compaction made it since then")
    for ref in refs:
        if _number(ref) and found[ref].why == "it came after this call":
            found[ref] = Reason(True, "it came since then")
        elif ref.startswith("pin_"):
            found[ref] = Reason(True, "it was pinned since then, or there was no room for it")
        elif not found[ref].in_view and ref not in made:
            found[ref] = Reason(True, f"earlier: {found[ref].why}")
    return found


def _changes(refs: Iterable[str], reasons: Mapping[str, Reason]) -> list[Change]:
    """The ids with their reasons, messages that follow each other for one reason as one."""
    found: list[Change] = []
    for ref in refs:
        reason = reasons[ref]
        last = found[-1] if found else None
        follows = last is not None and 0 < _number(last.last) == _number(ref) - 1
        if last is not None and follows and (last.why, last.way) == (reason.why, reason.way):
            found[-1] = Change(last.first, ref, last.count + 1, last.why, last.way)
        else:
            found.append(Change(ref, ref, 1, reason.why, reason.way))
    return found


def unchanged(older: SentContext, newer: SentContext) -> list[str]:
    """The ids with which both contexts begin, in the same form, so that a provider may have the beginning cached.

    The sentence on what is missing stands behind instructions and pins, quotes stand before the request. Another model
    has a cache of its own.
    """
    if older.model != newer.model:
        return []
    layers = LAYERS if older.notices == newer.notices else ("instructions", "pins")
    moved = older.quotes and (older.request_id, older.quotes) != (newer.request_id, newer.quotes)
    end = f"msg_{older.request_id}" if moved else ""
    same = takewhile(
        lambda pair: pair[0] == pair[1] and pair[0][0] in layers,
        zip(_forms(older), _forms(newer), strict=False),
    )
    return list(takewhile(lambda ref: ref != end, (one[1] for one, _ in same)))


def _forms(sent: SentContext) -> Iterator[tuple[str, str, int]]:
    return ((item.layer, ref, cuts) for item in sent.items for ref, cuts in item.forms)


def same_beginning(
    reader: Reader, older: SentContext, newer: SentContext, measure: Measure | None
) -> dict[str, Any]:
    """How much of the older context's beginning stands unchanged at the beginning of the newer one, and up to what.

    ``bytes`` are as JSON, of messages and summaries as they are stored now; None without ``measure``.
    """
    kept = unchanged(older, newer)
    tokens, size, left = 0, 0, len(kept)
    whole = measure(reader, kept) if measure else {}
    for item in older.items:
        forms = dict(islice(item.forms, max(left, 0)))
        left -= len(item.refs)
        part = item.tokens if left >= 0 else _stored_tokens(reader, forms)
        tokens += part if forms else 0
        for ref, cuts in forms.items():
            if ref not in whole:
                size += _BYTES_A_TOKEN * part // len(forms)
            elif cuts <= 0:
                size += whole[ref][0]
            else:
                size += whole[ref][0] * part // max(1, whole[ref][1])
    until = kept[-1] if kept else ""
    return {"tokens": tokens, "of": older.tokens, "bytes": size if measure else None, "until": until}


def _stored_tokens(reader: Reader, forms: Mapping[str, int]) -> int:
    heads = [one.head for one in reader.messages_by_id(list(map(_number, forms))).values()]
    return sum(tokens_of(head, forms[head.ref]) for head in heads)


def tokens_of(head: MessageHead, cuts: int) -> int:
    """What a stored message takes that stands whole in a context, or cleared."""
    return head.tokens if cuts != CLEARED or head.cleared_tokens is None else head.cleared_tokens


def _quote(ref: str, why: str) -> dict[str, Any]:
    return asdict(Change(ref, ref, 1, why))


def _number(ref: str) -> int:
    """The number of ``msg_…``; 0 for another id."""
    digits = ref[4:]
    return int(digits) if ref.startswith("msg_") and digits.isascii() and digits.isdigit() else 0
