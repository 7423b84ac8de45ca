"""What goes wrong: the store, the settings, the model, the window."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from bub_talk import turn
from bub_world import BubWorld, said
from fakes.answers import is_summary_request
from fakes.model_server import Failure, ModelServer
from test_bub_turns import shown

Make = Callable[..., BubWorld]

WARNING = "LCM is not working"


def test_loading_the_plugin_opens_nothing(world: Make) -> None:
    home = world()
    done = home.scenario("registered")
    assert done["seconds"] < 0.3
    assert done["files"] == []
    assert not home.database.parent.exists()


def test_with_a_store_that_cannot_be_opened_the_host_works_on_its_own_tape(world: Make) -> None:
    home = world(lcm={"database": "/proc/no/such/lcm.db"})
    home.server.enqueue("one", "two", "three")
    lines = ["first question", "second question", "third question"]
    outcome = home.run_scenario("talk", turns=lines)
    assert outcome.result["answers"] == ["one", "two", "three"]
    assert shown(home, 2) == ["first question", "one", "second question", "two", "third question"]
    assert outcome.stderr.count(WARNING) == 1
    assert "/proc/no/such" in outcome.stderr
    assert home.server.invalid == []


def test_a_store_that_is_broken_and_mended_takes_in_what_it_missed(world: Make) -> None:
    home = world()
    home.server.enqueue("one", "two", "three")
    home.talk("first question")
    whole = home.database.read_bytes()
    for leftover in home.database.parent.glob("lcm.db-*"):
        leftover.unlink()
    home.database.write_bytes(b"this is no database" * 500)
    outcome = home.run_scenario("talk", turns=["second question"])
    assert outcome.result["answers"] == ["two"]
    assert outcome.stderr.count(WARNING) == 1
    home.database.write_bytes(whole)
    home.talk("third question")
    assert said(home.stored()) == [
        "first question",
        "one",
        "second question",
        "two",
        "third question",
        "three",
    ]
    assert shown(home, 2) == ["first question", "one", "second question", "two", "third question"]


def test_a_locked_store_delays_nothing_for_long_and_loses_nothing(world: Make) -> None:
    home = world(lcm={"busyTimeoutMs": 200})
    home.server.enqueue("one", "two", "three")
    home.talk("first question")
    with sqlite3.connect(home.database, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        outcome = home.run_scenario("talk", turns=["second question"])
        other.execute("ROLLBACK")
    assert outcome.result["answers"] == ["two"]
    assert outcome.stderr.count(WARNING) == 1
    home.talk("third question")
    assert said(home.stored()) == [
        "first question",
        "one",
        "second question",
        "two",
        "third question",
        "three",
    ]
    assert home.server.invalid == []


def test_a_wrong_setting_is_named_and_the_host_goes_on_without_us(world: Make) -> None:
    home = world(lcm={"contextThreshold": 7})
    done = home.bub("run", "hello")
    assert "Noted" in done.stdout
    assert "contextThreshold" in done.stderr
    assert not home.database.exists()


def test_a_switched_off_plugin_leaves_the_command_only(world: Make) -> None:
    home = world(lcm={"enabled": False})
    home.talk("hello")
    assert not any(name.startswith("lcm") for name in home.server.requests[0].tools)
    assert home.bub("lcm", "--version").stdout.startswith("lcm ")


def test_an_ignored_session_is_the_hosts_alone(world: Make) -> None:
    home = world(lcm={"ignoreSessionPatterns": ["agent:*:cli:secret"]})
    home.server.enqueue("one", "two")
    home.talk("first question", "second question", session="cli:secret")
    assert shown(home, 1) == ["first question", "one", "second question"]
    assert home.conversations() == []


def test_a_stateless_session_keeps_the_hosts_own_context(world: Make) -> None:
    home = world(lcm={"statelessSessionPatterns": ["agent:*:cli:guest"]})
    home.server.enqueue("one", "two")
    home.talk("first question", "second question", session="cli:guest")
    assert shown(home, 1) == ["first question", "one", "second question"]
    assert home.conversations() == []


def test_a_prompt_that_the_provider_finds_too_long_is_made_shorter(world: Make, server: ModelServer) -> None:
    home = world(lcm={"maxAssemblyTokenBudget": 64_000, "freshTailCount": 4, "leafChunkTokens": 60_000})
    lines = [turn(number, 900) for number in range(1, 31)]
    answers = home.talk(*lines)
    refused = [request for request in server.requests if request.problems]
    assert refused
    assert all("do not fit the window" in request.problems[0] for request in refused)
    assert len(refused) <= 6
    assert [answer for answer in answers if not answer.startswith("Noted")] == []
    assert said(home.stored(), "user") == lines


def test_a_call_that_fails_keeps_the_question_and_the_next_turn_sees_it(world: Make) -> None:
    home = world()
    home.server.enqueue("one", Failure(400, "no such thing", "bad_request"))
    answers = home.talk("first question", "second question", "third question")
    assert "no such thing" in answers[1]
    assert said(home.stored(), "user") == ["first question", "second question", "third question"]
    assert "second question" in shown(home, len(home.server.requests) - 1)


def test_summaries_are_extracted_when_the_hosts_model_fails(world: Make) -> None:
    home = world(lcm={"contextThreshold": 0.5, "freshTailCount": 8, "leafChunkTokens": 1_500})
    home.server.add_rule(lambda request: Failure(401, "no") if is_summary_request(request) else None)
    lines = [turn(number, 250) for number in range(1, 41)]
    home.talk(*lines)
    assert said(home.stored(), "user") == lines
    assert any("<summary" in str(m.get("content")) for m in home.server.requests[-1].messages)
    assert home.server.invalid == []


def test_it_is_said_when_another_plugin_builds_the_contexts(world: Make) -> None:
    home = world()
    outcome = home.run_scenario("other_context", turns=["first question", "second question"])
    assert outcome.stderr.count("another plugin builds Bub's contexts") == 1
    assert outcome.result[1].startswith("Noted")
    assert home.conversations() == []
