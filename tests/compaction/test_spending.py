"""What a long talk with tools costs in summary calls, and what happens when the spend guard ends them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, get_args

import pytest
from messages import assistant, call, result, user

from lcm_plugin import Engine, Session
from lcm_plugin.config import Policy
from lcm_plugin.events import Event
from lcm_plugin.plugin import LcmPlugin
from lcm_plugin.types import CompletionRequest, Turn

LANE = Session("agent:main:main", "run-1")
MINUTE = 60_000
WORDS = [f"{one}{two}" for one in ("val", "pum", "cist", "sens", "gaug", "relay") for two in range(60)]


def summary(request: CompletionRequest) -> str:
    """Words of the source, as a model of good will would repeat them."""
    words = [word for word in str(request.messages[-1]["content"]).split() if word.isalnum()]
    chosen = random.Random(len(words)).sample(words, min(100, len(words)))
    return f"The agent read {' '.join(chosen)}.\nExpand for details about: {', '.join(chosen[:4])}"


@dataclass
class Talk:
    """A host's turns, each with tools: what was summarised by extraction, by the number of the turn."""

    engine: Engine
    clock: Any
    window: int
    calls: int
    words: int
    extracted: list[int] = field(default_factory=list)
    limited: int = 0
    turn: int = 0

    def __post_init__(self) -> None:
        self.engine.subscribe(self._note)

    def go_on(self, turns: int) -> None:
        plugin = LcmPlugin(engine=self.engine)
        for _ in range(turns):
            rng = random.Random(self.turn)
            self._hand_over(
                plugin.before_turn, [user(f"step {self.turn} {' '.join(rng.choices(WORDS, k=30))}")]
            )
            rest: list[dict[str, Any]] = []
            for number in range(self.calls):
                name = f"c{self.turn}-{number}"
                rest += [call(name), result(name, " ".join(rng.choices(WORDS, k=self.words)))]
            self._hand_over(plugin.after_turn, [*rest, assistant(" ".join(rng.choices(WORDS, k=60)))])
            assert self.engine.wait_idle(60)
            self.clock.now += MINUTE
            self.turn += 1

    def _hand_over(self, hook: Callable[[Turn], object], messages: list[dict[str, Any]]) -> None:
        hook(Turn(LANE, messages, mode="append", window=self.window))

    def _note(self, event: Event) -> None:
        self.limited += event.name == "summary.spend_limited"
        if event.name == "compaction.pass" and event.fields.get("summary_level") == "extractive":
            self.extracted.append(self.turn)


@pytest.mark.long
def test_60_turns_with_tools_in_an_hour_do_not_use_up_the_defaults(
    open_engine: Callable[..., Engine], clock: Any
) -> None:
    engine = open_engine(completer=summary)
    talk = Talk(engine, clock, 128_000, calls=8, words=450)
    talk.go_on(60)
    assert engine.library.summaries(1)
    assert talk.limited == 0
    assert talk.extracted == []


@pytest.mark.long
@pytest.mark.parametrize("policy", get_args(Policy))
def test_extraction_because_of_the_guard_leaves_room_for_the_next_turns(
    open_engine: Callable[..., Engine], clock: Any, policy: Policy
) -> None:
    engine = open_engine(
        completer=summary,
        context_policy=policy,
        summary_max_tokens_per_window=1,
        summary_call_window_ms=100 * MINUTE,
    )
    talk = Talk(engine, clock, 64_000, calls=9, words=220)
    talk.go_on(60)
    times = sorted(set(talk.extracted))
    assert len(times) >= 3
    assert min(later - earlier for earlier, later in pairwise(times)) > 3
    assert engine.check().ok
