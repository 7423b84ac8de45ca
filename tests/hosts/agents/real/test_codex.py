"""Codex with lcm: every turn is stored once, and nothing of ours is."""

from __future__ import annotations

from real_agents import Codex
from stored import rows_of, said_in, talk_of, twice

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
