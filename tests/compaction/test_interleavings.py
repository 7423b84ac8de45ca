"""Any order of ingest, compaction, /new, undo, /reset, crash and a second process: the invariants hold."""

from __future__ import annotations

from typing import Any

import pytest
from clock import Clock
from databases import FreshDatabase
from effort import examples
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from invariants import broken_invariants
from machines import StoreMachine, play
from messages import assistant, call, result, user
from small_talk import Model, text_of

from lcm_plugin import Engine, Session
from lcm_plugin.compaction.leases import LEASE_MS
from lcm_plugin.messages.validate import validate
from lcm_plugin.types import CompletionRequest

pytestmark = pytest.mark.both_stores

EXAMPLES = {"sqlite": examples(20, 10), "postgres": examples(10, 4)}
SETTINGS: dict[str, Any] = {
    "fresh_tail_count": 4,
    "leaf_chunk_tokens": 300,
    "leaf_target_tokens": 80,
    "condensed_target_tokens": 100,
    "leaf_min_fanout": 3,
    "condensed_min_fanout": 3,
    "summary_max_calls_per_window": 1_000_000,
}


class _Crash(BaseException):
    """Stands for the end of the process: no handler of the package may swallow it."""


class Meddler(Model):
    """A model during whose call other things happen: what they are is told before."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: list[Any] = []

    def answer(self, request: CompletionRequest, number: int) -> str:
        if self.meanwhile:
            self.meanwhile.pop()()
        return super().answer(request, number)


class Interleavings(StoreMachine):
    """Two engines on one database, as two processes have them, and a model of what must come back."""

    @initialize(depth=st.sampled_from([0, 1, -1]))
    def start(self, depth: int) -> None:
        self.clock, self.model = Clock(), Meddler()
        self.depth = depth
        self._open()
        self._open()
        self.session = Session("agent:inter:main")
        self.expected: list[dict[str, Any]] = []
        self.number = 0
        self.open_call = ""

    def _open(self) -> Engine:
        return self.open(self.model, self.clock, incremental_max_depth=self.depth, **SETTINGS)

    def _add(self, engine: Engine, *added: dict[str, Any]) -> None:
        engine.ingest(self.session, list(added))
        self.expected += added

    @rule(which=st.integers(0, 1), count=st.integers(1, 6), size=st.integers(5, 90))
    def talk(self, which: int, count: int, size: int) -> None:
        for _ in range(count):
            self.number += 2
            self._add(
                self.engines[which],
                user(text_of(size, self.number)),
                assistant(text_of(size, self.number + 1)),
            )

    @rule(which=st.integers(0, 1), parallel=st.booleans())
    def use_a_tool(self, which: int, parallel: bool) -> None:
        self.number += 1
        name = f"t{self.number}"
        talk = [call(name, text="looking"), result(name, text_of(40, self.number))]
        self._add(self.engines[which], *(talk if not parallel else [talk[0], user("also"), talk[1]]))

    @rule(which=st.integers(0, 1))
    def leave_a_call_open_or_answer_it_late(self, which: int) -> None:
        if self.open_call:
            self._add(self.engines[which], result(self.open_call, "late answer"))
            self.open_call = ""
        else:
            self.number += 1
            self.open_call = f"o{self.number}"
            self._add(self.engines[which], call(self.open_call, text="starting"))

    @rule(which=st.integers(0, 1), force=st.booleans(), budget=st.sampled_from([500, 1_500, 4_000, 128_000]))
    def compact(self, which: int, force: bool, budget: int) -> None:
        outcome = self.engines[which].compact(self.session, force, budget)
        assert outcome.compacted == (outcome.passes > 0)
        assert not outcome.compacted or outcome.tokens_after < outcome.tokens_before

    @rule(what=st.sampled_from(["talk", "compact", "new", "crash"]))
    def compact_while_the_other_process_acts(self, what: str) -> None:
        one, other = self.engines

        def act() -> None:
            if what == "talk":
                self._add(other, user("meanwhile"), assistant("yes"))
            elif what == "compact":
                other.compact(self.session, True)
            elif what == "new":
                other.new_session(self.session)
            else:
                raise _Crash

        self.model.meanwhile = [act]
        try:
            one.compact(self.session, force=True)
        except _Crash:
            self.clock.forward(LEASE_MS + 1_000)
        self.model.meanwhile = []

    @rule(depth=st.sampled_from([-1, 0, 1, 2]))
    def new(self, depth: int) -> None:
        self.engines[0].new_session(self.session, depth)

    @rule()
    def undo(self) -> None:
        self.engines[1].undo_new(self.session)

    @precondition(lambda self: len(self.expected) > 8)
    @rule()
    def reset(self) -> None:
        self.engines[0].reset_session(self.session)
        self.expected, self.open_call = [], ""

    @rule(which=st.integers(0, 1))
    def restart(self, which: int) -> None:
        self.engines.pop(which).close()
        self._open()

    @rule(seconds=st.integers(1, 4_000))
    def time_passes(self, seconds: int) -> None:
        self.clock.forward(seconds * 1000)

    @invariant()
    def everything_holds(self) -> None:
        if not self.engines:
            return
        assert broken_invariants(self.database) == []
        assert self.engines[1].messages(self.session) == self.expected
        context = self.engines[0].assemble(self.session, 3_000)
        assert context.tokens <= 3_000 or context.over_budget
        assert validate(context.messages) == []


@pytest.mark.long
def test_any_order_keeps_everything(fresh_database: FreshDatabase, store_kind: str) -> None:
    play(Interleavings, fresh_database, examples=EXAMPLES[store_kind], steps=18)
