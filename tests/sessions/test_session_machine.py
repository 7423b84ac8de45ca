"""Random lives of several lanes in one database, against a plain Python model of what each must hold.

The model of a conversation is its rows, the rows that its context still reaches, and a stack of what
each ``/new`` took out. A compaction changes neither rows nor reach, but empties the stack.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from databases import FreshDatabase
from effort import examples
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from machines import StoreMachine, play
from messages import assistant, user

from lcm_plugin import Session
from lcm_plugin.sessions.kinds import find_conversation
from lcm_plugin.types import Message

pytestmark = pytest.mark.both_stores

EXAMPLES = {"sqlite": examples(15, 10), "postgres": examples(10, 4)}
DELTAS, LISTS = "agent:main:deltas", "agent:main:lists"
CRON, CHILDREN = "agent:main:cron:report", "agent:main:child"
SMALL_TALK = st.sampled_from(["ok", "ping", "pong", "yes"])
DEPTHS = st.integers(-1, 3)
ENDINGS = {"deleted": "session-deleted", "end": "session-end"}
REASONS = st.sampled_from(["restart", "shutdown", "idle", "rollover", "", *ENDINGS])


@dataclass
class Model:
    """One conversation."""

    rows: list[Message] = field(default_factory=list)
    reach: list[int] = field(default_factory=list)
    undo: list[list[int]] = field(default_factory=list)

    def add(self, messages: list[Message]) -> None:
        self.reach += range(len(self.rows), len(self.rows) + len(messages))
        self.rows += messages


@dataclass
class Lane:
    """A key: its active conversation, why the earlier ones ended, and the list that a host keeps."""

    now: Model = field(default_factory=Model)
    causes: list[str] = field(default_factory=list)
    host: list[Message] = field(default_factory=list)
    last_turn: list[Message] = field(default_factory=list)
    exists: bool = False

    def end(self, cause: str, opens: bool) -> None:
        self.causes.append(cause)
        self.now, self.exists = Model(), opens


class SessionMachine(StoreMachine):
    """Engines on one database; every lane must be what its model says, whatever the others do."""

    def __init__(self, fresh_database: FreshDatabase) -> None:
        super().__init__(fresh_database)
        self.lanes = {DELTAS: Lane(), LISTS: Lane()}
        self.runs: dict[str, Lane] = {}
        self.children: dict[str, Lane] = {}
        self.run = 1

    @initialize()
    def open_engine(self) -> None:
        self.open(
            fresh_tail_count=2,
            leaf_chunk_tokens=160,
            leaf_target_tokens=48,
            condensed_target_tokens=64,
            leaf_min_fanout=2,
            condensed_min_fanout=2,
        )

    def session(self, key: str) -> Session:
        return Session(key, f"run-{self.run}")

    def turn(self, talk: str) -> list[Message]:
        number = next(self.numbers)
        return [
            user(f"Question {number} about pump {number}: who repairs it, and how long does that take?"),
            assistant(talk),
        ]

    # -- what hosts and users do

    @rule(talk=SMALL_TALK)
    def a_delta_comes(self, talk: str) -> None:
        lane, turn = self.lanes[DELTAS], self.turn(talk)
        for message in turn:
            assert self.engine.ingest(self.session(DELTAS), [message]).stored == 1
        self.accept(lane, turn)

    @rule(talk=SMALL_TALK)
    def a_list_comes_before_and_after_a_turn(self, talk: str) -> None:
        lane, turn = self.lanes[LISTS], self.turn(talk)
        for message in turn:
            lane.host.append(message)
            assert self.engine.ingest(self.session(LISTS), lane.host, "sync").stored == 1
        self.accept(lane, turn)

    @precondition(lambda self: self.lanes[LISTS].host)
    @rule()
    def the_list_comes_again(self) -> None:
        assert self.engine.ingest(self.session(LISTS), self.lanes[LISTS].host, "sync").stored == 0

    @precondition(lambda self: self.lanes[DELTAS].last_turn)
    @rule()
    def the_last_turn_comes_again_as_one_delta(self) -> None:
        assert self.engine.ingest(self.session(DELTAS), self.lanes[DELTAS].last_turn).stored == 0

    @rule(key=st.sampled_from([DELTAS, LISTS]), depth=DEPTHS, host_begins_anew=st.booleans())
    def a_user_types_new(self, key: str, depth: int, host_begins_anew: bool) -> None:
        lane = self.lanes[key]
        before = self.engine.context_items(self.session(key))
        kept = [
            item for item in before if depth == -1 or (item.depth >= depth >= 0 and item.kind == "summary")
        ]
        pruned = self.engine.new_session(self.session(key), depth)
        assert self.engine.context_items(self.session(key)) == kept
        assert pruned.kept_tokens == sum(item.tokens for item in kept)
        if len(kept) < len(before):
            reach = self.reached(key)
            lane.now.undo.append([index for index in lane.now.reach if index not in reach])
            lane.now.reach = reach
        if host_begins_anew:
            lane.host = []

    @rule(key=st.sampled_from([DELTAS, LISTS]))
    def a_user_types_undo(self, key: str) -> None:
        lane = self.lanes[key].now
        restored = self.engine.undo_new(self.session(key))
        assert bool(restored) is bool(lane.undo)
        if lane.undo:
            lane.reach = sorted([*lane.reach, *lane.undo.pop()])

    @rule(key=st.sampled_from([DELTAS, LISTS]), host_begins_anew=st.booleans())
    def a_user_types_reset(self, key: str, host_begins_anew: bool) -> None:
        lane = self.lanes[key]
        archived = self.engine.reset_session(self.session(key))
        assert (archived is not None) is bool(lane.now.rows)
        if lane.now.rows:
            lane.end("manual-reset", opens=True)
        if host_begins_anew:
            lane.host = []

    @rule(key=st.sampled_from([DELTAS, LISTS]), reason=REASONS)
    def a_session_ends(self, key: str, reason: str) -> None:
        lane = self.lanes[key]
        self.engine.end_session(self.session(key), reason)
        if reason in ENDINGS and lane.exists:
            lane.end(ENDINGS[reason], opens=False)

    @rule()
    def another_run_begins(self) -> None:
        self.run += 1

    @rule(number=st.integers(1, 4), talk=SMALL_TALK)
    def a_cron_run_says_something(self, number: int, talk: str) -> None:
        lane = self.runs.setdefault(f"cron-{number}", Lane())
        turn = [user("Write the report about all pumps and their repairs."), assistant(talk)]
        turn = turn if not lane.now.rows else self.turn(talk)
        assert self.engine.ingest(Session(CRON, f"cron-{number}"), turn).stored == 2
        self.accept(lane, turn)

    @rule(number=st.integers(1, 3), talk=SMALL_TALK)
    def a_sub_agent_works(self, number: int, talk: str) -> None:
        key = f"{CHILDREN}:{number}"
        child, parent = self.children.get(key), self.lanes[DELTAS].now
        taken = self.engine.bootstrap_session(Session(key, "child"), Session(DELTAS))
        if child is None:
            child = self.children.setdefault(key, Lane())
            raw = [item for item in self.engine.context_items(Session(DELTAS)) if item.kind == "message"]
            assert taken == len(raw)
            self.accept(child, [parent.rows[index] for index in parent.reach[len(parent.reach) - taken :]])
        else:
            assert taken == 0
        turn = self.turn(talk)
        assert self.engine.ingest(Session(key, "child"), turn).stored == 2
        self.accept(child, turn)

    @rule(key=st.sampled_from([DELTAS, LISTS]))
    def a_compaction_runs(self, key: str) -> None:
        if self.engine.compact(self.session(key), force=True, budget=700).passes:
            self.lanes[key].now.undo = []

    @rule()
    def the_process_restarts(self) -> None:
        self.engines.pop().close()
        if not self.engines:
            self.open_engine()

    @precondition(lambda self: len(self.engines) < 3)
    @rule()
    def another_engine_opens_the_database(self) -> None:
        self.open_engine()

    @precondition(lambda self: len(self.engines) > 1)
    @rule()
    def the_other_engine_takes_over(self) -> None:
        self.engines.append(self.engines.pop(0))

    # -- what always holds

    @invariant()
    def every_lane_is_what_its_model_says(self) -> None:
        if not self.engines:
            return
        for key, lane in self.lanes.items():
            assert self.engine.messages(Session(key)) == lane.now.rows
            assert self.reached(key) == lane.now.reach
            with self.engine.store.read() as reader:
                rows = reader.lane(key)
            assert [row.archive_cause for row in rows if not row.active] == lane.causes
            assert any(row.active for row in rows) is lane.exists
        for number, lane in self.runs.items():
            assert self.engine.messages(Session(CRON, number)) == lane.now.rows
        for key, lane in self.children.items():
            assert self.engine.messages(Session(key)) == lane.now.rows

    def accept(self, lane: Lane, messages: list[Message]) -> None:
        lane.now.add(messages)
        lane.last_turn, lane.exists = messages, True

    def reached(self, key: str) -> list[int]:
        """Which rows the context reaches, in order."""
        with self.engine.store.read() as reader:
            conversation = find_conversation(reader, Session(key))
            if conversation is None:
                return []
            heads = reader.heads(conversation.conversation_id, limit=100_000)
        place = {head.ref: index for index, head in enumerate(heads)}
        return [place[walked.ref] for walked in self.engine.library.walk(conversation.conversation_id)]


def test_every_lane_is_what_its_model_says(fresh_database: FreshDatabase, store_kind: str) -> None:
    play(SessionMachine, fresh_database, examples=EXAMPLES[store_kind], steps=25)
