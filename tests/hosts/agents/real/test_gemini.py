"""Gemini CLI with lcm: every turn is stored once, and nothing of ours is."""

from __future__ import annotations

import uuid

from real_agents import Gemini
from stored import rows_of, said_in, talk_of, twice

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
