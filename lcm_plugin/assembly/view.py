"""The part of a conversation's context that an assembly looks at, kept between turns.

A view is read once and then follows the conversation: a turn costs one query for what is new. It is read
again after a compaction, and whenever the conversation's totals say that something else changed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lcm_plugin.assembly.render import LatestPlan, Rendered, Renderer
from lcm_plugin.assembly.select import Selection, Wanted
from lcm_plugin.assembly.steady import Steady
from lcm_plugin.compaction.tail import TailBounds, tail_of
from lcm_plugin.lru import LruCache
from lcm_plugin.messages.identity import identity_of
from lcm_plugin.messages.stubs import STUB_TOKENS
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import Conversation, Item, MessageHead
from lcm_plugin.types import RunPosition

_PAGE = 256
_VIEWS = 16
_MOST_MEDIA = 4_000_000
MOST_ITEMS = 4_096
_OLDER_SUMMARIES = 64
_STUB_COST = STUB_TOKENS + 64
_COARSE = 8
_STEPS = 13
_LEAST_STEPPED = 2_048
_GRAINS = 16


@dataclass(frozen=True, slots=True)
class Plan:
    """What was selected of some items, kept as long as the same items are looked at."""

    items: tuple[Rendered, ...]
    selection: Selection


@dataclass(slots=True)
class View:
    """The newest items of one conversation, in order; ``shown`` has None where nothing can be shown."""

    conversation: Conversation
    items: list[Item]
    shown: list[Rendered | None]
    complete: bool
    older_summaries: dict[int, list[Item]] = field(default_factory=dict)
    users_within: dict[tuple[int, int], bool] = field(default_factory=dict)
    plans: dict[Wanted, Plan] = field(default_factory=dict)
    latest: dict[tuple[str, ...], LatestPlan | None] = field(default_factory=dict)
    steady: Steady = field(default_factory=Steady)

    @property
    def media(self) -> int:
        """Characters of images and other media in it."""
        return sum([one.media for one in self.shown if one is not None])

    @property
    def hidden_request(self) -> int:
        """The ordinal of the newest user's message that was shown and then hidden; 0 when none was."""
        for item in reversed(self.items):
            head = item.message
            if head and head.hidden and head.speaks and not _was_blank(head):
                return item.ordinal
        return 0


class Views:
    """Keeps the views of the conversations assembled last. Thread-safe: a view has one user at a time."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer
        self._kept: LruCache[int, View] = LruCache(_VIEWS)

    def open(self, reader: Reader, conversation: Conversation) -> View:
        """A view that is current for this reader; give it back with `keep`."""
        view = self._kept.pop(conversation.conversation_id)
        if view is not None and self._follow(reader, view, conversation):
            return view
        page = reader.newest_items(conversation.conversation_id, limit=_PAGE)
        return View(conversation, page, self._rendered(reader, conversation, page), len(page) < _PAGE)

    def keep(self, view: View) -> None:
        """Keeps a view for the next turn, unless media would make it heavy."""
        if view.media > _MOST_MEDIA:
            return
        self._kept.put(view.conversation.conversation_id, view)

    def reach(self, reader: Reader, view: View) -> bool:
        """Reads one more page of older items; False when there is none."""
        if view.complete or not view.items:
            return False
        page = reader.newest_items(
            view.conversation.conversation_id, before=view.items[0].ordinal, limit=_PAGE
        )
        view.items[:0] = page
        view.shown[:0] = self._rendered(reader, view.conversation, page)
        view.complete = len(page) < _PAGE
        return bool(page)

    def _rendered(
        self, reader: Reader, conversation: Conversation, items: Sequence[Item]
    ) -> list[Rendered | None]:
        """The items as they are shown in the talk, where the instructions in force are not."""
        in_force = conversation.instruction_seqs
        shown = self._renderer.render(reader, items)
        return [
            None if item.ordinal in in_force and item.message else one
            for item, one in zip(items, shown, strict=True)
        ]

    def _follow(self, reader: Reader, view: View, now: Conversation) -> bool:
        before = view.conversation
        if before == now:
            return True
        if before.revision != now.revision or now.next_seq < before.next_seq or _is_too_long(view):
            return False
        if before.instructions != now.instructions:
            return False
        new: list[Item] = []
        after = before.next_seq - 1
        while after < now.next_seq - 1 and (
            page := reader.oldest_items(now.conversation_id, after=after, limit=_PAGE)
        ):
            new += page
            after = page[-1].ordinal
        tokens = before.context_tokens + sum(item.tokens for item in new)
        if tokens != now.context_tokens or before.raw_items + len(new) != now.raw_items:
            return False
        view.items += new
        view.shown += self._rendered(reader, now, new)
        view.conversation = now
        return True


def seen_by(view: View, run: RunPosition) -> View:
    """The view of one of several runs that go on at the same time: it ends with the run's own turn.

    What other runs stored since that turn began is left out, however far they are, so that within a turn nothing
    moves. A row belongs to the turn when the rows before it lead back to the request and it is none itself; what was
    compacted does.
    """
    own: set[int] = set()
    left_out: set[int] = set()
    since = next((n for n in range(len(view.items), 0, -1) if view.items[n - 1].ordinal <= run.fork), 0)
    raw = {item.ordinal for item in view.items[since:] if item.message is not None}
    for item in view.items[since:]:
        head, seq = item.message, item.ordinal
        if head is not None and seq != run.turn:
            compacted = head.before > run.turn and head.before not in raw
            if head.speaks or (head.before not in own and not compacted):
                left_out.add(seq)
                continue
        if run.end is not None and seq > run.end:
            left_out.add(seq)
        elif head is not None:
            own.add(seq)
    if not any(
        one is not None and item.ordinal in left_out for item, one in zip(view.items, view.shown, strict=True)
    ):
        return view
    kept = [index for index, item in enumerate(view.items) if item.ordinal not in left_out]
    return View(
        view.conversation,
        [view.items[index] for index in kept],
        [view.shown[index] for index in kept],
        view.complete,
    )


@dataclass(frozen=True, slots=True)
class Horizon:
    """What a plan looks at: items from ``start`` to ``end``; what is newer is appended whole."""

    start: int
    end: int


def find_horizon(views: Views, reader: Reader, view: View, *, step: int, room: int) -> Horizon:
    """The horizon of a plan, a function of the stored rows up to its end alone.

    The end is the very end when ``step`` is 0, else the end of the group with which more than ``step`` tokens
    had come since the last plan. The start lies so far back that what is between could fill the room,
    messages counted as if they were shortened, and never within a group.
    """
    end = len(view.items) if step == 0 else _plan_end(views, reader, view, step)
    from_end = len(view.items) - end
    seen, cost, at, group = 0, 0, from_end, 0
    while True:
        while at < len(view.items):
            item = view.items[-1 - at]
            if (cost >= room or seen >= MOST_ITEMS) and (item.ordinal < group or seen >= 2 * MOST_ITEMS):
                return Horizon(len(view.items) - at, len(view.items) - from_end)
            shown = view.shown[-1 - at]
            cost += min(shown.tokens, _STUB_COST) if shown is not None else 0
            seen, at, group = seen + 1, at + 1, _group_begin(item, group)
        if not views.reach(reader, view):
            return Horizon(0, len(view.items) - from_end)


def tail_start(view: View, horizon: Horizon, bounds: TailBounds, grain: int, asked: Rendered | None) -> int:
    """Where the fresh tail of what a plan looks at begins; its tokens move by ``grain``, as the plan's budget does.

    ``asked`` is the newest request at the plan's end: all behind it belongs to the tail.
    """
    items = view.items[horizon.start : horizon.end]
    bounds = replace(bounds, tokens=math.ceil(bounds.tokens / grain) * grain)
    if asked is None or not any(item.message and item.ordinal == asked.ordinal for item in items):
        return tail_of(reversed(items), bounds).start
    return tail_of(reversed(items), bounds, asked.ordinal).start


def older_summaries(reader: Reader, view: View, before: int) -> list[Item]:
    """The newest summaries before an ordinal: they are worth more than the raw messages between."""
    if before not in view.older_summaries:
        view.older_summaries[before] = reader.newest_summary_items(
            view.conversation.conversation_id, before=before, limit=_OLDER_SUMMARIES
        )
    return view.older_summaries[before]


def older_request(reader: Reader, renderer: Renderer, view: View, before: int | None) -> Rendered | None:
    """The newest message before an ordinal in which a user speaks, unless a ``/new`` took it out."""
    conversation = view.conversation
    head = reader.newest_user(conversation.conversation_id, before=before)
    if head is None or head.seq < conversation.restart_seq:
        return None
    return renderer.render(reader, [Item(head.seq, "message", head.tokens, message=head)])[0]


def own_turn_spans(items: Sequence[Rendered]) -> dict[str, tuple[int, int]]:
    """For each summary that follows a request, by id: from that request to where it reaches."""
    spans: dict[str, tuple[int, int]] = {}
    request: int | None = None
    for item in items:
        if item.is_request:
            request = item.ordinal
        elif item.kind == "summary" and request is not None:
            spans[item.ref] = (request, item.last)
    return spans


def placed_before(items: Sequence[Rendered], before: dict[str, int]) -> list[Rendered]:
    """The items, each summary named in ``before`` just before the message with that ordinal."""
    waiting: dict[int, list[Rendered]] = {}
    for item in items:
        if item.ref in before:
            waiting.setdefault(before[item.ref], []).append(item)
    moved: list[Rendered] = []
    for item in items:
        if item.is_request:
            moved += waiting.get(item.ordinal, ())
        if item.ref not in before:
            moved.append(item)
    return moved


def plan_step(budget: int, room: int) -> int:
    """How far apart plans are made; 0 for at every call.

    A share of the budget, halved while it would leave more of the room unused than a tenth: halving keeps it the
    same when a host's overhead changes a little.
    """
    step = budget // _STEPS if budget >= _LEAST_STEPPED else 0
    while _STEPS * step > max(room, 0) * 17 // 16:
        step //= 2
    return step


def plan_grain(step: int) -> int:
    """By how many tokens a plan's bounds move, so that a small change of the room changes no plan."""
    return max(1, step // _GRAINS)


def _plan_end(views: Views, reader: Reader, view: View, step: int) -> int:
    """The end of the group with which the newest plan became due.

    Plans follow each other from the last coarse mark before the newest request on, one whenever more than
    ``step`` tokens came since; so a running turn is planned anew only when it has outgrown the room. Where the
    mark is too far back to look for, the last multiple of ``step`` in the running total serves.
    """
    since = _mark_before_request(views, reader, view, step)
    if since is None:
        return _group_end(view, _mark(views, reader, view, step, 0))
    at = end = _group_end(view, since)
    grown = 0
    while at < len(view.items):
        group_end = _group_end(view, len(view.items) - 1 - at)
        grown += sum(item.tokens for item in view.items[at:group_end])
        at = group_end
        if grown > step:
            end, grown = at, 0
    return end


def _mark_before_request(views: Views, reader: Reader, view: View, step: int) -> int | None:
    """How many items came since the last coarse mark at or before the newest request; None when too many."""
    at = 0
    while at < MOST_ITEMS:
        while at < min(len(view.items), MOST_ITEMS):
            shown = view.shown[-1 - at]
            if shown is not None and shown.is_request:
                passed = _mark(views, reader, view, step * _COARSE, at)
                return passed if passed <= MOST_ITEMS else None
            at += 1
        if at < MOST_ITEMS and not views.reach(reader, view):
            return at
    return None


def _mark(views: Views, reader: Reader, view: View, step: int, skipped: int) -> int:
    """How many items came since the running total passed a multiple of ``step``, but for the newest ``skipped``."""
    total = view.conversation.context_tokens
    total -= sum(item.tokens for item in view.items[len(view.items) - skipped :])
    at = skipped
    while at <= MOST_ITEMS:
        while at < min(len(view.items), MOST_ITEMS + 1):
            before = total - view.items[-1 - at].tokens
            if total // step > before // step:
                return at
            total, at = before, at + 1
        if at <= MOST_ITEMS and not views.reach(reader, view):
            break
    return at


def _group_begin(item: Item, before: int) -> int:
    """Where the group begins of which an item or one that came after it is a part."""
    own = item.message.group_seq if item.message else item.ordinal
    return min(own, before) if before and item.ordinal >= before else own


def _group_end(view: View, since: int) -> int:
    """The index behind the item after which ``since`` came, and behind what follows it and belongs to its group."""
    end = len(view.items) - since
    if end <= 0:
        return 0
    first = view.items[end - 1].ordinal
    while end < len(view.items) and (head := view.items[end].message) and head.group_seq <= first:
        end += 1
    return end


def _was_blank(head: MessageHead) -> bool:
    """Whether a hidden message never had anything to show."""
    return head.identity == identity_of({"role": head.role, "content": "", "sender": head.sender})


def _is_too_long(view: View) -> bool:
    return len(view.items) > 2 * MOST_ITEMS
