"""Random lives of a host: whatever it hands over, how often and through whom, the rows stay right.

The model is a list of messages per lane. A lane without ids is handed over as deltas and as whole
lists, of which the host may have dropped, decorated or summarised what is old; a lane with the host's
own ids in any order and as often as the host likes. What the model knows can only be told apart when
the host kept something unmistakable, so every turn holds one text that is said once in that lane.
"""

from __future__ import annotations

import logging
from itertools import takewhile
from typing import Any

import pytest
from databases import FreshDatabase
from effort import examples
from fakes.validity import problems_of
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from machines import StoreMachine, play
from messages import assistant, calls, result, user

from lcm_plugin import Session
from lcm_plugin.errors import InputError
from lcm_plugin.types import Message

pytestmark = pytest.mark.both_stores

EXAMPLES = {"sqlite": examples(300, 20), "postgres": examples(10, 4)}
PLAIN, WITH_IDS = Session("agent:main:plain", "run-1"), Session("agent:main:ids", "run-2")
SMALL_TALK = st.sampled_from(["ok", "yes", "go on", "é漢 \x00", "a\ud83d", '{"status": "ok"}'])
TASKS = "\n\n[Your active task list:\n- step {number}]"
LONG = "a long output"

tool_runs = st.lists(st.lists(SMALL_TALK | st.just(LONG), min_size=1, max_size=3), max_size=2)


@pytest.fixture(autouse=True)
def _no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


class IngestMachine(StoreMachine):
    """Engines over one database, the rows they must hold, and the list that the host keeps."""

    def __init__(self, fresh_database: FreshDatabase) -> None:
        super().__init__(fresh_database)
        self.rows: list[Message] = []
        self.with_ids: list[Message] = []
        self.host: list[Message] = []
        self.turn: list[Message] = []
        self.stored_ids = 0

    @initialize()
    def open_engine(self) -> None:
        self.open(
            large_file_token_threshold=1_000,
            fresh_tail_count=4,
            leaf_chunk_tokens=300,
            leaf_target_tokens=60,
            leaf_min_fanout=2,
        )

    # -- what happens

    @rule(talk=SMALL_TALK, runs=tool_runs, answer=SMALL_TALK, unique_answer=st.booleans())
    def a_turn_comes_as_a_delta(
        self, talk: str, runs: list[list[str]], answer: str, unique_answer: bool
    ) -> None:
        turn = self.make_turn(talk, runs, answer, unique_answer)
        self.accept(turn)
        assert self.engine.ingest(PLAIN, turn, "append").stored == len(turn)

    @rule(talk=SMALL_TALK, runs=tool_runs, answer=SMALL_TALK, unique_answer=st.booleans())
    def a_turn_comes_with_the_whole_list(
        self, talk: str, runs: list[list[str]], answer: str, unique_answer: bool
    ) -> None:
        turn = self.make_turn(talk, runs, answer, unique_answer)
        prompts = self.accept_prompts()
        self.accept(turn)
        assert self.engine.ingest(PLAIN, self.host, "sync").stored == prompts + len(turn)

    @rule(talk=SMALL_TALK, runs=tool_runs, answer=SMALL_TALK)
    def a_turn_comes_in_pieces_before_and_after(self, talk: str, runs: list[list[str]], answer: str) -> None:
        turn = self.make_turn(talk, runs, answer, unique_answer=False)
        before, prompts = list(self.host), self.accept_prompts()
        self.accept(turn)
        assert self.engine.ingest(PLAIN, [*before, turn[0]], "sync").stored == prompts + 1
        assert self.engine.ingest(PLAIN, turn, "append").stored == len(turn) - 1

    @precondition(lambda self: self.host)
    @rule()
    def the_whole_list_comes_again(self) -> None:
        prompts = self.accept_prompts()
        assert self.engine.ingest(PLAIN, self.host, "sync").stored == prompts

    @precondition(lambda self: any(message.get("tool_calls") for message in self.turn))
    @rule()
    def the_last_delta_comes_again(self) -> None:
        assert self.engine.ingest(PLAIN, self.turn, "append").stored == 0

    @precondition(lambda self: self.host)
    @rule(keep=st.integers(1, 3))
    def the_host_drops_old_turns(self, keep: int) -> None:
        starts = [index for index, message in enumerate(self.host) if message["role"] == "user"]
        self.host = self.host[starts[-keep:][0] :] if starts else self.host

    @precondition(lambda self: self.host)
    @rule()
    def the_host_drops_tool_results(self) -> None:
        kept = [
            m for m in self.host if m["role"] != "tool" and not (m.get("tool_calls") and not m["content"])
        ]
        self.host = [{k: v for k, v in m.items() if k != "tool_calls"} for m in kept]

    @precondition(lambda self: any(message["role"] == "user" for message in self.host))
    @rule()
    def the_host_decorates_its_last_user_message(self) -> None:
        index = max(i for i, message in enumerate(self.host) if message["role"] == "user")
        plain = self.host[index]["content"].partition("\n\n[Your active")[0]
        self.host[index] = user(plain + TASKS.format(number=next(self.numbers)))

    @rule(budget=st.sampled_from([400, 2_000, 50_000]))
    def the_host_takes_our_context_for_its_list(self, budget: int) -> None:
        assembled = self.engine.assemble(PLAIN, budget).messages
        if any(unmistakable(message) for message in assembled):
            # A context for a model ends before the last reply; a host goes on from that reply.
            reply = next(row for row in reversed(self.rows) if row["role"] != "system")
            self.host = assembled if assembled[-1] == reply else [*assembled, reply]

    @rule()
    def the_host_rebuilds_its_system_prompt(self) -> None:
        prompt = {"role": "system", "content": f"You are helpful. Version {next(self.numbers)}."}
        if self.host and self.host[0]["role"] == "system":
            self.host = self.host[1:]
        if not self.host:
            self.rows.append(prompt)
            assert self.engine.ingest(PLAIN, [prompt], "append").stored == 1
        self.host = [prompt, *self.host]

    @rule(data=st.data())
    def messages_with_ids_come_in_any_order_and_again(self, data: st.DataObject) -> None:
        for _ in range(data.draw(st.integers(0, 3))):
            role = data.draw(st.sampled_from([user, assistant]))
            self.with_ids.append(role(data.draw(SMALL_TALK), id=f"h{next(self.numbers)}"))
        new = self.with_ids[self.stored_ids :]
        old = (
            data.draw(st.lists(st.sampled_from(self.with_ids[: self.stored_ids]), max_size=4))
            if self.stored_ids
            else []
        )
        mode: Any = data.draw(st.sampled_from(["append", "sync"]))
        assert self.engine.ingest(WITH_IDS, [*old, *new], mode).stored == len(new)
        self.stored_ids = len(self.with_ids)

    @rule(
        bad=st.sampled_from(
            [{"content": "no role"}, {"role": "  ", "content": "blank role"}, "no message", None]
        )
    )
    def a_bad_message_refuses_its_whole_batch(self, bad: Any) -> None:
        with pytest.raises(InputError, match="message 1"):
            self.engine.ingest(PLAIN, [user("never stored"), bad], "append")

    @rule()
    def compaction_runs(self) -> None:
        self.engine.compact(PLAIN, force=True, budget=1_000)

    @rule()
    def the_process_restarts(self) -> None:
        self.engines.pop().close()
        self.engines or self.open_engine()

    @precondition(lambda self: len(self.engines) < 3)
    @rule()
    def another_engine_opens_the_same_database(self) -> None:
        self.open_engine()

    @precondition(lambda self: len(self.engines) > 1)
    @rule()
    def the_other_engine_takes_over(self) -> None:
        self.engines.append(self.engines.pop(0))

    # -- what always holds

    @invariant()
    def the_rows_are_the_models(self) -> None:
        if self.engines:
            self.count_step()
            assert self.engine.messages(PLAIN) == self.rows
            assert self.engine.messages(WITH_IDS) == self.with_ids[: self.stored_ids]

    @precondition(lambda self: self.rows and self.rows[-1]["role"] != "system")
    @rule(budget=st.sampled_from([400, 2_000, 50_000]))
    def the_context_is_valid(self, budget: int) -> None:
        assert problems_of(self.engine.assemble(PLAIN, budget).messages, model_must_answer=False) == []

    # -- how a host talks

    def make_turn(self, talk: str, runs: list[list[str]], answer: str, unique_answer: bool) -> list[Message]:
        number = next(self.numbers)
        turn = [user(talk if unique_answer else f"{talk} request number {number}, said once and never again")]
        for results in runs:
            ids = [f"exec:{position}" for position in range(len(results))]
            turn.append(calls(*ids))
            turn += [result(call_id, spelled_out(text)) for call_id, text in zip(ids, results, strict=True)]
        turn.append(
            assistant(
                f"{answer} answer number {number}, said once and never again" if unique_answer else answer
            )
        )
        return turn

    def accept_prompts(self) -> int:
        """The whole list comes: how many prompts at its front are new."""
        run = takewhile(lambda message: message["role"] == "system", self.host)
        new = [message for message in run if message not in self.rows]
        self.rows += new
        return len(new)

    def accept(self, turn: list[Message]) -> None:
        self.rows += turn
        self.host += turn
        self.turn = turn


def spelled_out(text: str) -> str:
    return text + " line\n" * 2_000 if text == LONG else text


def unmistakable(message: Message) -> bool:
    return "said once and never again" in str(message.get("content")) and not str(
        message.get("content")
    ).startswith("<summary")


@pytest.mark.long
def test_the_rows_stay_right_for_thousands_of_steps(fresh_database: FreshDatabase, store_kind: str) -> None:
    play(
        IngestMachine,
        fresh_database,
        examples=EXAMPLES[store_kind],
        steps=50,
        least_steps=20,
        derandomize=True,
        phases=[Phase.generate],
    )
