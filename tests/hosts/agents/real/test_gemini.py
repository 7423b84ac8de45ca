"""Gemini CLI with lcm: every turn is stored once, and nothing of ours is."""

from __future__ import annotations

import json
import signal
import uuid
from itertools import pairwise
from typing import Any

from fake_models import Answer
from real_agents import Gemini
from stored import doubled_by_an_import, rows_of, said_in, talk_of, twice
from terminal import CLEAR, ENTER, UP, terminal

BOTH = '[[call run_shell_command {"command":"echo one"}]] [[call run_shell_command {"command":"echo two"}]]'


def test_two_turns_are_stored_word_for_word_as_they_end(gemini: Gemini) -> None:
    session = gemini.say("The gate code is HERON-4417. [[say Noted.]]")
    assert said_in(gemini.database, gemini.key(session)) == [
        ("user", "The gate code is HERON-4417. [[say Noted.]]"),
        ("assistant", "Noted."),
    ]
    gemini.say("And the garage? [[say Nobody told me.]]", session)
    assert said_in(gemini.database, gemini.key(session))[2:] == [
        ("user", "And the garage? [[say Nobody told me.]]"),
        ("assistant", "Nobody told me."),
    ]


def test_calls_made_at_once_are_stored_with_their_results(gemini: Gemini) -> None:
    session = gemini.say(f"Run both. {BOTH} [[say Both ran.]]")
    talk = talk_of(gemini.database, gemini.key(session))
    assert [name for row in talk for name in row.calls] == ["run_shell_command", "run_shell_command"]
    assert talk[-1].said == "Both ran."
    assert twice(rows_of(gemini.database)) == []


def test_a_sub_agents_talk_is_a_session_of_its_own(gemini: Gemini) -> None:
    order = {"agent_name": "generalist", "prompt": "Look round."}
    found = {"result": {"response": "All is quiet."}}
    gemini.models.script = {
        "Send somebody.": Answer("Sent.", [("invoke_agent", order)]),
        "Look round.": Answer("All is quiet.", [("complete_task", found)]),
    }
    session = gemini.say("Send somebody.")
    rows = rows_of(gemini.database)
    [sub] = {row.key for row in rows if row.key != gemini.key(session)}
    # What the agent puts before an order is no talk.
    assert said_in(gemini.database, sub)[0] == ("user", "Look round.")
    assert [name for row in talk_of(gemini.database, sub) for name in row.calls] == ["complete_task"]
    assert "Look round." not in [text for _, text in said_in(gemini.database, gemini.key(session))]
    assert any(gemini.key(session) in row.whole for row in rows if row.key == sub)
    assert all("<recalled>" not in one.text for one in gemini.models.talk("Look round."))


def test_each_request_extends_the_one_before(gemini: Gemini) -> None:
    gemini.say("The gate code of the north pumping station is HERON-4417. [[say Noted.]]")
    session = gemini.say("What is the gate code of the north pumping station? [[say Quoted.]]")
    gemini.say("Which station was the gate code for? [[say The north one.]]", session)
    # A session that is resumed has the results of its calls twice, with and without lcm.
    gemini.say(f"Run both. {BOTH} [[say Both ran.]]", session)
    requests = [one.turns for one in gemini.models.talk("What is the gate code of the north")]
    assert len(requests) >= 4
    assert "HERON-4417" in json.dumps(requests[0])
    for before, after in pairwise(requests):
        assert plain(after[: len(before)]) == plain(before)


def test_what_a_person_rewinds_in_a_terminal_is_taken_back(gemini: Gemini) -> None:
    with terminal(gemini, "-y") as screen:

        def turn(prompt: str, answer: str) -> None:
            screen.submit(prompt, rf"(?s)✦ {answer}.*\? for shortcuts.*Type your message")

        screen.wait(r"(?s)1 MCP server.*Type your message")
        turn("Begin. [[say Begun.]]", "Begun.")
        turn("Go left. [[say Left.]]", "Left.")
        screen.submit("/rewind", "● Stay at current position")
        screen.press(UP)
        screen.wait(r"● Go left\.")
        screen.press(ENTER)
        screen.wait("● 1. Rewind conversation")
        screen.press(ENTER)
        screen.wait(r"\* Go left\.")
        screen.press(CLEAR)
        screen.wait("Type your message")
        turn("Go right. [[say Right.]]", "Right.")
    talk = [(row.said, row.gone) for row in rows_of(gemini.database) if not row.hidden and row.said]
    assert talk == [
        *(("Begin. [[say Begun.]]", False), ("Begun.", False)),
        *(("Go left. [[say Left.]]", True), ("Left.", True)),
        *(("Go right. [[say Right.]]", False), ("Right.", False)),
    ]
    assert "Go left." not in gemini.models.talk("Go right.")[-1].text


def test_what_another_session_said_is_in_view_and_does_not_come_back_as_history(gemini: Gemini) -> None:
    gemini.say("The gate code of the north pumping station is HERON-4417. [[say Noted.]]")
    gemini.say("What is the gate code of the north pumping station? [[say It is in the quote.]]")
    asked = [one for one in gemini.models.talk("What is the gate code") if "&lt;recalled&gt;" in one.text]
    assert asked
    assert "HERON-4417" in asked[-1].text
    assert all("recalled" not in row.whole for row in rows_of(gemini.database))
    assert "gemini.last_turn: the last turn is stored: all 2 messages" in gemini.lcm(
        "doctor", "--host", "gemini"
    )


def test_hooks_are_answered_by_the_sessions_server(gemini: Gemini) -> None:
    gemini.say("The gate code of the north pumping station is HERON-4417. [[say Noted.]]")
    # A hook that does its work itself would find another database.
    place = gemini.home / ".gemini/extensions/lcm/hooks/hooks.json"
    line = place.read_text()
    assert line.count(str(gemini.database)) == 2
    place.write_text(line.replace(str(gemini.database), str(gemini.home / "other.db")))
    session = gemini.say("What is the gate code of the north pumping station? [[say It is in the quote.]]")
    assert "HERON-4417" in gemini.models.talk("What is the gate code")[-1].text
    assert len(said_in(gemini.database, gemini.key(session))) == 2
    assert not (gemini.home / "other.db").exists()
    assert list((gemini.home / ".local/share/lcm/agents/hooks").iterdir()) == []


def test_after_a_compression_a_resume_pack_stands_in_the_context(gemini: Gemini) -> None:
    session = gemini.say("Never touch the file pump.cfg. " + "The pumps hum. " * 400 + "[[say Understood.]]")
    gemini.models.use_once = 900_000
    call = '[[call run_shell_command {"command":"echo one"}]]'
    gemini.say(f"Now write the report. {'The valves hold. ' * 400} {call} [[say Writing.]]", session)
    gemini.say("And on. [[say Done.]]", session)
    asked = [one for one in gemini.models.talk("And on.") if "lcm-resume" in one.text]
    assert asked
    assert "Never touch the file pump.cfg." in asked[-1].text
    assert all("lcm-resume" not in row.whole for row in rows_of(gemini.database))


def test_an_import_of_what_its_hooks_stored_adds_nothing(gemini: Gemini) -> None:
    session = gemini.say(f"Run both. {BOTH} [[say Both ran.]]")
    gemini.say("What did the second one say? [[say It said two.]]", session)
    assert doubled_by_an_import(gemini, gemini.home / ".gemini/tmp") == []
    gemini.say("And the first? [[say It said one.]]", session)
    assert said_in(gemini.database, gemini.key(session))[-1] == ("assistant", "It said one.")
    assert twice(rows_of(gemini.database)) == []


def test_a_server_that_is_killed_costs_no_turn(gemini: Gemini) -> None:
    call = '[[call run_shell_command {"command":"sleep 4"}]]'
    session = str(uuid.uuid4())
    running = gemini.start(*gemini.turn(f"Wait. {call} [[say It was killed.]]", session, new=True))
    gemini.kill_server()
    output = running.communicate(timeout=300)[0]
    assert running.returncode == 0, output
    gemini.say("Go on. [[say Going on.]]", session)
    assert [text for _, text in said_in(gemini.database, gemini.key(session))][-3:] == [
        "It was killed.",
        "Go on. [[say Going on.]]",
        "Going on.",
    ]
    assert twice(rows_of(gemini.database)) == []


def test_a_server_that_hangs_costs_the_end_of_a_turn_300_ms(gemini: Gemini) -> None:
    place = gemini.home / ".gemini/extensions/lcm/hooks/hooks.json"
    hooks, times = json.loads(place.read_text()), gemini.home / "times"
    for event, [defined] in hooks["hooks"].items():
        [hook] = defined["hooks"]
        now = f"date '+{event} %s%3N' >> {times}"
        hook["command"] = f'{now}; trap "{now}" EXIT; {hook["command"]}'
    place.write_text(json.dumps(hooks))
    call = '[[call run_shell_command {"command":"sleep 4"}]]'
    running = gemini.start("-y", "--session-id", str(uuid.uuid4()), "-p", f"Wait. {call} [[say It hung.]]")
    gemini.kill_server(signal.SIGSTOP)
    output = running.communicate(timeout=300)[0]
    assert running.returncode == 0, output
    assert "It hung." in output
    marks = [line.split() for line in times.read_text().splitlines()]
    [(_, began), (_, ended)] = [mark for mark in marks if mark[0] == "AfterAgent"]
    # A busy machine may add as much again.
    assert 300 <= int(ended) - int(began) < 1_500


def test_two_at_once_store_each_their_own(gemini: Gemini) -> None:
    sessions = [str(uuid.uuid4()) for _ in range(2)]
    turns = [
        gemini.start(*gemini.turn(f"I am number {number}. [[say You are {number}.]]", session, new=True))
        for number, session in enumerate(sessions)
    ]
    outputs = [one.communicate(timeout=300)[0] for one in turns]
    assert [one.returncode for one in turns] == [0, 0], outputs
    for number, session in enumerate(sessions):
        assert said_in(gemini.database, gemini.key(session)) == [
            ("user", f"I am number {number}. [[say You are {number}.]]"),
            ("assistant", f"You are {number}."),
        ]


def test_the_doctor_names_what_is_switched_off_or_not_trusted(gemini: Gemini) -> None:
    def doctor() -> str:
        return gemini.lcm("doctor", "--host", "gemini", check=False)

    session = gemini.say("The gate code is HERON-4417. [[say Noted.]]")
    said = doctor()
    assert "gemini.last_turn: the last turn is stored: all 2 messages" in said
    assert "ERROR" not in said
    assert "WARNING gemini." not in said
    place = gemini.home / ".gemini/settings.json"
    kept = place.read_text()
    settings = json.loads(kept)
    settings["security"]["folderTrust"]["enabled"] = True
    place.write_text(json.dumps(settings))
    assert "WARNING gemini.server: Gemini CLI does not run lcm's server in this folder (disabled)" in doctor()
    place.write_text(json.dumps(json.loads(kept) | {"hooksConfig": {"disabled": ["lcm"]}}))
    gemini.say("No hook runs. [[say Right.]]", session)
    assert "ERROR gemini.hooks_off" in doctor()
    place.write_text(kept)
    gemini.run("extensions", "disable", "lcm")
    assert "ERROR gemini.switched_off" in doctor()
    gemini.lcm("install", "gemini", "--uninstall")
    assert "ERROR gemini.not_installed" in doctor()


def plain(value: Any) -> Any:
    """Contents without the marks that Gemini CLI gives the calls of the turn that runs."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items() if key != "thoughtSignature"}
    return value
