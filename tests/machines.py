"""Random lives of engines on one database, for the state machines of several folders."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from typing import Any, ClassVar

from databases import FreshDatabase
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from lcm_plugin import Engine, LcmConfig
from lcm_plugin.engine import system_clock


class StoreMachine(RuleBasedStateMachine):
    """Engines on a database of the example's own, of which the one opened last acts; all are closed after it."""

    steps: ClassVar[int] = 0

    def __init__(self, fresh_database: FreshDatabase) -> None:
        super().__init__()
        self.closing = ExitStack()
        self.database = self.closing.enter_context(fresh_database())
        self.engines: list[Engine] = []
        self.numbers = count()

    def open(self, completer: Any = None, clock: Callable[[], int] = system_clock, **values: Any) -> Engine:
        """One more engine."""
        self.engines.append(Engine.open(LcmConfig(database=self.database, **values), completer, clock=clock))
        return self.engines[-1]

    @property
    def engine(self) -> Engine:
        return self.engines[-1]

    def count_step(self) -> None:
        """For an invariant that checked something."""
        type(self).steps += 1

    def teardown(self) -> None:
        for engine in self.engines:
            engine.close()
        self.closing.close()


def play(
    machine: type[StoreMachine],
    fresh_database: FreshDatabase,
    *,
    examples: int,
    steps: int,
    least_steps: int = 0,
    **how: Any,
) -> None:
    """Plays examples of so many steps; on the average each checks ``least_steps`` at least. ``how`` goes to `settings`."""
    machine.steps = 0
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        lambda: machine(fresh_database),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            **how,
        ),
    )
    assert machine.steps >= least_steps * examples
