"""What went wrong for others inside this host, measured or reported, and must not go wrong here."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fakes.answers import is_summary_request
from fakes.model_server import Calls, Failure, ModelRequest, Outcome
from fakes.speech import fact, turn
from world import World, texts

from lcm_plugin import Engine, LcmConfig

Make = Callable[..., World]

SECONDS = 60
# From its second compaction on Hermes' own compressor may begin its list with its summary, as the assistant's.
HOSTS_OWN_WAY = "the first message after the system's is from the assistant, not from the user"
IMPATIENT = {"busyTimeoutMs": 500, "summaryMaxCallsPerWindow": 1000}


def test_a_summary_that_is_longer_than_its_source_is_not_taken(world: Make) -> None:
    home = world(lcm={"contextThreshold": 0.15, "freshTailCount": 4, "leafChunkTokens": 2000})
    longer = "\n".join(f"The keeper wrote line {n} about crate {n * 7919}." for n in range(2_000))
    home.server.add_rule(lambda request: longer if is_summary_request(request) else None)
    outcome = home.scenario("loop", turns=[turn(number, 500) for number in range(1, 26)])
    assert any(not call["noop"] for call in outcome["compress"])
    asked = [request for request in home.server.requests if request.tools]
    assert not any("The keeper wrote line 1999 " in str(request.messages) for request in asked)
    with Engine.open(LcmConfig(database=str(home.database))) as engine:
        made = [
            s for c in engine.library.conversations() for s in engine.library.summaries(c.conversation_id)
        ]
    assert made
    assert all(summary.tokens < summary.source_tokens for summary in made)
    assert home.server.invalid == []


def test_copies_are_cheap_unbound_and_share_the_store(world: Make) -> None:
    copies = world().scenario("copies", count=200)
    assert copies["milliseconds_to_copy"] < 1
    assert copies["milliseconds_to_start"] < 10
    assert copies["same_runtime"]
    assert copies["session_ids"] == ["", ""]


def test_the_first_user_message_is_no_system_prompt(world: Make) -> None:
    home = world(lcm={"contextThreshold": 0.15, "freshTailCount": 4, "leafChunkTokens": 2000})
    said = [turn(number, 500) for number in range(1, 21)]
    home.scenario("loop", turns=said)
    last = [request for request in home.server.requests if request.tools][-1]
    talk = [m for m in last.messages if m["role"] != "system"]
    assert not any(said[0] in str(m.get("content")) for m in talk)
    assert talk[0]["content"].startswith("<summary ")


def test_the_list_before_a_compaction_stores_nothing_again(world: Make) -> None:
    home = world(lcm={"contextThreshold": 0.1, "freshTailCount": 4, "leafChunkTokens": 2000})
    said = [f"{turn(number, 700)} {fact(number)}" for number in range(1, 16)]
    outcome = home.scenario("stale_end", turns=said)
    assert outcome["compactions"] >= 1
    assert texts(home.stored(), "user") == said


def test_a_sub_agent_has_its_own_lane_and_leaves_its_owners_alone(world: Make) -> None:
    home = world()
    home.server.enqueue("own answer")
    outcome = home.scenario("sub_agent", before="owner asks", task="child works", after="owner goes on")
    lanes = {c.session_key: texts(home.stored(c.session_key), "user") for c in home.conversations()}
    assert lanes[f"agent:main:cli:{outcome['owner']}"] == ["owner asks", "owner goes on"]
    assert lanes[f"agent:main:subagent:{outcome['child']}"] == ["child works"]


def test_the_hosts_own_delegation_gives_the_sub_agent_a_lane_and_ends(world: Make) -> None:
    home = world()
    delegate = Calls(("delegate_task", {"goal": "count the jars", "context": "in the cellar"}))

    def answer(request: ModelRequest) -> Outcome | str | None:
        if "ask somebody" not in str(request.messages):
            return "There are nine jars."
        asked = request.prompt.endswith("ask somebody") and request.messages[-1]["role"] == "user"
        return delegate if asked and "delegate_task" in request.tools else None

    home.server.add_rule(answer)
    outcome = home.scenario(
        "loop", turns=["ask somebody", "thank you"], enabled_toolsets=["context_engine", "delegation"]
    )
    assert outcome["answers"][1] == "Noted: thank you"
    lanes = {c.session_key: home.stored(c.session_key) for c in home.conversations()}
    (child,) = (key for key in lanes if ":subagent:" in key)
    (owner,) = lanes.keys() - {child}
    assert texts(lanes[owner], "user") == ["ask somebody", "thank you"]
    assert [message["role"] for message in lanes[owner]][:4] == ["user", "assistant", "tool", "assistant"]
    assert "count the jars" in str(lanes[child][0]["content"])
    assert texts(lanes[child], "assistant") == ["There are nine jars."]
    assert home.server.invalid == []


def test_a_background_review_leaves_no_trace(world: Make) -> None:
    home = world()
    home.scenario("background_review", turns=["first", "second"])
    assert texts(home.stored()) == ["first", "Noted: first", "second", "Noted: second"]


def test_a_second_engine_on_the_same_session_compacts_it_for_the_gateway(world: Make) -> None:
    home = world(lcm={"freshTailCount": 4, "leafChunkTokens": 2000})
    said = [turn(number, 400) for number in range(1, 13)]
    outcome = home.scenario("gateway_compress", turns=said, after="and now?")
    assert outcome["after"] < outcome["before"]
    assert texts(home.stored(), "user") == [*said, "and now?"]
    assert home.server.invalid == []


def test_a_locked_database_holds_nobody_up_and_loses_nothing(world: Make) -> None:
    home = world()
    home.scenario("loop", turns=["before the lock"], session_id="locked")
    lock = sqlite3.connect(home.database, isolation_level=None, check_same_thread=False)
    lock.execute("BEGIN IMMEDIATE")
    done = home.home / "done-under-lock"

    def release() -> None:
        deadline = time.monotonic() + SECONDS
        while not done.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        lock.execute("ROLLBACK")

    holder = threading.Thread(target=release)
    holder.start()
    try:
        outcome = home.scenario("under_lock", turns=["during the lock"], session_id="locked")
    finally:
        holder.join()
        lock.close()
    assert outcome["waiting"] > 0
    assert outcome["end_seconds"] < 2
    assert outcome["compress_unchanged"]
    assert outcome["problem"] != ""
    assert texts(home.stored(), "user") == ["before the lock", "during the lock"]


def test_a_store_that_cannot_be_opened_leaves_the_host_on_its_own_list(world: Make) -> None:
    home = world(lcm={"database": "/proc/nowhere/lcm.db", "contextThreshold": 0.2})
    said = [turn(number, 700) for number in range(1, 20)]
    outcome = home.scenario("loop", turns=said, watch=True)
    check_on_its_own(home, said, outcome)
    assert outcome["statuses"][-1].startswith("LCM is not working")


def test_a_store_that_breaks_in_the_middle_of_a_talk_is_told_once_and_stops_nothing(world: Make) -> None:
    home = world(lcm={"contextThreshold": 0.2})
    said = [turn(number, 700) for number in range(1, 20)]
    spoilt: list[Path] = []

    def spoil(request: ModelRequest) -> None:
        if request.prompt == said[4] and not spoilt:
            spoilt.extend(home.database.parent.iterdir())
            for file in spoilt:
                file.write_bytes(bytes(file.stat().st_size))

    home.server.add_rule(spoil)
    check_on_its_own(home, said, home.scenario("loop", turns=said))
    assert spoilt


def check_on_its_own(home: World, said: list[str], outcome: dict[str, Any]) -> None:
    """The host answered every turn, made its list smaller itself, and the log and the chat say once why."""
    answers = [answer.partition("\n\nLCM does not work here: ") for answer in outcome["answers"]]
    assert [answer for answer, _, _ in answers] == [f"Noted: {text[:80]}".strip() for text in said]
    assert sum(bool(note) for _, _, note in answers) == 1
    assert any(not call["noop"] for call in outcome["compress"])
    assert max(request.tokens for request in home.server.requests if request.tools) < 20_000
    assert outcome["engine"]["status"]["problem"] != ""
    assert (home.home / "logs" / "agent.log").read_text().count("LCM is not working") == 1
    problems = {problem for _, found in home.server.invalid for problem in found}
    assert problems <= {HOSTS_OWN_WAY}


def test_a_wrong_setting_is_named_once_and_stops_nothing(world: Make) -> None:
    home = world(lcm={"contextThreshold": 7})
    done = home.hermes("chat", "-Q", "-q", "hello there")
    assert "Noted: hello there" in done.stdout
    assert "contextThreshold" in home.log


def test_a_threshold_that_the_host_lowers_is_honoured(world: Make) -> None:
    home = world(window=256_000)
    outcome = home.scenario("lowered_threshold", turns=[turn(n, 900) for n in range(1, 30)])
    assert outcome["asked_at"] <= 20_000
    assert outcome["compactions"] >= 1


def test_a_failed_summary_says_so_and_still_leaves_a_smaller_context(world: Make) -> None:
    home = world(lcm={"contextThreshold": 0.26, "freshTailCount": 8, "leafChunkTokens": 3000})
    home.server.add_rule(lambda r: Failure(503, "overloaded") if is_summary_request(r) else None)
    said = [turn(number, 500) for number in range(1, 46)]
    outcome = home.scenario("loop", turns=said, settle=True, watch=True)
    assert "by extraction, since no model answered" in outcome["statuses"][-1]
    assert texts(home.stored(), "user") == said
    asked = [request.tokens for request in home.server.requests if request.tools]
    assert max(asked) <= 0.95 * 64_000
    assert asked[-1] <= 0.3 * 64_000 + 600
    assert any(not call["noop"] for call in outcome["compress"])


def test_a_failed_publication_is_told_and_the_paid_summary_is_used_later(world: Make) -> None:
    """Another process holds the write lock while the model writes a summary, for longer than we wait."""
    home = world(lcm={"contextThreshold": 0.15, "freshTailCount": 6, "leafChunkTokens": 2000, **IMPATIENT})
    locks: list[sqlite3.Connection] = []
    told = ", because of deferred"  # it waits, or is at it again

    def lock(request: ModelRequest) -> None:
        if is_summary_request(request) and not locks:
            locks.append(sqlite3.connect(home.database, isolation_level=None, check_same_thread=False))
            locks[0].execute("BEGIN IMMEDIATE")
            threading.Timer(4, lambda: locks[0].execute("ROLLBACK")).start()

    home.server.add_rule(lock)
    said = [turn(number, 500) for number in range(1, 46)]
    outcome = home.scenario("loop", turns=said, settle=True, watch=True)
    locks[0].close()
    assert any(told in status for status in outcome["statuses"])
    assert texts(home.stored(), "user") == said
    assert any(not call["noop"] for call in outcome["compress"])
    asked = [request.tokens for request in home.server.requests if request.tools]
    assert min(asked[asked.index(max(asked)) :]) <= 0.15 * 64_000
    assert asked[-1] <= 0.3 * 64_000 + 600
    paid = [request.prompt for request in home.server.requests if is_summary_request(request)]
    assert len(paid) == len(set(paid)) == len(home.summaries())
    assert home.problems() == []


def test_an_ignored_session_is_not_stored_and_the_host_compacts_it_itself(world: Make) -> None:
    home = world(lcm={"ignoreSessionPatterns": ["agent:*:cron:**"], "contextThreshold": 0.2})
    home.scenario("loop", turns=[turn(n, 700) for n in range(1, 20)], platform="cron")
    assert [c.session_key for c in home.conversations()] == []
    assert max(r.tokens for r in home.server.requests if r.tools) < 20_000


def test_where_lcm_only_captures_everything_is_stored_and_the_host_compacts_itself(world: Make) -> None:
    home = world(lcm={"captureOnly": True, "contextThreshold": 0.2})
    said = [turn(n, 700) for n in range(1, 20)]
    outcome = home.scenario("loop", turns=said)
    assert any(not call["noop"] for call in outcome["compress"])
    assert max(r.tokens for r in home.server.requests if r.tools) < 20_000
    stored = texts(home.stored(), "user")
    assert [text for text in stored if text in said] == said
    assert home.summaries() == []
