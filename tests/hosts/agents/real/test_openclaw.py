"""OpenClaw with lcm in its context engine slot: turns are committed there, and contexts come from there."""

from __future__ import annotations

from real_agents import Openclaw
from stored import rows_of, said_in, talk_of, twice

BOTH = '[[call exec {"command":"echo one"}]] [[call exec {"command":"echo two"}]]'


def test_turns_are_committed_once_and_the_context_comes_from_there(openclaw: Openclaw) -> None:
    session = openclaw.say(f"The gate code is HERON-4417. {BOTH} [[say Noted.]]")
    talk = talk_of(openclaw.database, session)
    assert talk[0].role == "user"
    assert talk[0].said.startswith("The gate code is HERON-4417.")
    assert [name for row in talk for name in row.calls] == ["exec", "exec"]
    assert talk[-1].said == "Noted."
    openclaw.say("And the garage? [[say Nobody told me.]]")
    assert said_in(openclaw.database, session)[-1] == ("assistant", "Nobody told me.")
    assert twice(rows_of(openclaw.database)) == []
    request = openclaw.models.talk("And the garage?")[-1]
    assert "Noted." in request.text
    said = openclaw.lcm("doctor", "--host", "openclaw")
    assert "openclaw.last_turn: the last turn is stored" in said
