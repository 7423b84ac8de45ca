"""When compaction is due, and how far it goes. Pure rules over a conversation's running totals."""

from __future__ import annotations

from dataclasses import dataclass

from lcm_plugin.config import DEFAULT_BUDGET, LcmConfig, ThresholdMatch, ThresholdOverride
from lcm_plugin.globs import matches
from lcm_plugin.store.records import Conversation, Debt
from lcm_plugin.types import CompactionDecision, Reason

_MODEL_POINTS = 100
_SESSION_POINTS = 50
_WINDOW_POINTS = 20
TAIL_SHARE = 0.5
YIELDING_SHARE = 0.4
# A balanced tree keeps some ten nodes in the context; together they should leave room for the tail.
_NODE_SHARE = 1 / 32
_LEAST_TARGET = 96
_EMERGENCY_LEAF_FANOUT = 2
_MIN_CONDENSED_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Limits:
    """The settings that hold for one conversation, model and budget. All amounts are tokens."""

    budget: int
    soft: int
    hard: int
    tail_count: int
    tail_tokens: int
    chunk_tokens: int
    leaf_target: int
    condensed_target: int
    leaf_fanout: int
    fanout: int
    fanout_hard: int
    incremental_depth: int
    max_active_messages: int | None
    enabled: bool

    @property
    def min_condensed_tokens(self) -> int:
        """Least source tokens worth a condensation."""
        return int(self.chunk_tokens * _MIN_CONDENSED_SHARE)

    @property
    def yielding_tokens(self) -> int:
        """What the tail may hold when it yields."""
        return int(self.budget * YIELDING_SHARE)

    @property
    def emergency_leaf_fanout(self) -> int:
        """Least messages for a leaf pass past the hard limit."""
        return min(self.leaf_fanout, _EMERGENCY_LEAF_FANOUT)


def limits_for(
    config: LcmConfig,
    budget: int | None,
    *,
    overhead: int = 0,
    model: str | None = None,
    window: int | None = None,
    session_key: str = "",
) -> Limits:
    """Settings with the most specific override applied."""
    override = _best_override(config, model, window, session_key)
    total = min(budget or DEFAULT_BUDGET, config.max_assembly_token_budget or 1 << 62)
    threshold = override.context_threshold if override else config.context_threshold
    hard = max(threshold, config.hard_threshold)
    return Limits(
        budget=total,
        soft=max(1, int(threshold * total) - overhead),
        hard=max(1, int(hard * total) - overhead),
        tail_count=(override and override.fresh_tail_count) or config.fresh_tail_count,
        tail_tokens=config.fresh_tail_max_tokens or int(total * TAIL_SHARE),
        chunk_tokens=(override and override.leaf_chunk_tokens) or config.leaf_chunk_tokens,
        leaf_target=min(config.leaf_target_tokens, max(_LEAST_TARGET, int(total * _NODE_SHARE))),
        condensed_target=min(config.condensed_target_tokens, max(_LEAST_TARGET, int(total * _NODE_SHARE))),
        leaf_fanout=config.leaf_min_fanout,
        fanout=config.condensed_min_fanout,
        fanout_hard=config.condensed_min_fanout_hard,
        incremental_depth=config.incremental_max_depth,
        max_active_messages=config.max_active_messages,
        enabled=not config.autocompact_disabled,
    )


def decide(
    conversation: Conversation, limits: Limits, raw_outside_tail: int, debt: Debt | None
) -> CompactionDecision:
    """Whether compaction is due.

    The context's own tokens are compared with what the budget leaves after the host's overhead. A
    verdict that nothing could be done stands until a message or the context changes.
    """
    tokens = conversation.context_tokens
    reason = _pressure(conversation, limits, raw_outside_tail)
    if reason is Reason.BELOW_THRESHOLD:
        return CompactionDecision(False, reason, tokens, limits.soft)
    if not limits.enabled:
        return CompactionDecision(False, Reason.DISABLED, tokens, limits.soft)
    if debt is not None and _verdict_stands(debt, conversation):
        return CompactionDecision(False, Reason(debt.reason), tokens, limits.soft)
    return CompactionDecision(True, reason, tokens, limits.soft)


def _pressure(conversation: Conversation, limits: Limits, raw_outside_tail: int) -> Reason:
    tokens = conversation.context_tokens
    if tokens > limits.hard:
        return Reason.OVER_HARD_LIMIT
    if tokens > limits.soft:
        return Reason.OVER_THRESHOLD
    if limits.max_active_messages is not None and conversation.raw_items > limits.max_active_messages:
        return Reason.TOO_MANY_MESSAGES
    if raw_outside_tail >= limits.chunk_tokens:
        return Reason.LEAF_CHUNK_READY
    return Reason.BELOW_THRESHOLD


TERMINAL = frozenset({Reason.NOTHING_ELIGIBLE, Reason.NO_PROGRESS, Reason.BUDGET_UNREACHABLE})


def _verdict_stands(debt: Debt, conversation: Conversation) -> bool:
    if debt.state != "done" or debt.reason not in TERMINAL:
        return False
    return (debt.revision, debt.next_seq) == (conversation.revision, conversation.next_seq)


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
