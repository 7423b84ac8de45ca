"""Claude Code with lcm: every turn is stored once, and nothing of ours is."""

from __future__ import annotations

import json

from real_agents import ClaudeCode
from stored import rows_of, said_in, talk_of, twice

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
    assert [part for row in talk for part in ("one", "two") if part in row.whole.split()] == ["one", "two"]
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
    said = [text for _, text in said_in(claude.database, claude.key(session))]
    assert [text for text in said if text.startswith("Never touch")] == [said[0]]
