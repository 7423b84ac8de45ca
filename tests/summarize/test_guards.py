"""The circuit breaker and the spend guard, on a clock that the test moves."""

from __future__ import annotations

from typing import Any

from clock import Clock

from lcm_plugin.config import LcmConfig
from lcm_plugin.errors import ModelAuthError, ModelRateLimited, ModelTimeout
from lcm_plugin.summarize.guards import FORCED_CALLS, CircuitBreaker, MemoryGuards, SpendGuard

MINUTE = 60_000


def breaker(clock: Clock) -> CircuitBreaker:
    return CircuitBreaker(MemoryGuards(), clock)


def spend(clock: Clock, guards: MemoryGuards | None = None, **settings: Any) -> SpendGuard:
    values = {"summary_max_calls_per_window": 3, "summary_call_window_ms": 10 * MINUTE} | settings
    return SpendGuard(guards or MemoryGuards(), LcmConfig(**values), clock)


def test_three_failures_in_a_row_open_it_for_a_minute(clock: Clock) -> None:
    guard = breaker(clock)
    opened = [guard.failed("p", "m", ModelTimeout("x")) for _ in range(3)]
    assert opened == [False, False, True]
    assert not guard.allows("p", "m")
    clock.now += MINUTE - 1
    assert not guard.allows("p", "m")
    clock.now += 1
    assert guard.allows("p", "m")


def test_a_success_in_between_counts_from_the_start_again(clock: Clock) -> None:
    guard = breaker(clock)
    for _ in range(2):
        guard.failed("p", "m", ModelTimeout("x"))
        guard.failed("p", "m", ModelTimeout("x"))
        guard.succeeded("p", "m")
    assert guard.allows("p", "m")


def test_refused_credentials_open_it_at_once(clock: Clock) -> None:
    guard = breaker(clock)
    assert guard.failed("p", "m", ModelAuthError("401"))
    clock.now += 9 * MINUTE
    assert not guard.allows("p", "m")


def test_after_the_pause_one_call_is_let_through_at_a_time(clock: Clock) -> None:
    guard = breaker(clock)
    guard.failed("p", "m", ModelAuthError("401"))
    clock.now += 10 * MINUTE
    assert guard.allows("p", "m")
    assert not guard.allows("p", "m")
    guard.succeeded("p", "m")
    assert guard.allows("p", "m")


def test_failing_again_doubles_the_pause_up_to_half_an_hour(clock: Clock) -> None:
    guard = breaker(clock)
    pauses = []
    for _ in range(9):
        guard.failed("p", "m", ModelTimeout("x"))
        state = guard.state("p", "m")
        pauses.append(state["pause"] // MINUTE)
        clock.now = max(clock.now, state["open_until"])
    assert pauses == [0, 0, 1, 2, 4, 8, 16, 30, 30]


def test_a_told_pause_is_kept(clock: Clock) -> None:
    guard = breaker(clock)
    for _ in range(3):
        guard.failed("p", "m", ModelRateLimited("429", retry_after=300))
    assert guard.state("p", "m")["open_until"] == clock.now + 300_000


def test_one_model_does_not_stop_another(clock: Clock) -> None:
    guard = breaker(clock)
    guard.failed("p", "bad", ModelAuthError("401"))
    assert guard.allows("p", "good")
    assert guard.allows("other", "bad")


def test_the_state_survives_a_restart(clock: Clock) -> None:
    guards = MemoryGuards()
    CircuitBreaker(guards, clock).failed("p", "m", ModelAuthError("401"))
    assert not CircuitBreaker(guards, clock).allows("p", "m")
    for _ in range(3):
        spend(clock, guards).take("lane")
    assert not spend(clock, guards).take("lane")


def test_a_window_without_a_result_ends_in_a_long_pause(clock: Clock) -> None:
    guard = spend(clock)
    assert [guard.take("lane") for _ in range(4)] == [True, True, True, False]
    clock.now += 11 * MINUTE
    assert not guard.take("lane")
    clock.now += 20 * MINUTE
    assert guard.take("lane")


def test_a_window_with_results_only_waits_for_its_end(clock: Clock) -> None:
    guard = spend(clock)
    for _ in range(3):
        guard.take("lane")
    guard.progressed("lane")
    assert not guard.take("lane")
    clock.now += 10 * MINUTE
    assert guard.take("lane")


def test_progress_ends_a_pause(clock: Clock) -> None:
    guard = spend(clock)
    for _ in range(4):
        guard.take("lane")
    assert guard.take("lane", forced=True)
    guard.progressed("lane")
    assert guard.state("lane")["paused_until"] == 0


def test_forced_work_passes_a_bounded_number_of_times(clock: Clock) -> None:
    guard = spend(clock)
    for _ in range(4):
        guard.take("lane")
    assert [guard.take("lane", forced=True) for _ in range(FORCED_CALLS + 1)] == [True] * FORCED_CALLS + [
        False
    ]
    clock.now += 10 * MINUTE
    assert guard.take("lane", forced=True)


def test_sessions_are_counted_apart(clock: Clock) -> None:
    guard = spend(clock)
    for _ in range(4):
        guard.take("lane")
    assert guard.take("another")


def test_a_clock_that_runs_backwards_starts_a_new_window(clock: Clock) -> None:
    guard = spend(clock)
    for _ in range(3):
        guard.take("lane")
    clock.now -= MINUTE
    assert guard.take("lane")


def test_the_window_ends_when_its_tokens_are_used_up(clock: Clock) -> None:
    """A few dear calls cost what many cheap ones do; the last one may reach past the limit."""
    guard = spend(clock, summary_max_calls_per_window=100, summary_max_tokens_per_window=50_000)
    assert [guard.take("lane", tokens=20_000) for _ in range(4)] == [True, True, True, False]
    guard.progressed("lane")
    assert guard.spent_until("lane") == clock() + 10 * MINUTE
    assert guard.take("another", tokens=20_000)
    assert guard.take("lane", forced=True, tokens=20_000)
    clock.now += 10 * MINUTE
    assert guard.spent_until("lane") == 0
    assert guard.take("lane", tokens=90_000)
