"""Talk of a wanted size, and models for compaction tests."""

from __future__ import annotations

import threading
import time
from random import Random
from typing import Any

from messages import assistant, call, result, user

from lcm_plugin.types import CompletionRequest

Message = dict[str, Any]

_WORDS = [
    "harbour", "lantern", "copper", "meadow", "signal", "ferry", "orchard", "gravel", "window",
    "compass", "ledger", "timber", "valley", "anchor", "bridge", "candle", "barrel", "saddle",
    "mirror", "kettle", "garden", "tunnel", "basket", "hammer", "needle", "ribbon", "socket",
    "marble",
]  # fmt: skip


def text_of(tokens: int, seed: int) -> str:
    """About so many tokens of plain words, others for another seed."""
    rng = Random(seed)
    words = [f"Note {seed}:"]
    while len(words) < tokens * 0.78:
        words.append(rng.choice(_WORDS) + ("." if rng.random() < 0.12 else ""))
    return " ".join(words)


def turns(count: int, tokens: int = 60, start: int = 0) -> list[Message]:
    """Turns of a user and an assistant message, each message of about so many tokens."""
    talk: list[Message] = []
    for number in range(start, start + count):
        talk += [user(text_of(tokens, 2 * number)), assistant(text_of(tokens, 2 * number + 1))]
    return talk


def tool_turn(number: int, calls: int, tokens: int) -> list[Message]:
    """One request with so many calls and results, and no answer yet."""
    talk = [user(f"Please do task {number} thoroughly. " + text_of(20, number))]
    for step in range(calls):
        talk += [
            call(f"c{number}-{step}", text=f"step {step}"),
            result(f"c{number}-{step}", text_of(tokens, 1_000 * number + step)),
        ]
    return talk


class Model:
    """A model that writes as many tokens as it was asked for. ``calls`` holds what it was sent."""

    def __init__(self, delay: float = 0.0, share: float = 0.4) -> None:
        self.calls: list[CompletionRequest] = []
        self._delay = delay
        self._share = share
        self._lock = threading.Lock()

    def __call__(self, request: CompletionRequest) -> str:
        with self._lock:
            self.calls.append(request)
            number = len(self.calls)
        time.sleep(self._delay)
        return self.answer(request, number)

    def answer(self, request: CompletionRequest, number: int) -> str:
        """A text of its own for each call."""
        return text_of(max(24, int(request.max_tokens * self._share)), 7_000 + number)


class GatedModel(Model):
    """A model whose answers wait until a test opens the gate."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()
        self.gate = threading.Event()

    def answer(self, request: CompletionRequest, number: int) -> str:
        self.asked.set()
        assert self.gate.wait(300), "the test never opened the gate"
        return super().answer(request, number)
