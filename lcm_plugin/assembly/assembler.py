"""One model call's context from a conversation's items.

Everything is a function of the stored rows and the request: no clock, no counter. While all fits, each
turn appends to what the last one gave. When not all fits, a plan says what is left out or shortened; it
looks only at rows up to the last step of the running total, so that it stands until the next step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import is_

from lcm_plugin.assembly.check import ContextCheck
from lcm_plugin.assembly.latest import latest_plan
from lcm_plugin.assembly.nearly_full import Warned, with_warning
from lcm_plugin.assembly.notices import (
    ALONE,
    OPENING,
    OPENING_TOKENS,
    TOO_LARGE,
    instructions_text,
    left_out_text,
    pins_text,
)
from lcm_plugin.assembly.opening import insert_opening, turn_opening
from lcm_plugin.assembly.pairing import pair, stored_calls
from lcm_plugin.assembly.recalled import Recalled, Recaller, in_view, with_recalled, worth_caching
from lcm_plugin.assembly.render import Rendered, Renderer
from lcm_plugin.assembly.request import Choice, Draft, Request, epoch, nothing
from lcm_plugin.assembly.select import Selection, Wanted, scorer, select
from lcm_plugin.assembly.standing import StandingLayer
from lcm_plugin.assembly.view import (
    MOST_ITEMS,
    Plan,
    View,
    Views,
    find_horizon,
    older_request,
    older_summaries,
    own_turn_spans,
    placed_before,
    plan_grain,
    plan_step,
    seen_by,
    tail_start,
)
from lcm_plugin.events import EventBus
from lcm_plugin.lru import LruCache
from lcm_plugin.messages.blocks import is_instruction
from lcm_plugin.messages.markup import notice_block
from lcm_plugin.messages.shape import copy_message
from lcm_plugin.messages.stubs import LEAST_TOKENS
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.sessions.standing_rows import StandingRows
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import Conversation
from lcm_plugin.types import Context, Message, Pin

_ATTEMPTS = 8
_CONTEXTS = 16
_FAR = 1_024
_PLANS = 8
_SLACK = 8
_LEAST_OPENINGS = 128
_EVERYTHING = 1 << 62
_Key = tuple[Conversation, Request, tuple[Pin, ...]]


class Assembler:
    """Assembles contexts. Thread-safe."""

    def __init__(
        self, renderer: Renderer, counter: TokenCounter, events: EventBus, recaller: Recaller
    ) -> None:
        self._renderer = renderer
        self._counter = counter
        self._views = Views(renderer)
        self._recaller = recaller
        self._contexts: LruCache[_Key, Context] = LruCache(_CONTEXTS)
        self._check = ContextCheck(counter.message, events)

    def assemble(self, reader: Reader, rows: StandingRows, request: Request) -> Context:
        """The context of one conversation, such as every provider takes."""
        conversation = rows.conversation
        key = (conversation, request, rows.pins)
        context = self._contexts.get(key)
        if context is None:
            view = self._views.open(reader, conversation)
            seen = seen_by(view, request.run) if request.run else view
            context = self._assembled(reader, seen, request, rows)
            self._views.keep(view)
            context = self._check.sound(conversation.conversation_id, context)
            if view.media == 0 and not self._recaller.lags(conversation.conversation_id):
                self._contexts.put(key, context)
        return replace(context, messages=[copy_message(message) for message in context.messages])

    def _assembled(self, reader: Reader, view: View, request: Request, rows: StandingRows) -> Context:
        """The context with what recall finds for the newest request; without, when that takes too much room."""
        parts = (self._renderer, self._counter, self._views, self._recaller, reader, view, rows)
        plain = _Assembly(*parts, request)
        recalled = plain.recalled() if request.recall else None
        if recalled is None or plain.free >= recalled.tokens:
            return plain.context(recalled)
        # The turn has grown since: what was quoted at its beginning stays.
        less = replace(request, room=request.room - recalled.tokens, limit=request.limit - recalled.tokens)
        context = _Assembly(*parts, less).context(recalled)
        return context if context.recalled else plain.context()


class _Assembly:
    """The making of one context."""

    def __init__(
        self,
        renderer: Renderer,
        counter: TokenCounter,
        views: Views,
        recaller: Recaller,
        reader: Reader,
        view: View,
        rows: StandingRows,
        request: Request,
    ) -> None:
        self._renderer = renderer
        self._counter = counter
        self._views = views
        self._recaller = recaller
        self._reader = reader
        self._view = view
        self._request = request
        self._opening = turn_opening(reader, renderer, view, request.run)
        plan = latest_plan(reader, view, request.keep_latest_of)
        left = request.standing - sum(pin.tokens for pin in rows.pins)
        shown = renderer.plan(plan, left) if plan else None
        self._standing = StandingLayer(reader, renderer, rows, shown)
        self._newest = self._newest_request()
        self._made: tuple[Draft | None] | None = None

    def context(self, recalled: Recalled | None = None) -> Context:
        """What fits and ``recalled``, else the newest user message and what it needs."""
        draft = self._draft_of_all()
        return self._finished(draft, recalled) if draft else self._least(self._newest)

    @property
    def free(self) -> int:
        """Tokens of the room that the context leaves."""
        return self._request.room - draft.tokens if (draft := self._draft_of_all()) else 0

    def recalled(self) -> Recalled | None:
        """What recall finds for the newest request that is not in view, until it is answered."""
        conversation, request = self._view.conversation, self._newest
        newest = next((one for one in reversed(self._view.shown) if one is not None), None)
        is_answered = newest is not None and newest.kind == "reply"
        if request is None or is_answered or not self._recaller.wants(conversation):
            return None
        decided, recalled = self._recaller.kept(self._reader, conversation, request.ref, request.version)
        if decided:
            return recalled
        draft = self._draft_of_all()
        if draft is None:
            return None
        view = in_view(draft.choice, self._request.room, self.free)
        return self._recaller.decide(self._reader, conversation, request, view)

    def _draft_of_all(self) -> Draft | None:
        if self._made is None:
            self._made = (self._best(),)
        return self._made[0]

    def _best(self) -> Draft | None:
        """Everything if it fits, else what a plan says; None when neither does."""
        if self._may_all_fit():
            shown = self._shown(0, len(self._view.items))
            if self._opening is not None:
                shown = insert_opening(shown, self._opening)
            layer = self._standing.layer(self._request.room, self._standing.raw)
            draft = self._draft(Choice(shown, layer))
            if draft.tokens <= self._request.room and layer.is_whole:
                return draft
        return self._planned()

    def _may_all_fit(self) -> bool:
        """Whether what can be shown of the conversation, read back to its beginning, fills no more than the room."""
        view = self._view
        while sum(one.tokens for one in self._shown(0, len(view.items))) <= self._request.room:
            if view.complete or not self._views.reach(self._reader, view):
                return True
            if len(view.items) > MOST_ITEMS:
                break
        return False

    def _shown(self, start: int, end: int) -> list[Rendered]:
        """What is shown of some items, but for replies at the very end, which a model call cannot follow."""
        items = self._for_model(self._view.shown[start:end])
        while end == len(self._view.items) and items and items[-1].kind == "reply":
            items.pop()
        return items

    def _for_model(self, items: Sequence[Rendered | None]) -> list[Rendered]:
        model = self._request.model
        if model is None:
            return [item for item in items if item is not None]
        fitting = [
            item if item.author is None else self._renderer.for_model(item, model)
            for item in items
            if item is not None
        ]
        return [item for item in fitting if item is not None]

    def _planned(self) -> Draft | None:
        request, newest = self._request, self._newest
        needed = sum(item.tokens for item in self._needed(newest))
        beside = self._standing.layer(request.limit - needed, self._standing.raw).tokens
        step = 0 if request.by_relevance else plan_step(request.budget, request.room - beside)
        if step:
            grain = plan_grain(step)
            budget = (request.room - beside) // grain * grain - step
            draft = self._fitting(newest, needed, step, budget, budget + beside)
            if draft is not None and draft.tokens <= request.room:
                return draft
        return self._fitting(newest, needed, 0, request.room - beside, request.room)

    def _fitting(
        self, newest: Rendered | None, needed: int, step: int, budget: int, most: int
    ) -> Draft | None:
        """A draft whose planned part keeps within ``most`` tokens; None when even the least form does not."""
        budget -= min(OPENING_TOKENS, max(0, budget) // _LEAST_OPENINGS)
        for _ in range(_ATTEMPTS):
            choice = self._plan(step, budget, newest, needed)
            if not choice.fits:
                return None
            draft = self._draft(choice)
            excess = draft.tokens - choice.newer - most
            if excess <= 0:
                return draft
            budget -= excess + _SLACK
        return None

    def _newest_request(self, before: int = _EVERYTHING) -> Rendered | None:
        """The newest message before an ordinal in which a user speaks."""
        view = self._view
        while True:
            spoken = (one for one in reversed(view.shown) if one and one.is_request and one.ordinal < before)
            found = next(spoken, None)
            if found or len(view.items) > _FAR or not self._views.reach(self._reader, view):
                break
        if found is None and not view.complete:
            found = older_request(self._reader, self._renderer, view, min(before, view.items[0].ordinal))
        opening = self._opening
        if opening and opening.ordinal < before and (found is None or found.ordinal < opening.ordinal):
            found = opening
        return next(iter(self._for_model([found])), None)

    def _words(self, newest: Rendered) -> Rendered:
        return self._renderer.words_only(newest) if newest.with_words else newest

    def _plan(self, step: int, budget: int, newest: Rendered | None, needed: int) -> Choice:
        """What fits into ``budget``, seen from the last step; all that is newer is added."""
        request, view = self._request, self._view
        room = _EVERYTHING if request.by_relevance else max(0, budget)
        horizon = find_horizon(self._views, self._reader, view, step=step, room=room)
        items = self._shown(horizon.start, horizon.end)
        older = None
        if not view.complete or self._leaves_out(horizon.start, newest):
            first = view.items[horizon.start].ordinal if horizon.start < len(view.items) else 1 << 62
            older = view.items[horizon.start].ref if horizon.start < len(view.items) else None
            items = [*self._older(first, items), *items]
        newer = self._shown(horizon.end, len(view.items))
        # The request that was the newest at the plan's end stays in it until the next step.
        asked = self._newest_request(view.items[horizon.end].ordinal) if newer else newest
        for one in (asked, newest):
            if one is not None and not any(item.ref == one.ref for item in (*items, *newer)):
                items = sorted([*items, one], key=lambda item: item.ordinal)
        relevance = scorer(request.prompt) if request.by_relevance and request.prompt else None
        wanted = Wanted(budget, tail_start(view, horizon, request.tail, plan_grain(step), asked), relevance)
        selection = self._selection(items, wanted)
        last = next((item for item in reversed(items) if item.is_request), None)
        silent = budget - (self._words(last).tokens if last else 0) < 2 * OPENING_TOKENS
        chosen = self._from_a_user(selection.chosen) if silent else list(selection.chosen)
        begins = chosen[0].ref if chosen else None
        left_out = [item for item in selection.left_out if item.kind != "instruction"]
        missing = left_out_text(items, left_out, older)
        in_place = {item.ordinal for item in (*chosen, *newer) if item.kind == "instruction"}
        layer = self._standing.layer(request.limit - needed, in_place)
        refs = [item.ref for item in left_out]
        decisions = (begins, asked and asked.ref, older, refs, selection.cut, silent)
        grown = sum(item.tokens for item in newer)
        return Choice((*chosen, *newer), layer, missing, decisions, silent, grown, selection.fits)

    def _leaves_out(self, start: int, newest: Rendered | None) -> bool:
        """Whether before the first item of a horizon there is more than the newest request."""
        kept = newest.ref if newest else None
        return any(one is not None and one.ref != kept for one in self._view.shown[:start])

    def _selection(self, items: Sequence[Rendered], wanted: Wanted) -> Selection:
        """What is selected, worked out once for each plan."""
        plans = self._view.plans
        made = plans.get(wanted)
        if made and len(made.items) == len(items) and all(map(is_, made.items, items)):
            return made.selection
        selection = select(items, wanted, self._renderer.cut, self._renderer.words_only)
        if wanted.relevance is None:
            plans[wanted] = Plan(tuple(items), selection)
            while len(plans) > _PLANS:
                del plans[next(iter(plans))]
        return selection

    def _from_a_user(self, items: Sequence[Rendered]) -> list[Rendered]:
        """The items from the first user's message or summary on: there is no room for an opening."""
        at = next(
            (n for n, item in enumerate(items) if item.is_request or item.kind == "summary"), len(items)
        )
        return [self._words(items[at]), *items[at + 1 :]] if at < len(items) else []

    def _older(self, before: int, items: Sequence[Rendered]) -> list[Rendered]:
        known = {item.ref for item in items}
        summaries = older_summaries(self._reader, self._view, before)
        rendered = self._renderer.render(self._reader, summaries) if summaries else []
        return [item for item in rendered if item is not None and item.ref not in known]

    def _draft(self, choice: Choice, beside: Callable[[list[Rendered]], list[Rendered]] = list) -> Draft:
        warned = Warned(self._summaries_before_their_request(choice.chosen))
        if not choice.silent:
            warned = with_warning(warned.items, self._request, choice.layer.tokens, self._counter.message)
        ordered = beside(list(warned.items))
        restart = self._view.conversation.restart_seq
        find_call = stored_calls(ordered, restart, self._messages_at, self._counter.text)
        paired = pair(ordered, find_call, self._view.steady)
        placed = paired.messages
        first = next((one.message for one in placed if not is_instruction(one.message["role"])), None)
        if first is None:
            return Draft([], 0, choice, paired, None)
        opening = None if choice.silent else choice.missing
        if opening is None and first["role"] != "user":
            opening = OPENING
        front = [one.message for one in choice.layer.shown]
        tokens = choice.layer.tokens
        if opening is not None:
            front.append({"role": "user", "content": notice_block(opening)})
            tokens += self._counter.message(front[-1])
        tokens += sum(
            self._counter.message(one.message) if one.tokens is None else one.tokens for one in placed
        )
        messages = [*front, *(one.message for one in placed)]
        return Draft(messages, tokens, choice, paired, opening, warned.fixed, warned.notice, warned.gone)

    def _summaries_before_their_request(self, items: Sequence[Rendered]) -> list[Rendered]:
        """A summary of work on a request goes before the request, so that the user has the last word.

        That holds for summaries made while the request was the newest one, which cover no other.
        """
        spans = own_turn_spans(items)
        if not spans:
            return list(items)
        known, view = self._view.users_within, self._view
        asked = sorted({span for span in spans.values() if span not in known})
        if asked:
            busy = self._reader.users_within(view.conversation.conversation_id, asked)
            known.update({span: span in busy for span in asked})
        return placed_before(items, {ref: span[0] for ref, span in spans.items() if not known[span]})

    def _messages_at(self, seqs: Sequence[int]) -> dict[int, Message]:
        return self._renderer.message_at(self._reader, self._view.conversation.conversation_id, seqs)

    def _finished(self, draft: Draft, recalled: Recalled | None) -> Context:
        newest, place = self._newest, self._newest.ordinal if self._newest else _EVERYTHING
        if recalled is not None and newest is not None:
            draft = self._draft(draft.choice, lambda items: with_recalled(items, recalled, newest.ref))
        view, paired, layer = self._view, draft.paired, draft.choice.layer
        notices = (instructions_text(layer.left_out), pins_text(layer.pins_left_out), draft.choice.missing)
        settled = len(draft.messages) - len(paired.messages) + paired.settled
        notice, passages = draft.notice, recalled.message if recalled else None
        beside = [one for one in (notice, passages) if one is not None]
        authors = sorted({item.author for item in draft.choice.chosen if item.author})
        return Context(
            messages=draft.messages,
            tokens=draft.tokens,
            summaries=tuple(item.ref for item in draft.choice.chosen if item.kind == "summary"),
            notices=tuple(notice for notice in notices if notice),
            prefix_epoch=epoch(
                view.conversation.conversation_id,
                view.conversation.revision,
                view.hidden_request,
                [one.message for one in layer.shown],
                draft.opening,
                self._opening.ref if self._opening else None,
                draft.choice.decisions,
                paired.breaks,
                paired.open,
                draft.unsaid,
                authors,
                self._recaller.taken_out(view.conversation.conversation_id, place + (recalled is None)),
            ),
            recalled=recalled.refs if recalled else (),
            shown=(*layer.shown, *draft.choice.chosen),
            cache_hint=worth_caching(draft.messages, settled, beside),
            request=newest.ref if newest else "",
            crowded=draft.crowded,
        )

    def _least(self, newest: Rendered | None) -> Context:
        """The newest user message and the group to answer in its least form, with the instructions that fit beside."""
        needed, limit = self._needed(newest), self._request.limit
        bare = self._draft(Choice(needed, silent=True))
        if not bare.messages:
            return nothing(self._view.conversation.conversation_id)
        over = bare.tokens > limit
        layer = self._standing.layer(_EVERYTHING if over else limit - bare.tokens, ())
        draft = self._draft(Choice(needed, layer, silent=True))
        left_out = (instructions_text(layer.left_out), pins_text(layer.pins_left_out))
        return Context(
            messages=draft.messages,
            tokens=draft.tokens,
            over_budget=over,
            notices=(TOO_LARGE if over else ALONE, *filter(None, left_out)),
            prefix_epoch=epoch(self._view.conversation.conversation_id, "least", draft.messages),
            cache_hint=len(draft.messages) - 1,
            request=newest.ref if newest else "",
            shown=(*layer.shown, *needed),
        )

    def _needed(self, newest: Rendered | None) -> list[Rendered]:
        """The newest request's words and, when a model has yet to answer it, the newest group in its least form."""
        shown = [item for item in self._shown(0, len(self._view.items)) if item.kind != "instruction"]
        due: list[Rendered] = []
        if shown and shown[-1].kind in ("call", "result"):
            group = [item for item in shown if item.group == shown[-1].group and item.kind != "summary"]
            # A late result may bring what a user said before the newest request: that must not stand behind it.
            before = newest.ordinal if newest else 0
            due = [self._renderer.results_only(item) if item.ordinal < before else item for item in group]
            due = [self._renderer.cut(item, LEAST_TOKENS) for item in due]
        alone = newest is not None and all(item.ref != newest.ref for item in due)
        words = [self._renderer.cut(self._words(newest), LEAST_TOKENS)] if newest and alone else []
        return [*words, *due]
