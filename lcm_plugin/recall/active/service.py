"""Recall by itself: old passages that fit the newest request and are not in view, before the model answers.

*Whether*: only a request that asks for something, and only when one stored message, with the turns beside it, holds
enough of what the request is about (`SURE`, calibrated on recorded chats: see ``docs/recall.md``). A request that is
no question must be met more closely. When what is in view fits the request better, the view answers it.

*What*: the best messages by the ranking of ``lcm_grep``, word for word, cut round the match, within a budget. What
the session's own tools may not find, what was taken back or hidden, the running turn and answers of the recall tools
are never among them. A tool's output that gives orders comes last, and is marked.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from lcm_plugin.assembly.recalled import InView, Recalled
from lcm_plugin.assembly.render import Rendered
from lcm_plugin.compaction.plans import keeps_plan
from lcm_plugin.config import LcmConfig
from lcm_plugin.events import EventBus, log_failure, logger
from lcm_plugin.lru import LruCache
from lcm_plugin.messages.blocks import text_of
from lcm_plugin.messages.markup import recalled_block, recalled_line
from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.recall.active.asked import asks_enough, read_request
from lcm_plugin.recall.active.fit import Shares, gives_orders, may_be_quoted, names_it
from lcm_plugin.recall.active.outside import BEST, Outside, by_score, outside_of
from lcm_plugin.recall.match import Matcher, cut_around
from lcm_plugin.recall.query import parse_query
from lcm_plugin.recall.rank import Ranked
from lcm_plugin.recall.scope import Scope
from lcm_plugin.recall.semantic.meaning import Semantics
from lcm_plugin.recall.textsearch import Effort, TextSearch
from lcm_plugin.recall.times import AskedTimes, named_periods
from lcm_plugin.recall.weaker import resolve
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import Conversation, message_ref
from lcm_plugin.store.search import Filter, SearchRow
from lcm_plugin.types import Message, Session

# Quotes take a twentieth of the room; where that is less than so many tokens, up to so many and a tenth.
SHARE_OF_ROOM, SHARE_OF_SMALL_ROOM, SMALL_TOKENS = 20, 10, 750
PASSAGE_CHARS = 600
LEAST_TOKENS = 100
MOST_LAG = 500
LAGS = "the search index lags behind"
EFFORT = Effort(pool=80, expanded=20, proposed=1_000, seconds=0.5, pages=False)
CANDIDATES, LEAST_LINE = 60, 20
# More characters than these a token does not hold in any language.
CHARS_OF_TOKEN = 8
# What a line costs less when its day stands above.
DAY_TOKENS = 8
MOST_WEAKENED = 1
# What scores less than this share of the best is not worth its tokens: it says little about what is asked.
LEAST_OF_BEST = 0.1
_TURNS = 256
_TURNS_EACH = 4


@dataclass(frozen=True, slots=True)
class Bounds:
    """How sure recall must be that anything fits, and of each message.

    ``beside_view``: how the best one outside the view must score beside the best of all. ``most``: the share of the
    tokens that quotes may take.
    """

    sure: float
    each: float
    beside_view: float
    most: float


QUESTION, STATEMENT = Bounds(0.15, 0.002, 0.4, 1.0), Bounds(0.6, 0.3, 1.0, 0.5)


@dataclass(frozen=True, slots=True)
class Passage:
    """A message to quote. ``sure`` is 0 to 1: the share of what is asked that it holds, less where others fit better."""

    row_id: int
    sure: float

    @property
    def ref(self) -> str:
        """The message's id."""
        return message_ref(self.row_id)


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided for a turn: what to quote, in order, and why. ``sure`` is how much of it the best ones hold."""

    asked: str
    passages: tuple[Passage, ...] = ()
    budget: int = 0
    sure: float = 0.0
    reason: str = ""


class _Conversation:
    """The newest turns of a conversation by id and version of the request, and the newest seqs with passages."""

    def __init__(self) -> None:
        self.decisions: LruCache[tuple[str, int, int], Decision] = LruCache(_TURNS_EACH)
        self.newest: Decision | None = None
        self.newest_request = ""
        self.shown_at: list[int] = []


class ActiveRecall:
    """Decides for each turn, and remembers it while the turn runs. Thread-safe."""

    def __init__(
        self,
        config: LcmConfig,
        counter: TokenCounter,
        events: EventBus,
        semantics: Semantics,
        scope: Callable[[Reader, Session], Scope],
        clock: Callable[[], int],
    ) -> None:
        self._config = config
        self._counter = counter
        self._events = events
        self._semantics = semantics
        self._scope = scope
        self._clock = clock
        self._lock = threading.Lock()
        self._known: LruCache[int, _Conversation] = LruCache(_TURNS)

    def wants(self, conversation: Conversation) -> bool:
        """Whether it is on, and something of the session's history may be out of view."""
        return self._config.active_recall == "on" and conversation.message_count > 0

    def kept(
        self, reader: Reader, conversation: Conversation, ref: str, version: int
    ) -> tuple[bool, Recalled | None]:
        """Whether a turn was decided already, and its passages as their rows are now."""
        decision = self._find(conversation, ref, version)
        if decision is None:
            return False, None
        return True, self._quoted(reader, decision) if decision.passages else None

    def decide(
        self, reader: Reader, conversation: Conversation, request: Rendered, view: InView
    ) -> Recalled | None:
        """The passages for a request that is stored, from what came before it."""
        newest = int(request.ref.removeprefix("msg_")) - 1
        asked = text_of(request.message)
        where = (conversation.conversation_id, conversation.session_key)
        scope = partial(self._reach, reader, conversation, view)
        decision, recalled = self._decided(reader, where, scope, asked, newest, view)
        key = (request.ref, request.version, conversation.revision)
        self._keep(conversation.conversation_id, key, decision, request.ordinal if recalled else 0)
        return recalled

    def for_text(
        self,
        reader: Reader,
        conversation: Conversation,
        asked: str,
        view: InView,
        among: Scope | None = None,
    ) -> Recalled | None:
        """The passages for a request that is not stored yet: for a host that adds them to it itself.

        ``among``: where to look, if the host says so.
        """
        if not self.wants(conversation):
            return None
        newest = reader.newest_row("message")
        if view.taken_back is not None:
            newest = min(newest, view.taken_back - 1)
        where = (conversation.conversation_id, conversation.session_key)

        def reach() -> Scope | None:
            return among or self._reach(reader, conversation, view)

        decision, recalled = self._decided(reader, where, reach, asked, newest, view)
        self._keep(conversation.conversation_id, ("next", newest, conversation.revision), decision, 0)
        return recalled

    def within(
        self, reader: Reader, session_key: str, scope: Scope, asked: str, view: InView
    ) -> Recalled | None:
        """The passages for a request from the conversations of a scope: for a host that says itself where to look."""
        if self._config.active_recall != "on":
            return None
        newest = reader.newest_row("message")
        return self._decided(reader, (None, session_key), lambda: scope, asked, newest, view)[1]

    def lags(self, conversation_id: int) -> bool:
        """Whether the last request was not looked for, since too much is not indexed."""
        decision = self.last(conversation_id)
        return decision is not None and decision.reason == LAGS

    def taken_out(self, conversation_id: int, place: int) -> int:
        """The seq of the newest request before ``place`` whose passages are gone since; 0 for none."""
        with self._lock:
            known = self._known.get(conversation_id)
            return max((seq for seq in known.shown_at if seq < place), default=0) if known else 0

    def last(self, conversation_id: int) -> Decision | None:
        """What was decided last in a conversation, in this process."""
        with self._lock:
            known = self._known.get(conversation_id)
            return known.newest if known else None

    def decided_for(self, conversation_id: int, ref: str) -> Decision | None:
        """The last decision, when it was for the request with this id."""
        with self._lock:
            known = self._known.get(conversation_id)
            return known.newest if known and known.newest_request == ref else None

    def _reach(self, reader: Reader, conversation: Conversation, view: InView) -> Scope | None:
        """Where a conversation's session may look; None when nothing of it is out of view."""
        scope = self._scope(reader, Session(conversation.session_key, conversation.session_id))
        return scope if view.left_out or _may_hold_more(conversation, scope) else None

    def _decided(
        self,
        reader: Reader,
        where: tuple[int | None, str],
        reach: Callable[[], Scope | None],
        asked: str,
        newest: int,
        view: InView,
    ) -> tuple[Decision, Recalled | None]:
        started = time.perf_counter()
        share = max(view.room // SHARE_OF_ROOM, min(SMALL_TOKENS, view.room // SHARE_OF_SMALL_ROOM))
        budget = min(self._config.recall_tokens, share, view.free)
        recalled = None
        try:
            decision, rows = self._choose(reader, reach, asked, newest, view, budget)
            if decision.passages:
                recalled = self._quoted(reader, decision, rows)
                shown = set(recalled.refs if recalled else ())
                kept = tuple(one for one in decision.passages if one.ref in shown)
                decision = replace(decision, passages=kept, reason="" if kept else "there is no room")
        except Exception as error:  # noqa: BLE001 - a turn goes on without
            log_failure(logger, "old messages could not be looked for", error=error)
            decision = Decision(asked, reason="it failed")
        self._events.emit(
            "recall.decided",
            level=logging.DEBUG,
            conversation_id=where[0],
            session_key=where[1],
            passages=len(recalled.refs) if recalled else 0,
            tokens=recalled.tokens if recalled else 0,
            sure=round(decision.sure, 2),
            reason=decision.reason,
            ms=round((time.perf_counter() - started) * 1000, 3),
        )
        return decision, recalled

    def _choose(
        self,
        reader: Reader,
        reach: Callable[[], Scope | None],
        asked: str,
        newest: int,
        view: InView,
        budget: int,
    ) -> tuple[Decision, dict[int, SearchRow]]:
        """What to quote, and the rows of it."""
        read = read_request(asked)
        question = read.words
        query = parse_query(question)

        def nothing(reason: str, sure: float = 0.0) -> tuple[Decision, dict[int, SearchRow]]:
            return Decision(question, sure=sure, reason=reason), {}

        if budget < LEAST_TOKENS:
            return nothing("there is no room")
        if not asks_enough(query):
            return nothing("the message asks for nothing that can be looked for")
        scope = reach()
        if scope is None:
            return nothing("nothing was compacted yet")
        index = reader.index_state()
        if not index.available or index.message_lag > MOST_LAG:
            return nothing(LAGS)
        rows = Filter(scope.filter_ids, up_to_id=newest)
        zone = self._config.timezone
        times = AskedTimes(tuple(named_periods(question, self._clock(), zone)[0]), zone)
        query = resolve(query, reader, "message", rows, MOST_WEAKENED).query
        search = TextSearch(reader, "message", query, rows, self._semantics, times, effort=EFFORT)
        found = search.by_relevance(CANDIDATES)
        plans = self._config.keep_latest_of
        ranked = (
            one
            for one in found.rows
            # Of plans only the newest counts, and that is in view.
            if one.score > 0
            and may_be_quoted(one.row, query)
            and not (one.row.tool_name and keeps_plan(plans, one.row.tool_name))
        )
        outside = outside_of(ranked, view, query)
        first = list(islice(outside, BEST))
        if not first:
            return nothing("nothing outside the view fits")
        asks = read.of_the_past or names_it(query, first[0])
        # For a question, a row beside may be one that is no passage itself: the same question, asked before.
        shares = Shares(found.weights, found.rows if asks else [*outside.rows, *outside.again])
        counts = None if asks else outside.holds
        sure = max(shares.of(one, counts) for one in first)
        bounds = QUESTION if asks else STATEMENT
        if sure < bounds.sure:
            return nothing("nothing fits well enough", sure)
        if outside.best < bounds.beside_view * outside.best_answer:
            return nothing("the view answers it", sure)
        budget = int(budget * bounds.most)
        chosen = _chosen(outside, bounds.each, lambda one: shares.of(one, counts))
        passages, shown = _as_many_as_fit(chosen, budget)
        return Decision(question, passages, budget, sure), {one.row.row_id: one.row for one in shown}

    def _quoted(
        self, reader: Reader, decision: Decision, rows: Mapping[int, SearchRow] | None = None
    ) -> Recalled | None:
        """As many of the rows as fit the budget, as they are now; those taken back since are left out.

        They stand in the order in which they were said, so that what was said last about a thing is read last; behind
        them those that give orders.
        """
        ids = [passage.row_id for passage in decision.passages]
        rows = reader.search_rows("message", ids) if rows is None else rows
        gone = reader.withdrawn_among(ids)
        matcher = Matcher(parse_query(decision.asked))
        kept: list[tuple[tuple[bool, int, int], str, str]] = []
        days = set[str]()
        left = decision.budget - self._counter.message(_message([]))
        for row_id in ids:
            if left < LEAST_LINE:
                break
            row = rows.get(row_id)
            if row is None or row_id in gone or not row.text.strip():
                continue
            text = row.text
            if len(text) > PASSAGE_CHARS:
                text = cut_around(text, matcher.find(text), PASSAGE_CHARS)
            line = recalled_line(row.ref, row.at, self._config.timezone, _who(row), text)
            day = line.split(" · ", 2)[1]
            cost = self._counter.text(f"\n{line}") - (DAY_TOKENS if day in days else 0)
            if cost <= left:
                left -= cost
                days.add(day)
                kept.append(((gives_orders(row), row.at, row.row_id), line, row.ref))
        # Tokens of lines do not add up exactly.
        while kept:
            said = sorted(kept)
            message = _message([line for _, line, _ in said])
            tokens = self._counter.message(message)
            if tokens <= decision.budget:
                return Recalled(message, tokens, tuple(ref for _, _, ref in said))
            del kept[-1]
        return None

    def _find(self, conversation: Conversation, ref: str, version: int) -> Decision | None:
        with self._lock:
            known = self._known.get(conversation.conversation_id)
            return known.decisions.get((ref, version, conversation.revision)) if known else None

    def _keep(
        self, conversation_id: int, key: tuple[str, int, int], decision: Decision, shown_at: int
    ) -> None:
        with self._lock:
            known = self._known.get(conversation_id) or _Conversation()
            self._known.put(conversation_id, known)
            if decision.reason != LAGS:
                known.decisions.put(key, decision)
            known.newest, known.newest_request = decision, key[0]
            if shown_at:
                known.shown_at = [*known.shown_at[-_TURNS_EACH:], shown_at]


def _chosen(
    outside: Outside, least: float, share_of: Callable[[Ranked], float]
) -> Iterator[tuple[Ranked, float]]:
    """The messages that may be shown, with how sure recall is of them, each text once, those that give orders last."""
    rows = sorted([*outside.rows, *outside.again], key=by_score) if outside.again else outside.rows
    best = None
    texts: set[str] = set()
    orders: list[tuple[Ranked, float]] = []
    for one in rows:
        if one.row.text in texts or (best and one.score < LEAST_OF_BEST * best):
            continue
        if not outside.holds(one):
            continue
        best = best or one.score
        if one.row.hidden:
            continue
        sure = share_of(one) * one.score / best
        if sure < least:
            continue
        texts.add(one.row.text)
        if gives_orders(one.row):
            orders.append((one, sure))
        else:
            yield one, sure
    yield from orders


def _as_many_as_fit(
    chosen: Iterable[tuple[Ranked, float]], budget: int
) -> tuple[tuple[Passage, ...], list[Ranked]]:
    """As many as the budget can hold by a low estimate, so that no more than these are looked at."""
    passages, rows, tokens = list[Passage](), list[Ranked](), 0
    for one, sure in chosen:
        passages.append(Passage(one.row.row_id, sure))
        rows.append(one)
        tokens += min(len(one.row.text), PASSAGE_CHARS) // CHARS_OF_TOKEN
        if tokens > budget:
            break
    return tuple(passages), rows


def _may_hold_more(conversation: Conversation, scope: Scope) -> bool:
    """Whether something was compacted, taken out by ``/new``, or said in an earlier conversation of the session."""
    return conversation.summary_items > 0 or conversation.restart_seq > 1 or len(scope.conversation_ids) > 1


def _who(row: SearchRow) -> str:
    if row.is_tool_output:
        name = f"tool {row.tool_name}" if row.tool_name else "tool"
        return f"{name}, unverified" if gives_orders(row) else name
    return row.sender or row.role


def _message(lines: Sequence[str]) -> Message:
    return {"role": "user", "content": recalled_block(lines)}
