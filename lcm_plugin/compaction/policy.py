"""When compaction is due, and how far it goes. Pure rules over a conversation's running totals.

Settings that were set are taken as they were set. The others follow `contextPolicy`, whose rules are in `shapes`;
`docs/compaction.md` gives the reasons and the figures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from lcm_plugin.compaction.shapes import (
    CONDENSED_TARGET,
    MOST_PASSES,
    MOST_SOURCE,
    POLICIES,
    PUBLISHED_NODES,
    PUBLISHED_PREFIX,
    PUBLISHED_TAIL,
    TAIL_SHARE_OF_SOFT,
    Room,
    Wishes,
)
from lcm_plugin.config import LcmConfig, ThresholdMatch, ThresholdOverride
from lcm_plugin.sessions.globs import matches, matches_any
from lcm_plugin.store.records import Conversation, Debt
from lcm_plugin.types import CompactionDecision, Reason

EARLY_PART = 4 / 5
"""Economy: part of the threshold at which a small window compacts before the trigger amount is there."""
EMERGENCY_TAIL_SHARES = (0.4, 0.2, 0.0)
"""What the tail may hold in an emergency, as shares of the room; each is tried only if the last was not enough."""

_LEAST_ROOM_SHARE = 0.1
_EARLY_OUTSIDE_TOKENS = 4_000
_EMERGENCY_LEAF_FANOUT = 2
_MIN_CONDENSED_SHARE = 0.1
_RICH_PER_TARGET = 4
_KEPT_OF_MAX_MESSAGES = 0.75
_MODEL_POINTS = 100
_SESSION_POINTS = 50
_WINDOW_POINTS = 20


@dataclass(frozen=True, slots=True)
class Call:
    """The model call that a conversation's context is for. Amounts are tokens; ``window`` is the model's.

    ``focus`` are words that whoever asked for the compaction wants kept in detail. ``shown`` is the size of the talk
    in the host's own list, where the host sends that and takes the context in its place once the list is too long.
    """

    budget: int | None = None
    overhead: int = 0
    model: str | None = None
    window: int | None = None
    focus: str = ""
    shown: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Limits:
    """The settings that hold for one conversation and call. All amounts are tokens as we count them.

    ``early`` is the context size from which ``early_outside`` raw tokens outside the tail make a pass due;
    None when only ``trigger`` counts. ``verbatim`` are the newest raw tokens that a compaction below the soft limit
    leaves alone, whatever the tail holds. Above it, one takes ``passes`` chunks at a time, up to the tail. With
    ``clears_first``, summaries wait for the soft limit once clearing of old results made room. ``own_sizes``: chunks
    and summaries have the sizes of the policy, not somebody's own; ``own_tail``: so has the fresh tail.
    """

    call: Call
    room: int
    soft: int
    hard: int
    early: int | None
    early_outside: int
    trigger: int
    verbatim: int
    passes: int
    chunk_tokens: int
    min_condensed_tokens: int
    tail_count: int
    tail_tokens: int
    leaf_target: int
    condensed_target: int
    prefix_target: int
    leaf_fanout: int
    fanout: int
    fanout_hard: int
    incremental_depth: int
    max_active_messages: int | None
    enabled: bool
    captures_only: bool
    clears_first: bool
    own_sizes: bool
    own_tail: bool

    def target(self, depth: int) -> int:
        """The size that a summary of a depth aims at."""
        return self.condensed_target if depth else self.leaf_target

    @property
    def yielding_tokens(self) -> int:
        """What the tail may hold once it yields because of the soft limit."""
        return min(self.tail_tokens, int(self.soft * TAIL_SHARE_OF_SOFT))

    @property
    def rich_tokens(self) -> int:
        """A run of so many tokens is worth a leaf under pressure, however few its messages are."""
        return min(self.chunk_tokens, _RICH_PER_TARGET * self.leaf_target)

    @property
    def emergency_leaf_fanout(self) -> int:
        """Least messages for a leaf pass past the hard limit."""
        return min(self.leaf_fanout, _EMERGENCY_LEAF_FANOUT)

    def to_publish(self, raw_tokens: int) -> Limits:
        """As they hold shortly before the host takes a new context anyway, with so many raw tokens of talk.

        All that is worth a pass is compacted in one go: a beginning of the prompt that changes costs the same however
        much of it does. Less than a quarter of a chunk waits.
        """
        worthwhile = max(self.rich_tokens, self.chunk_tokens // 4)
        most_tail = max(self.verbatim, int(self.soft * PUBLISHED_TAIL))
        due = replace(
            self,
            trigger=min(self.trigger, worthwhile),
            passes=MOST_PASSES,
            clears_first=False,
            tail_tokens=min(self.tail_tokens, most_tail) if self.own_tail else self.tail_tokens,
        )
        owed = raw_tokens - self.verbatim
        return due._in_few_calls(raw_tokens, owed) if self.own_sizes and owed > self.chunk_tokens else due

    def _in_few_calls(self, raw_tokens: int, owed: int) -> Limits:
        """With as few summaries as can stand for so much: each call repeats the prompt, and short summaries are soon
        read again to be condensed."""
        calls = math.ceil(owed / MOST_SOURCE)
        most = min(CONDENSED_TARGET, self.prefix_target // PUBLISHED_NODES)
        scaled = self.leaf_target * owed // (calls * self.chunk_tokens)
        return replace(
            self,
            chunk_tokens=math.ceil(raw_tokens / calls),
            prefix_target=int(self.prefix_target * PUBLISHED_PREFIX),
            leaf_target=max(self.leaf_target, min(most, scaled)),
            condensed_target=max(self.condensed_target, most),
        )

    def to_wait(self) -> Limits:
        """As they hold while the host goes on with a list of its own: what is summarised now would be seen by nobody."""
        return replace(self, trigger=max(self.trigger, self.soft), early=None)

    @property
    def least_outside(self) -> int:
        """With fewer raw tokens than this the tail need not be looked at: nothing outside it can be due."""
        least = self.trigger if self.early is None else min(self.trigger, self.early_outside)
        return least + self.verbatim


def limits_for(config: LcmConfig, call: Call, *, session_key: str = "", factor: float = 1.0) -> Limits:
    """Settings with the most specific override applied.

    The thresholds are shares of what the host's overhead leaves of the budget: only that can be compacted.
    ``factor`` is how many tokens the provider counts for one of ours: the budget shrinks by it.
    It never lets the context outgrow the budget by our own count.
    """
    override = _best_override(config, call.model, call.window, session_key)
    total = config.budget(call.budget)
    room = max(1, int(total * _LEAST_ROOM_SHARE), total - call.overhead)

    def share(part: float) -> int:
        return max(1, min(int(part * (total / factor - call.overhead)), int(config.hard_threshold * room)))

    threshold = override.context_threshold if override else config.context_threshold
    hard = max(share(max(threshold, config.hard_threshold)), int(total * _LEAST_ROOM_SHARE))
    soft = max(min(hard, share(threshold)), int(total * _LEAST_ROOM_SHARE * threshold), 1)
    policy, whole = POLICIES[config.context_policy], Room(total, soft, hard)
    amounts, own = policy(whole, _wishes(config, override)), policy(whole, Wishes())
    tail_count, leaf_fanout = _tail_and_fanout(config, override)
    return Limits(
        call=call,
        room=room,
        soft=amounts.soft,
        hard=hard,
        early=min(soft, share(threshold * EARLY_PART)) if config.context_policy == "economy" else None,
        early_outside=min(_EARLY_OUTSIDE_TOKENS, max(1, total // 10)),
        trigger=amounts.trigger,
        verbatim=amounts.verbatim,
        passes=amounts.passes,
        chunk_tokens=amounts.chunk,
        min_condensed_tokens=int(amounts.chunk * _MIN_CONDENSED_SHARE),
        tail_count=tail_count,
        tail_tokens=amounts.tail,
        leaf_target=amounts.leaf_target,
        condensed_target=amounts.condensed_target,
        prefix_target=amounts.prefix,
        leaf_fanout=leaf_fanout,
        fanout=config.condensed_min_fanout,
        fanout_hard=min(config.condensed_min_fanout_hard, config.condensed_min_fanout),
        incremental_depth=config.incremental_max_depth,
        max_active_messages=config.max_active_messages,
        enabled=not config.autocompact_disabled,
        captures_only=captures_only(config, session_key),
        clears_first=amounts.verbatim > 0,
        own_sizes=amounts.sizes == own.sizes,
        own_tail=amounts.tail == own.tail,
    )


def captures_only(config: LcmConfig, session_key: str) -> bool:
    """Whether the settings leave the compaction of a session to its host."""
    return config.capture_only or matches_any(config.capture_only_session_patterns, session_key)


def in_force(config: LcmConfig, limits: Limits) -> dict[str, int]:
    """The values of the settings that scale, as they hold for one call; names as in Python, amounts in tokens."""
    return {
        "verbatim_tokens": limits.verbatim,
        "fresh_tail_max_tokens": limits.tail_tokens,
        "leaf_chunk_tokens": limits.chunk_tokens,
        "leaf_trigger_tokens": limits.trigger,
        "leaf_target_tokens": limits.leaf_target,
        "condensed_target_tokens": limits.condensed_target,
        "summary_prefix_target_tokens": limits.prefix_target,
        "bootstrap_max_tokens": config.bootstrap_tokens,
    }


def decide(
    conversation: Conversation, limits: Limits, raw_outside_tail: int, debt: Debt | None, now: int
) -> CompactionDecision:
    """Whether compaction is due.

    The context's own tokens are compared with what the budget leaves after the host's overhead. A
    verdict that nothing could be done stands until a message or the context changes; after a failure
    nothing is due before the next try. Used-up summary calls hold back only what can wait. Nothing is ever due where
    the host compacts.
    """
    tokens = conversation.context_tokens
    if limits.captures_only:
        return CompactionDecision(False, Reason.CAPTURE_ONLY, tokens, limits.soft)
    if host_compacts(debt):
        return CompactionDecision(False, Reason.HOST_COMPACTS, tokens, limits.soft)
    reason = _pressure(conversation, limits, raw_outside_tail)
    if reason is Reason.BELOW_THRESHOLD:
        return CompactionDecision(False, reason, tokens, limits.soft)
    if not limits.enabled:
        return CompactionDecision(False, Reason.DISABLED, tokens, limits.soft)
    if debt is not None and _verdict_stands(debt, conversation, reason, now):
        return CompactionDecision(False, Reason(debt.reason), tokens, limits.soft)
    return CompactionDecision(True, reason, tokens, limits.soft)


def host_compacts(debt: Debt | None) -> bool:
    """Whether a host said that it compacts the conversation itself."""
    return debt is not None and debt.reason == Reason.HOST_COMPACTS


def can_wait(conversation: Conversation, limits: Limits, *, growth: int = 0) -> bool:
    """Whether only the cost of future calls asks for compaction: no limit of the settings is passed.

    Nor will one be when the context has grown by ``growth`` tokens.
    """
    grown = replace(conversation, raw_tokens=conversation.raw_tokens + growth) if growth else conversation
    return _pressure(grown, limits, 0) is Reason.BELOW_THRESHOLD


def _pressure(conversation: Conversation, limits: Limits, outside: int) -> Reason:
    tokens = conversation.context_tokens
    if tokens > limits.hard:
        return Reason.OVER_HARD_LIMIT
    if tokens > limits.soft:
        return Reason.OVER_THRESHOLD
    if limits.max_active_messages is not None and conversation.raw_items > limits.max_active_messages:
        return Reason.TOO_MANY_MESSAGES
    early = limits.early is not None and tokens >= limits.early and outside >= limits.early_outside
    if early or outside >= limits.trigger:
        return Reason.LEAF_CHUNK_READY
    return Reason.BELOW_THRESHOLD


VERDICTS = frozenset(
    {
        Reason.NOTHING_ELIGIBLE,
        Reason.NO_PROGRESS,
        Reason.BUDGET_UNREACHABLE,
        Reason.DEFERRED,
        Reason.CALLS_USED_UP,
        Reason.MODEL_FAILED,
        Reason.CANCELLED,
        Reason.UNDONE,
    }
)


def _verdict_stands(debt: Debt, conversation: Conversation, pressure: Reason, now: int) -> bool:
    if debt.reason not in VERDICTS:
        return False
    if debt.reason == Reason.CALLS_USED_UP and pressure is not Reason.LEAF_CHUNK_READY:
        return False
    if debt.state in ("deferred", "failed") and now < debt.next_attempt_at:
        return True
    unchanged = (debt.revision, debt.next_seq) == (conversation.revision, conversation.next_seq)
    if debt.reason == Reason.UNDONE:
        # Somebody wants these words back: only a limit takes them away again, in a later turn if that can wait.
        return pressure is Reason.LEAF_CHUNK_READY or (unchanged and pressure is not Reason.OVER_HARD_LIMIT)
    return unchanged and debt.reason in (
        Reason.NOTHING_ELIGIBLE,
        Reason.NO_PROGRESS,
        Reason.BUDGET_UNREACHABLE,
    )


def _tail_and_fanout(config: LcmConfig, override: ThresholdOverride | None) -> tuple[int, int]:
    """Messages of the tail and least messages of a leaf pass, so that ``maxActiveMessages`` can be kept."""
    count = (override and override.fresh_tail_count) or config.fresh_tail_count
    most = config.max_active_messages
    if most is None:
        return count, config.leaf_min_fanout
    count = min(count, max(1, int(most * _KEPT_OF_MAX_MESSAGES)))
    return count, min(config.leaf_min_fanout, max(1, most - count))


def _wishes(config: LcmConfig, override: ThresholdOverride | None) -> Wishes:
    return Wishes(
        verbatim=config.verbatim_tokens,
        tail=config.fresh_tail_max_tokens,
        chunk=(override and override.leaf_chunk_tokens) or config.leaf_chunk_tokens,
        trigger=config.leaf_trigger_tokens,
        prefix=config.summary_prefix_target_tokens,
        leaf_target=config.leaf_target_tokens,
        condensed_target=config.condensed_target_tokens,
    )


def _best_override(
    config: LcmConfig, model: str | None, window: int | None, session_key: str
) -> ThresholdOverride | None:
    """The most specific matching rule; the earliest on a tie."""
    matching = [
        (points, -index, rule)
        for index, rule in enumerate(config.context_threshold_overrides)
        if (points := _specificity(rule.match, model, window, session_key)) > 0
    ]
    return max(matching, key=lambda entry: entry[:2])[2] if matching else None


def _specificity(match: ThresholdMatch, model: str | None, window: int | None, session_key: str) -> int:
    """Points of a rule whose every field matches; 0 when one does not."""
    points = 0
    if match.model is not None:
        if model != match.model:
            return 0
        points += _MODEL_POINTS
    if match.session_pattern is not None:
        if not matches(match.session_pattern, session_key):
            return 0
        points += _SESSION_POINTS
    if match.model_context_window_min is not None:
        if window is None or window < match.model_context_window_min:
            return 0
        points += _WINDOW_POINTS
    if match.model_context_window_max is not None:
        if window is None or window > match.model_context_window_max:
            return 0
        points += _WINDOW_POINTS
    return points
