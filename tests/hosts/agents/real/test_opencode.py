"""opencode with lcm: every turn is stored once, its contexts come from there, and nothing of ours is stored.

What a session can meet, and the test that has it:

- two turns, parallel calls, an import after it, ``/lcm``, uninstalling: ``turns_with_calls_made_at_once``
- a sub-agent: ``a_sub_agents_talk``
- the passage in view, the request before as a prefix, no injection stored: ``what_another_session_said``
- a compaction that usage forces, a resume, a fork: ``the_hosts_compaction_takes_nothing_out``
- lcm twice in it, and several directories: ``installed_for_a_user_and_in_a_project``
- a rewind in a terminal: ``what_a_person_undoes``
- the process killed: ``a_process_that_is_killed``; two at once: ``two_at_once``
- planted facts after a compaction: ``facts_planted_in_opencode``
"""

from __future__ import annotations

import json
import re
from itertools import pairwise

from open_talks import opencode_talk
from real_agents import SMALL_CONTEXT, Opencode
from stored import rows_of, said_in, talk_of, twice
from terminal import CLEAR, terminal
from test_planted_facts import Asked, hold

BOTH = '[[call bash {"command":"echo one","description":"x"}]] [[call bash {"command":"echo two","description":"y"}]]'


def test_turns_with_calls_made_at_once_are_stored_word_for_word(opencode: Opencode) -> None:
    session = opencode.say("The gate code is HERON-4417. [[say Noted.]]")
    assert said_in(opencode.database, opencode.key(session)) == [
        ("user", "The gate code is HERON-4417. [[say Noted.]]"),
        ("assistant", "Noted."),
    ]
    opencode.say(f"Run both. {BOTH} [[say Both ran.]]", session)
    talk = talk_of(opencode.database, opencode.key(session))
    assert [name for row in talk for name in row.calls] == ["bash", "bash"]
    results = [row.whole for row in talk if row.role == "tool"]
    assert ["one" in results[0], "two" in results[1]] == [True, True]
    assert talk[-1].said == "Both ran."
    assert twice(rows_of(opencode.database)) == []
    said = opencode.lcm("doctor", "--host", "opencode")
    assert "opencode.last_turn: the last turn is stored: all 7 messages" in said
    opencode.lcm("import", str(opencode.home / ".local/share/opencode/opencode.db"), "--apply")
    assert talk_of(opencode.database, opencode.key(session)) == talk
    assert [row for row in rows_of(opencode.database) if row.key != opencode.key(session)] == []
    # The status of a session, as its user asks for it.
    opencode.run("run", "--session", session, "--command", "lcm", "--format", "json", "doctor")
    asked = opencode.models.talk("Report this status of lcm")[-1]
    assert "All is whole" in asked.text
    opencode.lcm("install", "opencode", "--uninstall")
    opencode.say("Nobody stores this. [[say Right.]]", session)
    assert len(talk_of(opencode.database, opencode.key(session))) == len(talk) + len(["command", "answer"])
    assert "opencode.not_written" in opencode.lcm("doctor", "--host", "opencode", check=False)


def test_a_sub_agents_talk_is_a_session_of_its_own(opencode: Opencode) -> None:
    given = {"description": "look", "prompt": "Look round. [[say All is quiet.]]", "subagent_type": "general"}
    session = opencode.say(f"Send somebody. [[call task {json.dumps(given)}]] [[say Sent.]]")
    [sub] = {row.key for row in rows_of(opencode.database)} - {opencode.key(session)}
    assert ("assistant", "All is quiet.") in said_in(opencode.database, sub)
    assert ("assistant", "All is quiet.") not in said_in(opencode.database, opencode.key(session))


def test_what_another_session_said_is_in_view_and_each_request_extends_the_one_before(
    opencode: Opencode,
) -> None:
    opencode.say("The gate code of the north pumping station is HERON-4417. [[say Noted.]]")
    session = opencode.say("What is the gate code of the north pumping station? [[say It is in the quote.]]")
    opencode.say("Thanks! [[say You are welcome.]]", session)
    requests = opencode.models.talk("What is the gate code of the north")
    [quote] = re.findall(r"<recalled>.*?</recalled>", requests[0].text)
    assert "HERON-4417" in quote
    assert requests[-1].text.count("<recalled>") == 1
    for before, after in pairwise(requests):
        assert after.turns[: len(before.turns)] == before.turns
    assert all("<recalled>" not in row.whole for row in rows_of(opencode.database))


def test_the_hosts_compaction_takes_nothing_out_of_the_context_and_a_fork_has_it_too(
    opencode: Opencode,
) -> None:
    session = opencode.say("Never touch the file pump.cfg. [[say I keep off it.]]")
    opencode.models.use_once = 199_000
    opencode.say("Now write the report. [[say Writing.]]", session)
    opencode.say("Go on with it. [[say Going on.]]", session)
    request = opencode.models.talk("Go on with it.")[-1]
    assert "Never touch the file pump.cfg." in request.text
    assert "Now write the report." in request.text
    texts = [text for _, text in said_in(opencode.database, opencode.key(session))]
    assert texts.count("I keep off it.") == 1
    assert not any("A summary of the talk" in text for text in texts)
    fork = opencode.say("Try it the other way. [[say The other way.]]", session, "--fork")
    assert fork != session
    assert "The other way." not in [text for _, text in said_in(opencode.database, opencode.key(session))]
    assert said_in(opencode.database, opencode.key(fork))[-1] == ("assistant", "The other way.")


def test_a_process_that_is_killed_costs_no_turn_and_the_rest_is_stored_with_the_next(
    opencode: Opencode,
) -> None:
    call = '[[call bash {"command":"sleep 4","description":"x"}]]'
    running = opencode.start(*opencode.turn(f"Wait. {call} [[say It was killed.]]"))
    opencode.kill_server()
    output = running.communicate(timeout=300)[0]
    assert running.returncode == 0, output
    session = opencode.session_of(output)
    opencode.say("Go on. [[say Going on.]]", session)
    assert [text for _, text in said_in(opencode.database, opencode.key(session))][-3:] == [
        "It was killed.",
        "Go on. [[say Going on.]]",
        "Going on.",
    ]
    assert twice(rows_of(opencode.database)) == []


def test_two_at_once_store_each_their_own(opencode: Opencode) -> None:
    # Two that make opencode's own database at once fail each other, with or without lcm.
    opencode.say("Hello. [[say Hello to you.]]")
    prompts = [f"I am number {number}. [[say You are {number}.]]" for number in range(2)]
    turns = [opencode.start(*opencode.turn(prompt)) for prompt in prompts]
    outputs = [one.communicate(timeout=300)[0] for one in turns]
    assert [one.returncode for one in turns] == [0, 0], outputs
    for number, output in enumerate(outputs):
        session = opencode.session_of(output)
        assert said_in(opencode.database, opencode.key(session)) == [
            ("user", prompts[number]),
            ("assistant", f"You are {number}."),
        ]


def test_installed_for_a_user_and_in_a_project_one_process_serves_every_directory(opencode: Opencode) -> None:
    opencode.lcm("install", "opencode", "--project")
    (opencode.home / "second").mkdir()
    with opencode_talk(opencode) as talk:
        talk.say("The gate code of the north pumping station is HERON-4417. [[say Noted.]]")
        there = f"directory={opencode.home / 'second'}"
        second = talk.ask(f"session?{there}", {})["id"]
        prompt = {"parts": [{"type": "text", "text": "Hello. [[say Hello to you.]]"}]}
        talk.ask(f"session/{second}/message?{there}", prompt)
        assert len(opencode.servers()) == 1
        talk.ask(f"instance/dispose?{there}", {})
        first, talk.session = talk.session, talk.ask("session", {})["id"]
        talk.say("What is the gate code of the north pumping station? [[say It is in the quote.]]")
        assert len(opencode.servers()) == 1
    request = opencode.models.talk("What is the gate code of the north")[-1]
    assert request.text.count("<recalled>") == 1
    said = [said_in(opencode.database, opencode.key(one))[-1][1] for one in (first, second, talk.session)]
    assert said == ["Noted.", "Hello to you.", "It is in the quote."]
    assert twice(rows_of(opencode.database)) == []


def test_facts_planted_in_opencode_are_in_view_after_a_compaction(opencode: Opencode) -> None:
    opencode.environment |= SMALL_CONTEXT
    with opencode_talk(opencode) as talk:
        hold(Asked(opencode, talk, ("bash", "command"), "lcm_lcm_grep"), opencode, 199_000, long=True)


def test_what_a_person_undoes_in_a_terminal_leaves_the_context_and_stays_stored(opencode: Opencode) -> None:
    session = opencode.say("Call the pump Anna. [[say Anna it is.]]")
    with terminal(opencode, "--session", session) as screen:
        screen.wait("Anna it is")
        screen.enter("Call the valve Berta. [[say Berta it is.]]")
        screen.wait(r"(?m)^\W*Berta it is")
        screen.enter("/undo")
        screen.wait("reverted")
        screen.press(CLEAR)
        screen.enter("Call the valve Clara. [[say Clara it is.]]")
        screen.wait(r"(?m)^\W*Clara it is")
    request = opencode.models.talk("Call the valve Clara.")[-1]
    assert "Anna it is." in request.text
    assert "Berta" not in request.text
    talk = talk_of(opencode.database, opencode.key(session))
    assert [row.said for row in talk if row.gone] == [
        "Call the valve Berta. [[say Berta it is.]]",
        "Berta it is.",
    ]
    assert twice(talk) == []
