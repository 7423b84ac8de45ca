"""The models for a purpose, in order, and one guarded way of calling them.

Order for a purpose: the model set for it and its fallbacks > the host's completer > ``summaryModel``
> none. Every call, the host's too, runs on a worker thread with a deadline, behind the circuit
breaker of its model, with one retry policy.
"""

from __future__ import annotations

import math
import queue
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar, cast

from lcm_plugin.background import CallThreads
from lcm_plugin.config import LcmConfig
from lcm_plugin.errors import (
    ModelAuthError,
    ModelError,
    ModelRateLimited,
    ModelTimeout,
    ModelUnavailable,
)
from lcm_plugin.events import EventBus
from lcm_plugin.summarize.answers import read_answer
from lcm_plugin.summarize.base import GuardStore
from lcm_plugin.summarize.guards import CircuitBreaker, MemoryGuards
from lcm_plugin.summarize.litellm_client import ContextTooLong, LitellmModel, load
from lcm_plugin.types import BatchCompleter, Completer, CompletionRequest, CompletionResult

HOST = "host"
_LONGEST_WAIT, _LONGEST_JITTER = 20.0, 0.5
_IMPORT_TIMEOUT = 120.0
_GRACE = 0.5
_POLL = 0.1
_TRANSIENT = (ModelRateLimited, ModelTimeout, ModelUnavailable)
_A = TypeVar("_A")
_T = TypeVar("_T")
_threads = CallThreads("lcm-model")


class NotAsked(ModelError):
    """No model was called: the host declined, or the spend limit is reached. No failure of the model."""


class Paused(ModelUnavailable):
    """No model was called: it failed before, and its pause is not over."""


@dataclass(frozen=True, slots=True)
class Route:
    """One way to a model. ``litellm`` is None for the host's completer, which may ignore ``model``."""

    provider: str
    model: str
    litellm: LitellmModel | None = None

    @property
    def name(self) -> str:
        """The node's stored model when the answer does not name one."""
        return self.litellm.full_name if self.litellm else HOST


class Completions:
    """Answers completion requests through the first route that works. Thread-safe."""

    def __init__(
        self,
        config: LcmConfig,
        events: EventBus,
        completer: Completer | None = None,
        guards: GuardStore | None = None,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._config = config
        self._events = events
        self._completer = completer
        self.breaker = CircuitBreaker(guards or MemoryGuards(), clock)
        self._cancelled = threading.Event()

    def routes(self, purpose: str = "summary", model: str = "") -> tuple[Route, ...]:
        """The ways to a model for a purpose, in the order in which they are tried; a named ``model`` first."""
        config = self._config
        own = (
            ("", model)
            if model
            else {
                "expansion": (config.expansion_provider, config.expansion_model),
                "map": (config.map_provider, config.map_model),
                "file_summary": (config.large_file_summary_provider, config.large_file_summary_model),
            }.get(purpose, (config.summary_provider, config.summary_model))
        )
        routes: list[Route] = []
        if own[1]:
            routes.append(self._litellm_route(*own))
            routes += self._fallbacks()
        if self._completer is not None:
            routes.append(Route(HOST, own[1] or config.summary_model))
        if config.summary_model:
            routes.append(self._litellm_route(config.summary_provider, config.summary_model))
        routes += self._fallbacks()
        return tuple(dict.fromkeys(routes))

    def available(self, purpose: str = "summary") -> bool:
        """Whether any model is set or given for a purpose."""
        return bool(self.routes(purpose))

    def complete(self, request: CompletionRequest, deadline: float | None = None) -> CompletionResult:
        """The first route's answer that came; the last failure's `ModelError` when none did.

        ``deadline`` is a `time.monotonic` value; ``request.timeout`` bounds each single call.
        """
        failure: ModelError = ModelUnavailable("no model is set and the host gives none")
        for route in self.routes(request.purpose, request.model or ""):
            try:
                return self.call(route, request, deadline)
            except ModelError as error:
                failure = error
        raise failure

    def batch_size(self, purpose: str, model: str = "") -> int:
        """How many requests the host's completer takes at once; 1 without `BatchCompleter`, or when it is not first."""
        completer, routes = self._completer, self.routes(purpose, model)
        if not isinstance(completer, BatchCompleter) or not routes or routes[0].litellm is not None:
            return 1
        return max(1, completer.batch_size)

    def complete_many(self, requests: Sequence[CompletionRequest]) -> list[CompletionResult | ModelError]:
        """The host's answers to a batch, in order, each an answer or its own failure.

        Raises `ModelError` when the batch as a whole failed. ``timeout`` of the first request bounds all of it.
        """
        completer = self._completer
        if not isinstance(completer, BatchCompleter):
            raise ModelUnavailable("the host's completer takes no batches")
        route = Route(HOST, requests[0].model or "")

        def ask(timed: CompletionRequest) -> list[CompletionResult | ModelError]:
            timely = [replace(one, timeout=timed.timeout) for one in requests]
            answers = _as_model_error(completer.complete_many, timely)
            if len(answers) != len(requests):
                raise ModelUnavailable(f"the host answered {len(answers)} of {len(requests)} requests")
            return [_one_of_many(answer) for answer in answers]

        return self._guarded(route, requests[0], None, None, ask)

    def call(
        self,
        route: Route,
        request: CompletionRequest,
        deadline: float | None = None,
        before_each: Callable[[], None] | None = None,
    ) -> CompletionResult:
        """One route's answer, retried once when that may help.

        ``before_each`` runs before every single call and may raise `NotAsked` to prevent it.
        """
        try:
            return self._attempt(route, request, deadline, before_each)
        except _TRANSIENT as error:
            if not self._should_retry(route, error, deadline):
                raise
            self._cancelled.wait(_pause(error))
        return self._attempt(route, request, deadline, before_each)

    def price(self, model: str, purpose: str) -> tuple[float, float] | None:
        """Dollars per million tokens of the first model for a purpose, prompts and answers; None when not known."""
        routes = self.routes(purpose, model)
        if not routes or routes[0].litellm is None:
            return None
        try:
            return on_worker(routes[0].litellm.price, _IMPORT_TIMEOUT, self._cancelled)
        except ModelError:
            return None

    def window(self, route: Route) -> int | None:
        """Most prompt tokens of a route's model, where that is known without asking anybody."""
        if route.litellm is None:
            return None
        try:
            return on_worker(route.litellm.window, _IMPORT_TIMEOUT, self._cancelled)
        except ModelError:
            return None

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Ends waiting calls and refuses new ones, for good."""
        self._cancelled.set()

    def _attempt(
        self,
        route: Route,
        request: CompletionRequest,
        deadline: float | None,
        before_each: Callable[[], None] | None,
    ) -> CompletionResult:
        return self._guarded(route, request, deadline, before_each, lambda timed: self._ask(route, timed))

    def _guarded(
        self,
        route: Route,
        request: CompletionRequest,
        deadline: float | None,
        before_each: Callable[[], None] | None,
        ask: Callable[[CompletionRequest], _T],
    ) -> _T:
        """One call on a thread of its own, with a deadline, behind the model's circuit breaker."""
        if self._cancelled.is_set():
            raise ModelUnavailable("cancelled")
        if route.litellm is not None:
            on_worker(load, min(_IMPORT_TIMEOUT, _left(deadline)), self._cancelled)
        left = min(request.timeout, _left(deadline))
        if left <= 0:
            raise ModelTimeout("the time for this work is over")
        if not self.breaker.allows(route.provider, route.model):
            raise Paused(f"{route.name} is paused after failures")
        if before_each is not None:
            before_each()
        timed = replace(request, timeout=left, model=route.model or request.model)
        try:
            answer = on_worker(lambda: ask(timed), left + _GRACE, self._cancelled)
        except (ContextTooLong, NotAsked):
            raise
        except ModelError as error:
            # A map's requests have nothing to do with each other: one that is refused says nothing of the model.
            if not (request.purpose == "map" and is_refusal(error)):
                self._failed(route, request, error)
            raise
        self.breaker.succeeded(route.provider, route.model)
        return answer

    def _ask(self, route: Route, request: CompletionRequest) -> CompletionResult:
        if route.litellm is not None:
            return route.litellm.complete(request)
        if self._completer is None:
            raise ModelUnavailable("the host gives no model")
        answer = _as_model_error(self._completer, request)
        if answer is None:
            raise NotAsked("the host passed the call on")
        return read_answer(answer, route.name)

    def _failed(self, route: Route, request: CompletionRequest, error: ModelError) -> None:
        if self._cancelled.is_set():
            return
        opened = self.breaker.failed(route.provider, route.model, error)
        self._events.emit(
            "model.failed",
            provider=route.provider,
            model=route.name,
            purpose=request.purpose,
            error=type(error).__name__,
            detail=str(error)[:300],
            breaker="open" if opened else "closed",
        )

    def _should_retry(self, route: Route, error: ModelError, deadline: float | None) -> bool:
        if self._cancelled.is_set():
            return False
        wait = error.retry_after or 0.0 if isinstance(error, ModelRateLimited) else 0.0
        if wait > _LONGEST_WAIT or wait >= _left(deadline):
            return False
        return not self.breaker.state(route.provider, route.model)["open_until"]

    def _fallbacks(self) -> list[Route]:
        return [self._fallback_route(model) for model in self._config.fallback_models]

    def _fallback_route(self, model: str) -> Route:
        """A fallback that names no provider is one more model of ``summaryProvider``."""
        provider = "" if "/" in model else self._config.summary_provider
        return self._litellm_route(provider, model)

    def _litellm_route(self, provider: str, model: str) -> Route:
        config = self._config
        named = provider or model.partition("/")[0]
        summary = config.summary_provider or config.summary_model.partition("/")[0]
        base_url = config.summary_base_url if named == summary else ""
        return Route(named, model, LitellmModel(provider, model, base_url))


def is_refusal(error: ModelError) -> bool:
    """Whether the provider does not take this one request; others it may."""
    return not isinstance(error, (*_TRANSIENT, ModelAuthError, NotAsked))


def _as_model_error(ask: Callable[[_A], _T], asked: _A) -> _T:
    """Calls the host's model, which may raise anything, and raises `ModelError` for it."""
    try:
        return ask(asked)
    except ModelError:
        raise
    except TimeoutError as error:
        raise ModelTimeout(f"the host's model: {error}") from error
    except Exception as error:
        raise ModelUnavailable(f"the host's model: {type(error).__name__}: {error}") from error


def _one_of_many(answer: object) -> CompletionResult | ModelError:
    if isinstance(answer, ModelError):
        return answer
    if isinstance(answer, Exception):
        return ModelUnavailable(f"the host's model: {type(answer).__name__}: {answer}")
    if answer is None:
        return NotAsked("the host passed the call on")
    return read_answer(cast("str | CompletionResult", answer), HOST)


def _left(deadline: float | None) -> float:
    return math.inf if deadline is None else deadline - time.monotonic()


def _pause(error: ModelError) -> float:
    """Seconds before the one retry: the provider's Retry-After when it gave one, else a random part of half a second."""
    wait = error.retry_after if isinstance(error, ModelRateLimited) else None
    return random.uniform(0, _LONGEST_JITTER) if wait is None else float(wait)


def on_worker(work: Callable[[], _T], timeout: float, cancelled: threading.Event) -> _T:
    """Runs work on a thread of its own; `ModelTimeout` when it takes longer, and then lets it go.

    The thread is a daemon, so that a call that hangs does not keep the process from ending.
    """
    done = _threads.start(work)
    end = time.monotonic() + timeout
    while not cancelled.is_set():
        with suppress(queue.Empty):
            value, error = done.get(timeout=max(0.001, min(_POLL, end - time.monotonic())))
            if error is None:
                return cast(_T, value)
            if isinstance(error, Exception):
                raise error
            # A SystemExit or CancelledError of the model's ends its call only.
            raise ModelUnavailable(f"the model: {type(error).__name__}: {error}")
        if time.monotonic() >= end:
            raise ModelTimeout(f"no answer within {timeout:.1f} s")
    raise ModelUnavailable("cancelled")
