"""Random lives of a talk that goes back and forth: the context is what the host's list says, the rows are all ever said.

A host keeps a tree of messages and shows one path of it, as chat programs do: turns, rewinds, edits, answers made
again, other branches, chats cleared, runs at the same time. Compaction runs in between.
"""

from __future__ import annotations

import logging
from collections import Counter

import pytest
from databases import FreshDatabase
from effort import examples
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from invariants import assert_sound
from machines import StoreMachine, play
from messages import assistant, call, result, user

from lcm_plugin import LcmPlugin, Session, Turn
from lcm_plugin.types import Message

pytestmark = pytest.mark.both_stores

EXAMPLES = {"sqlite": examples(60, 8), "postgres": 4}
LANE = Session("agent:main:main", "run-1")
SMALL_TALK = st.sampled_from(["ok", "yes", "go on"])


@pytest.fixture(autouse=True)
def _no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


class TruthMachine(StoreMachine):
    """A host's list, all lists it ever had, and every message ever said."""

    def __init__(self, fresh_database: FreshDatabase) -> None:
        super().__init__(fresh_database)
        self.said: list[Message] = []
        self.host: list[Message] = []
        self.branches: list[list[Message]] = []
        self.compacted = False
        # What runs said at the same time is stored as it came, so a list that puts it in order is no path any more.
        self.merged = 0

    @initialize()
    def open_engine(self) -> None:
        engine = self.open(
            fresh_tail_count=2,
            autocompact_disabled=True,
            leaf_chunk_tokens=200,
            leaf_target_tokens=60,
            condensed_target_tokens=80,
            leaf_min_fanout=2,
            condensed_min_fanout=2,
            incremental_max_depth=-1,
        )
        self.plugin = LcmPlugin(engine=engine)

    # -- what happens

    @rule(talk=SMALL_TALK, tools=st.integers(0, 2), short=st.booleans())
    def a_turn(self, talk: str, tools: int, short: bool) -> None:
        self.take(self.host, self.request(talk), self.work(talk, tools, short))

    @precondition(lambda self: len(self.host) > self.merged)
    @rule(data=st.data())
    def the_user_goes_back_and_says_something_else(self, data: st.DataObject) -> None:
        self.branches.append(self.host)
        at = data.draw(st.sampled_from(self.requests()))
        self.take(self.host[:at], self.request("no"), self.work("fine", 0, False))

    @precondition(lambda self: len(self.host) > self.merged)
    @rule(data=st.data())
    def an_answer_is_made_again(self, data: st.DataObject) -> None:
        self.branches.append(self.host)
        at = data.draw(st.sampled_from(self.requests()))
        self.take(self.host[:at], self.host[at], self.work("again", 0, False), known=True)

    @precondition(lambda self: self.branches)
    @rule(data=st.data())
    def another_branch_goes_on(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(self.branches) - 1))
        self.branches[at], other = self.host, self.branches[at]
        self.take(other, self.request("back here"), self.work("welcome back", 1, False))

    @precondition(lambda self: self.host)
    @rule()
    def the_chat_is_cleared(self) -> None:
        self.branches = [] if self.merged else [*self.branches, self.host]
        self.merged = 0
        self.take([], self.request("a fresh start"), self.work("with pleasure", 0, False))

    @precondition(lambda self: self.host)
    @rule()
    def two_runs_at_the_same_time(self) -> None:
        before, merged = list(self.host), self.merged
        runs = [[*before, self.say(self.request(f"run {name}"))] for name in "ab"]
        for run in runs:
            assert self.before(run)[-1] == run[-1]
        for run in (*runs, *reversed(runs)):
            run += [self.say(message) for message in self.work("meanwhile", 1, False)[:-1]]
            shown = self.before(run)
            assert shown[-2:] == run[-2:]
            if not self.compacted and not merged:
                assert shown == run
        for run in runs:
            run.append(self.say(assistant(f"Done with {next(self.numbers)}, as was asked of this run")))
            self.after(run)
        self.host = [*before, *runs[0][len(before) :], *runs[1][len(before) :]]
        self.branches.clear()
        self.merged = len(self.host)

    @precondition(lambda self: self.host)
    @rule()
    def the_same_list_again(self) -> None:
        assert self.engine.ingest(LANE, self.host, "sync").stored == 0

    @rule()
    def compaction_runs(self) -> None:
        if self.engine.compact(LANE, force=True, budget=1_000).compacted:
            self.compacted = True

    # -- what always holds

    @invariant()
    def every_message_is_stored_once(self) -> None:
        if self.host:
            self.count_step()
            assert Counter(map(str, self.engine.messages(LANE))) == Counter(map(str, self.said))

    @invariant()
    def what_stands_is_what_the_host_has(self) -> None:
        rows = self.engine.record.newest(LANE, 10_000, standing=True)
        standing = Counter(str(self.engine.record.whole(row)) for row in rows)
        assert standing == Counter(map(str, self.host))

    @precondition(lambda self: self.host)
    @rule()
    def no_summary_holds_what_was_taken_back(self) -> None:
        taken_back = [m for m in self.said if m not in self.host]
        shown = str(self.engine.assemble(LANE, 100_000).messages)
        for message in taken_back:
            text = str(message.get("content"))
            assert "said once" not in text or text not in shown
        assert self.engine.check(LANE).findings == ()
        assert_sound(self.database)

    # -- how a host talks

    def requests(self) -> list[int]:
        return [n for n in range(self.merged, len(self.host)) if self.host[n]["role"] == "user"]

    def request(self, talk: str) -> Message:
        return user(f"{talk}: request number {next(self.numbers)}, said once and never again")

    def work(self, talk: str, tools: int, short: bool) -> list[Message]:
        messages: list[Message] = []
        for _ in range(tools):
            name = f"call_of_one_kind_{next(self.numbers)}"
            messages += [call(name, text=None), result(name, f"result of {name}, said once")]
        return [*messages, assistant(talk if short else f"{talk}: answer {next(self.numbers)}, said once")]

    def take(self, before: list[Message], asked: Message, rest: list[Message], known: bool = False) -> None:
        self.host = [*before, asked if known else self.say(asked)]
        shown = self.before(self.host)
        if not self.compacted and not self.merged:
            assert shown == self.host
        assert shown[-1] == self.host[-1]
        self.host += [self.say(message) for message in rest]
        self.after(self.host)

    def say(self, message: Message) -> Message:
        self.said.append(message)
        return message

    def before(self, listing: list[Message]) -> list[Message]:
        context = self.plugin.before_turn(Turn(LANE, list(listing), window=32_000))
        assert context is not None
        return context.messages

    def after(self, listing: list[Message]) -> None:
        self.plugin.after_turn(Turn(LANE, list(listing), window=32_000))


def test_the_context_follows_the_list(fresh_database: FreshDatabase, store_kind: str) -> None:
    play(
        TruthMachine,
        fresh_database,
        examples=EXAMPLES[store_kind],
        steps=25,
        least_steps=5,
        derandomize=True,
        phases=[Phase.generate],
    )
