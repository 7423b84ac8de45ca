"""Sums over the questions of an evaluation, and the figures made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from statistics import mean, pstdev
from typing import Any, Self

from lcm_plugin.evaluation.bill import Bill


@dataclass(slots=True)
class Tally:
    """What one system did in one window; sums, so that the talks of a data set add up.

    ``evidence`` counts the questions of which every passage stands word for word in the context, of ``with_evidence``
    that name some. ``reached`` adds those whose passages one call of ``lcm_grep`` finds. ``agent_tokens`` are the
    prompt tokens of the requests that an agent needs, ``calls`` its tool calls. ``replies`` has, for each seed, the
    scores of the judged answers, and what the model calls cost.
    """

    questions: int = 0
    with_evidence: int = 0
    evidence: int = 0
    answers: int = 0
    answer_words: float = 0.0
    context_tokens: int = 0
    over_window: int = 0
    reached: int = 0
    calls: int = 0
    agent_tokens: int = 0
    searched: int = 0
    hit_1: int = 0
    hit_10: int = 0
    all_10: int = 0
    cost: float = 0.0
    cost_of_all: float = 0.0
    cached: int = 0
    prompted: int = 0
    replies: dict[str, Replies] = field(default_factory=dict)

    def charge(self, bill: Bill, bill_of_all: float) -> None:
        """Adds a talk's bill, and what the talk costs when all of it is sent every time."""
        self.cost += bill.cost
        self.cost_of_all += bill_of_all
        self.cached += bill.hits
        self.prompted += bill.hits + bill.misses

    def add(self, other: Tally) -> None:
        """Adds another talk's sums."""
        for name in (one.name for one in fields(self) if one.name != "replies"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for seed, replies in other.replies.items():
            self.replies.setdefault(seed, Replies()).add(replies)

    def as_dict(self) -> dict[str, Any]:
        """For a resume file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """From a resume file."""
        replies = {seed: Replies(**one) for seed, one in values["replies"].items()}
        return cls(**{**values, "replies": replies})

    def figures(self) -> dict[str, float | int | None]:
        """The figures of a table's row: shares in per cent, means of tokens and calls, dollars; None where none applies."""
        questions = self.questions
        return {
            "questions": questions,
            "hit_1": _percent(self.hit_1, self.searched),
            "hit_10": _percent(self.hit_10, self.searched),
            "all_evidence_10": _percent(self.all_10, self.searched),
            "evidence_in_view": _percent(self.evidence, self.with_evidence),
            "answer_words_in_view": _percent(self.answer_words, self.answers),
            "in_view_or_one_call": _percent(self.reached, self.with_evidence),
            "context_tokens": round(self.context_tokens / questions) if questions else None,
            "over_window": _percent(self.over_window, questions),
            "agent_tokens": round(self.agent_tokens / questions) if questions else None,
            "agent_calls": round(self.calls / questions, 2) if questions else None,
            "bill": _percent(self.cost, self.cost_of_all),
            "cache_share": _percent(self.cached, self.prompted),
            **_judged(self.replies.values()),
        }


@dataclass(slots=True)
class Replies:
    """The judged answers of one seed. ``dollars`` is None when a model's price is unknown."""

    judged: int = 0
    score: float = 0.0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    tool_calls: int = 0
    dollars: float | None = 0.0

    def add(self, other: Replies) -> None:
        """Adds other answers."""
        self.judged += other.judged
        self.score += other.score
        self.prompt_tokens += other.prompt_tokens
        self.answer_tokens += other.answer_tokens
        self.tool_calls += other.tool_calls
        known = self.dollars is not None and other.dollars is not None
        self.dollars = (self.dollars or 0.0) + (other.dollars or 0.0) if known else None


def _judged(seeds: Iterable[Replies]) -> dict[str, float | int | None]:
    """The mean score over the seeds and its standard deviation, with what an answer took."""
    rows = [one for one in seeds if one.judged]
    if not rows:
        return {}
    scores = [100 * one.score / one.judged for one in rows]
    judged = sum(one.judged for one in rows)
    dollars = [one.dollars for one in rows if one.dollars is not None]
    return {
        "judged": round(mean(scores), 1),
        "judged_deviation": round(pstdev(scores), 2),
        "seeds": len(rows),
        "model_prompt_tokens": round(sum(one.prompt_tokens for one in rows) / judged),
        "model_calls": round(sum(one.tool_calls for one in rows) / judged, 2),
        "dollars": round(sum(dollars), 4) if len(dollars) == len(rows) else None,
    }


def _percent(part: float, whole: float) -> float | None:
    return round(100 * part / whole, 1) if whole else None
