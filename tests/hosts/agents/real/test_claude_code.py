"""Claude Code with lcm: every turn is stored once, and nothing of ours is."""

from __future__ import annotations

import json
import re
import signal
import uuid
from itertools import pairwise
from typing import Any

import pytest
from real_agents import ClaudeCode
from stored import doubled_by_an_import, rows_of, said_in, talk_of, twice
from terminal import CLEAR, ENTER, UP, terminal

BOTH = '[[call Bash {"command":"echo one","description":"x"}]] [[call Bash {"command":"echo two","description":"y"}]]'


def test_two_turns_are_stored_word_for_word_as_they_end(claude: ClaudeCode) -> None:
    session = claude.say("The gate code is HERON-4417. [[say Noted.]]")
    assert said_in(claude.database, claude.key(session)) == [
        ("user", "The gate code is HERON-4417. [[say Noted.]]"),
        ("assistant", "Noted."),
    ]
    claude.say("And the garage? [[say Nobody told me.]]", session)
    assert said_in(claude.database, claude.key(session))[2:] == [
        ("user", "And the garage? [[say Nobody told me.]]"),
        ("assistant", "Nobody told me."),
    ]


def test_calls_made_at_once_are_stored_with_their_results(claude: ClaudeCode) -> None:
    session = claude.say(f"Run both. {BOTH} [[say Both ran.]]")
    talk = talk_of(claude.database, claude.key(session))
    assert [name for row in talk for name in row.calls] == ["Bash", "Bash"]
    assert sorted(part for row in talk for part in ("one", "two") if part in row.whole.split()) == [
        "one",
        "two",
    ]
    assert talk[-1].said == "Both ran."
    assert talk[-1].active
    assert twice(rows_of(claude.database)) == []


def test_a_sub_agents_talk_is_a_session_of_its_own(claude: ClaudeCode) -> None:
    given = {
        "description": "look",
        "prompt": "Look round. [[say All is quiet.]]",
        "subagent_type": "general-purpose",
    }
    session = claude.say(f"Send somebody. [[call Agent {json.dumps(given)}]] [[say Sent.]]")
    keys = {row.key for row in rows_of(claude.database)}
    [sub] = [key for key in keys if key.startswith(f"{claude.key(session)}:sub:")]
    assert ("assistant", "All is quiet.") in said_in(claude.database, sub)
    assert ("assistant", "All is quiet.") not in said_in(claude.database, claude.key(session))


def test_after_a_compaction_a_resume_pack_stands_in_the_context(claude: ClaudeCode) -> None:
    session = claude.say(
        "Never touch the file pump.cfg. We decided on port 8123. [[say Understood, port 8123.]]"
    )
    claude.models.use_once = 985_000
    claude.say("Now write the report. [[say Writing.]]", session)
    claude.say("Go on with it. [[say Going on.]]", session)
    request = claude.models.talk("Go on with it.")[-1]
    assert "<lcm-resume>" in request.text
    assert "Never touch the file pump.cfg." in request.text
    assert "Now write the report." in request.text
    assert all("lcm-resume" not in row.whole for row in rows_of(claude.database))
    # What a hook says before a compaction is an order to the model that summarises.
    assert all("Additional Instructions:" not in one.text for one in claude.models.requests)
    said = [text for _, text in said_in(claude.database, claude.key(session))]
    assert [text for text in said if text.startswith("Never touch")] == [said[0]]


def test_what_another_session_said_is_in_view_before_the_model_answers(claude: ClaudeCode) -> None:
    claude.say("The gate code of the north pumping station is HERON-4417. [[say Noted.]]")
    session = claude.say("What is the gate code of the north pumping station? [[say It is in the quote.]]")
    request = claude.models.talk("It is in the quote.")[-1]
    [quote] = re.findall(r"<recalled>.*?</recalled>", request.text)
    assert "HERON-4417" in quote
    assert len(quote) <= 1_600
    claude.say("Thanks! [[say You are welcome.]]", session)
    later = claude.models.talk("You are welcome.")[-1]
    assert later.text.count("<recalled>") == 1
    assert all("<recalled>" not in row.whole for row in rows_of(claude.database))


def test_each_request_extends_the_one_before(claude: ClaudeCode) -> None:
    claude.say("The gate code of the north pumping station is HERON-4417. [[say Noted.]]")
    session = claude.say("What is the gate code of the north pumping station? [[say Quoted.]]")
    claude.say(f"Run both. {BOTH} [[say Both ran.]]", session)
    claude.say("Which station was the gate code for? [[say The north one.]]", session)
    requests = [one.turns for one in claude.models.talk("What is the gate code of the north")]
    assert len(requests) >= 4
    for before, after in pairwise(requests):
        for one, other in zip(before, after, strict=False):
            assert plain(other) == plain(one)


def test_a_fork_holds_what_it_copied_once(claude: ClaudeCode) -> None:
    session = claude.say("The gate code is HERON-4417. [[say Noted.]]")
    claude.say("Try it the other way. [[say The other way.]]", session, "--fork-session")
    assert twice(rows_of(claude.database)) == []
    keys = {row.key for row in rows_of(claude.database) if row.said == "The other way."}
    assert keys
    assert keys != {claude.key(session)}


def test_an_import_of_what_its_hooks_stored_adds_nothing(claude: ClaudeCode) -> None:
    session = claude.say(f"Run both. {BOTH} [[say Both ran.]]")
    claude.say("What did the second one say? [[say It said two.]]", session)
    assert doubled_by_an_import(claude, claude.home / ".claude/projects") == []
    claude.say("And the first? [[say It said one.]]", session)
    assert said_in(claude.database, claude.key(session))[-1] == ("assistant", "It said one.")
    assert twice(rows_of(claude.database)) == []


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGSTOP])
def test_a_server_that_is_killed_or_hangs_costs_no_turn_and_the_rest_is_read_by_the_next(
    claude: ClaudeCode, by: signal.Signals
) -> None:
    session = str(uuid.uuid4())
    call = '[[call Bash {"command":"sleep 4","description":"x"}]]'
    running = claude.start(*claude.turn(f"Wait. {call} [[say It was killed.]]", session, new=True))
    claude.kill_server(by)
    output = running.communicate(timeout=300)[0]
    claude.end_servers()
    assert running.returncode == 0, output
    claude.say("Go on. [[say Going on.]]", session)
    assert said_in(claude.database, claude.key(session))[-3:] == [
        ("assistant", "It was killed."),
        ("user", "Go on. [[say Going on.]]"),
        ("assistant", "Going on."),
    ]
    assert twice(rows_of(claude.database)) == []


def test_what_a_person_rewinds_in_a_terminal_is_taken_back(claude: ClaudeCode) -> None:
    session = str(uuid.uuid4())
    skip_questions(claude)
    _, _, *options = claude.turn("", session, new=True)

    def turn(prompt: str, answer: str) -> None:
        screen.enter(prompt)
        # The line below an answer says that the turn is over.
        screen.wait(rf"(?s)● {re.escape(answer)}.*done")

    def talk() -> list[tuple[str, bool]]:
        return [(row.said, row.gone) for row in talk_of(claude.database, claude.key(session))]

    with terminal(claude, *options) as screen:
        screen.wait("❯")
        greeted = 0
        # Who types before the server runs is answered without it.
        while not talk():
            greeted += 1
            turn(f"Hello {greeted}. [[say Greeted {greeted}.]]", f"Greeted {greeted}.")
        turn("Go left. [[say Left.]]", "Left.")
        assert ("Left.", False) in talk()
        screen.enter("/rewind")
        screen.wait(r"❯ \(current\)")
        screen.press(UP)
        screen.wait("❯ Go left")
        screen.press(ENTER)
        screen.wait("❯ 1. Restore conversation")
        screen.press(ENTER)
        screen.wait(r"─\s*❯\sGo left")
        screen.press(CLEAR)
        turn("Go right. [[say Right.]]", "Right.")
        assert talk()[-4:] == [
            ("Go left. [[say Left.]]", True),
            ("Left.", True),
            ("Go right. [[say Right.]]", False),
            ("Right.", False),
        ]
    assert "Go left." not in claude.models.talk("Go right.")[-1].text


def skip_questions(claude: ClaudeCode) -> None:
    """Answers what Claude Code asks a new user."""
    key = claude.environment["ANTHROPIC_API_KEY"]
    asked = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "lastOnboardingVersion": "2.1.332",
        "bypassPermissionsModeAccepted": True,
        "customApiKeyResponses": {"approved": [key[-20:]], "rejected": []},
        "projects": {str(claude.project): {"hasTrustDialogAccepted": True}},
    }
    for name, more in (
        (".claude.json", asked),
        ("settings.json", {"skipDangerousModePermissionPrompt": True}),
    ):
        place = claude.home / ".claude" / name
        known = json.loads(place.read_text()) if place.exists() else {}
        place.write_text(json.dumps(known | more))


def test_two_at_once_store_each_their_own(claude: ClaudeCode) -> None:
    sessions = [str(uuid.uuid4()) for _ in range(2)]
    turns = [
        claude.start(*claude.turn(f"I am number {number}. [[say You are {number}.]]", session, new=True))
        for number, session in enumerate(sessions)
    ]
    outputs = [one.communicate(timeout=300)[0] for one in turns]
    assert [one.returncode for one in turns] == [0, 0], outputs
    for number, session in enumerate(sessions):
        assert said_in(claude.database, claude.key(session)) == [
            ("user", f"I am number {number}. [[say You are {number}.]]"),
            ("assistant", f"You are {number}."),
        ]


def test_the_doctor_proves_the_last_turn_and_finds_hooks_that_are_off(claude: ClaudeCode) -> None:
    claude.say("The gate code is HERON-4417. [[say Noted.]]")
    assert "claude-code.last_turn: the last turn is stored: all 2 messages" in claude.lcm(
        "doctor", "--host", "claude-code"
    )
    (claude.home / ".claude/settings.json").write_text(
        json.dumps(
            json.loads((claude.home / ".claude/settings.json").read_text()) | {"disableAllHooks": True}
        )
    )
    claude.say("Nobody stores this. [[say Right.]]")
    said = claude.lcm("doctor", "--host", "claude-code", check=False)
    assert "ERROR claude-code.hooks_off" in said
    assert "ERROR claude-code.last_turn" in said


def test_leaving_takes_the_hooks_out_and_keeps_what_is_stored(claude: ClaudeCode) -> None:
    session = claude.say("The gate code is HERON-4417. [[say Noted.]]")
    claude.lcm("install", "claude-code", "--uninstall")
    claude.say("Nobody stores this. [[say Right.]]", session)
    assert len(said_in(claude.database, claude.key(session))) == 2
    assert "claude-code.not_installed" in claude.lcm("doctor", "--host", "claude-code", check=False)


def plain(turn: Any) -> Any:
    """A message without the marks that say up to where the provider caches, which move on with each request."""
    if isinstance(turn, list):
        return [plain(one) for one in turn]
    if not isinstance(turn, dict):
        return turn
    kept = {key: plain(value) for key, value in turn.items() if key != "cache_control"}
    if isinstance(turn.get("content"), str):
        kept["content"] = [{"type": "text", "text": turn["content"]}]
    return kept
