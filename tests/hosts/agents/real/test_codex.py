"""Codex with lcm: every turn is stored once, and nothing of ours is."""

from __future__ import annotations

import json
import re
import signal

import pytest
from open_talks import codex_talk
from real_agents import Codex
from stored import doubled_by_an_import, rows_of, said_in, talk_of, twice
from terminal import CLEAR, ENTER, ESCAPE, terminal

BOTH = '[[call exec_command {"cmd":"echo one"}]] [[call exec_command {"cmd":"echo two"}]]'


def test_two_turns_are_stored_word_for_word_as_they_end(codex: Codex) -> None:
    session = codex.say("The gate code is HERON-4417. [[say Noted.]]")
    asked, answered = said_in(codex.database, codex.key(session))[-2:]
    assert (asked, answered) == (
        ("user", "The gate code is HERON-4417. [[say Noted.]]"),
        ("assistant", "Noted."),
    )
    codex.say("And the garage? [[say Nobody told me.]]", session)
    said = said_in(codex.database, codex.key(session))
    assert said[-1] == ("assistant", "Nobody told me.")
    assert said.count(asked) == said.count(answered) == 1


def test_calls_made_at_once_are_stored_with_their_results(codex: Codex) -> None:
    session = codex.say(f"Run both. {BOTH} [[say Both ran.]]")
    talk = talk_of(codex.database, codex.key(session))
    assert [name for row in talk for name in row.calls] == ["exec_command", "exec_command"]
    results = [row.whole for row in talk if row.role == "tool"]
    assert ["one" in results[0], "two" in results[1]] == [True, True]
    assert twice(rows_of(codex.database)) == []


def test_after_a_compaction_a_resume_pack_stands_in_the_context(codex: Codex) -> None:
    session = codex.say(
        "Never touch the file pump.cfg. We decided on port 8123. [[say Understood, port 8123.]]"
    )
    codex.models.use_once = 900_000
    codex.say("Now write the report. [[say Writing.]]", session)
    codex.say("Go on with it. [[say Going on.]]", session)
    request = codex.models.talk("Go on with it.")[-1]
    assert "<lcm-resume>" in request.text
    assert "Never touch the file pump.cfg." in request.text
    assert "Now write the report." in request.text
    assert all("lcm-resume" not in row.whole for row in rows_of(codex.database))


def test_what_another_session_said_is_in_view_before_the_model_answers(codex: Codex) -> None:
    codex.say("The gate code of the north pumping station is HERON-4417. [[say Noted.]]")
    session = codex.say("What is the gate code of the north pumping station? [[say It is in the quote.]]")
    codex.say("Thanks! [[say You are welcome.]]", session)
    first, second = (one for one in codex.models.talk("What is the gate code") if "Summary" not in one.text)
    [quote] = re.findall(r"<recalled>.*?</recalled>", first.text)
    assert "HERON-4417" in quote
    assert second.text.count("<recalled>") == 1
    assert second.turns[: len(first.turns)] == first.turns
    assert all("<recalled>" not in row.whole for row in rows_of(codex.database))


def test_an_import_of_what_its_hooks_stored_adds_nothing(codex: Codex) -> None:
    session = codex.say(f"Run both. {BOTH} [[say Both ran.]]")
    codex.say("What did the second one say? [[say It said two.]]", session)
    assert doubled_by_an_import(codex, codex.home / ".codex/sessions") == []
    codex.say("And the first? [[say It said one.]]", session)
    assert said_in(codex.database, codex.key(session))[-1] == ("assistant", "It said one.")
    assert twice(rows_of(codex.database)) == []


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGSTOP])
def test_a_server_that_is_killed_or_hangs_costs_no_turn_and_the_rest_is_read_by_the_next(
    codex: Codex, by: signal.Signals
) -> None:
    arguments = ["exec", "--dangerously-bypass-hook-trust", "--skip-git-repo-check"]
    running = codex.start(*arguments, 'Wait. [[call exec_command {"cmd":"sleep 4"}]] [[say It was killed.]]')
    codex.kill_server(by)
    output = running.communicate(timeout=300)[0]
    codex.end_servers()
    assert running.returncode == 0, output
    session = output.split("session id:")[1].split()[0]
    codex.say("Go on. [[say Going on.]]", session)
    assert [text for _, text in said_in(codex.database, codex.key(session))][-3:] == [
        "It was killed.",
        "Go on. [[say Going on.]]",
        "Going on.",
    ]
    assert twice(rows_of(codex.database)) == []


def test_the_doctor_proves_the_last_turn_and_names_hooks_that_nobody_trusts(codex: Codex) -> None:
    codex.say("The gate code is HERON-4417. [[say Noted.]]")
    said = codex.lcm("doctor", "--host", "codex", check=False)
    assert "codex.last_turn: the last turn is stored: all 2 messages" in said
    assert "ERROR codex.untrusted: 5 hooks not trusted" in said
    codex.lcm("install", "codex", "--uninstall")
    assert "codex.not_installed" in codex.lcm("doctor", "--host", "codex", check=False)


def test_the_doctor_names_trusted_hooks_that_are_switched_off(codex: Codex) -> None:
    with codex_talk(codex) as talk:
        talk.say("The gate code is HERON-4417. [[say Noted.]]")
    said = codex.lcm("doctor", "--host", "codex", check=False)
    assert "codex.last_turn: the last turn is stored: all 2 messages" in said
    assert "ERROR" not in said
    place = codex.home / ".codex" / "config.toml"
    kept = place.read_text()
    place.write_text(kept.replace("trusted_hash", "enabled = false\ntrusted_hash", 1))
    assert "ERROR codex.hooks_off: hooks switched off: " in codex.lcm(
        "doctor", "--host", "codex", check=False
    )
    place.write_text(f"{kept}\n[features]\nhooks = false\n")
    assert "ERROR codex.hooks_off" in codex.lcm("doctor", "--host", "codex", check=False)


def test_a_turn_that_is_taken_back_is_archived_and_a_fork_begins_with_what_came_before(codex: Codex) -> None:
    with codex_talk(codex) as talk:
        for prompt in ("Begin. [[say Begun.]]", "Go left. [[say Left.]]"):
            talk.say(prompt)
        talk.take_back(talk.turns[1])
        talk.say("Go right. [[say Right.]]")
        fork = talk.fork()
        fork.say("Try it the other way. [[say The other way.]]")
        talk.say("Go on. [[say Going on.]]")
    rows = talk_of(codex.database, codex.key(talk.session))
    assert [row.said for row in rows if not row.gone] == [
        *("Begin. [[say Begun.]]", "Begun."),
        *("Go right. [[say Right.]]", "Right."),
        *("Go on. [[say Going on.]]", "Going on."),
    ]
    assert [row.said for row in rows if row.gone] == ["Go left. [[say Left.]]", "Left."]
    assert [text for _, text in said_in(codex.database, codex.key(fork.session))] == [
        "Try it the other way. [[say The other way.]]",
        "The other way.",
    ]
    assert "Go left." not in codex.models.talk("Try it the other way.")[-1].text
    assert "Go right." in codex.models.talk("Try it the other way.")[-1].text


def test_what_a_person_rewinds_in_a_terminal_is_taken_back(codex: Codex) -> None:
    with terminal(codex, "--dangerously-bypass-hook-trust") as screen:

        def turn(prompt: str, answer: str) -> None:
            screen.enter(prompt)
            screen.wait(rf"(?s)• {re.escape(answer)}.*Worked for.*› Ask Codex")

        screen.wait("› Ask Codex")
        turn("Begin. [[say Begun.]]", "Begun.")
        turn("Go left. [[say Left.]]", "Left.")
        screen.press(ESCAPE)
        screen.wait("esc again to edit previous message")
        screen.press(ESCAPE)
        screen.wait("↵ rewind")
        screen.press(ENTER)
        screen.wait(r"(?s)Conversation reverted.*› Go left\.")
        screen.press(CLEAR)
        turn("Go right. [[say Right.]]", "Right.")
    talk = [(row.said, row.gone) for row in rows_of(codex.database) if not row.hidden and row.said]
    assert talk == [
        *(("Begin. [[say Begun.]]", False), ("Begun.", False)),
        *(("Go left. [[say Left.]]", True), ("Left.", True)),
        *(("Go right. [[say Right.]]", False), ("Right.", False)),
    ]
    assert "Go left." not in codex.models.talk("Go right.")[-1].text


def test_a_sub_agents_talk_is_a_session_of_its_own(codex: Codex) -> None:
    settings = codex.home / ".codex" / "config.toml"
    settings.write_text(f"{settings.read_text()}\n[features]\nmulti_agent_v2 = true\n")
    # Its order is encrypted for the model, and the fake one answers it as it answers what it cannot read.
    given = {"task_name": "look", "message": "Look round.", "fork_turns": "none"}
    calls = f"[[call spawn_agent {json.dumps(given)}]] [[call wait_agent {{}}]]"
    session = codex.say(f"Send somebody. {calls} [[say Sent.]]")
    [sub] = [row.key for row in rows_of(codex.database) if row.said == "Understood." and not row.hidden]
    assert sub != codex.key(session)
    assert said_in(codex.database, codex.key(session))[-1] == ("assistant", "Sent.")
    assert "Sent." not in [text for _, text in said_in(codex.database, sub)]


def test_two_at_once_store_each_their_own(codex: Codex) -> None:
    arguments = ["exec", "--dangerously-bypass-hook-trust", "--skip-git-repo-check"]
    turns = [codex.start(*arguments, f"I am number {one}. [[say You are {one}.]]") for one in range(2)]
    outputs = [one.communicate(timeout=300)[0] for one in turns]
    assert [one.returncode for one in turns] == [0, 0], outputs
    for number, output in enumerate(outputs):
        session = output.split("session id:")[1].split()[0]
        assert said_in(codex.database, codex.key(session))[-2:] == [
            ("user", f"I am number {number}. [[say You are {number}.]]"),
            ("assistant", f"You are {number}."),
        ]
