"""OpenClaw with lcm in its context engine slot: turns are committed there, and contexts come from there.

What a session can meet, and the test that has it:

- two turns, parallel calls, a resume: ``turns_are_committed_once``; an import after it: ``what_was_stored_live``
- a sub-agent: ``a_sub_agents_talk``; the request before as a prefix: ``each_request_extends``
- a compaction that usage forces: ``a_compaction_that_usage_forces``
- a fork, a rewind and a reset, as its Control UI does them: ``a_fork_a_rewind_and_a_reset``
- the process killed: ``a_process_that_is_killed``; two at once: ``two_at_once``; ``/lcm``: ``lcm_and_its_doctor``
- the passage in view after a compaction, no injection stored: ``facts_planted_in_openclaw``
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from gateway import Gateway
from real_agents import Openclaw
from stored import rows_of, said_in, talk_of, twice
from test_planted_facts import Asked, hold

from lcm_plugin.hosts.agents.plugin_files import openclaw_files
from lcm_plugin.manifest import as_text, manifest

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


def test_each_request_extends_the_one_before(gateway: Gateway) -> None:
    session = gateway.session()
    gateway.say("Good morning to you all. [[say Good morning.]]", session)
    gateway.say(f"Run both of them. {BOTH} [[say Both ran.]]", session)
    gateway.say("Thanks! [[say You are welcome.]]", session)
    requests = gateway.models.talk("Good morning to you all.")
    assert len(requests) == 4
    # OpenClaw's own note on what runs stands behind the prompt, in one request each.
    shown = [[turn for turn in one.turns if not _is_passing(turn)] for one in requests]
    for before, after in pairwise(shown):
        assert after[: len(before)] == before


def _is_passing(turn: dict[str, Any]) -> bool:
    return "BEGIN_OPENCLAW_INTERNAL_CONTEXT" in str(turn)


def test_a_sub_agents_talk_is_a_session_of_its_own(gateway: Gateway) -> None:
    session = gateway.session()
    given = {"id": "openclaw:core:sessions_spawn", "args": {"task": "Look round. [[say All is quiet.]]"}}
    gateway.say(f"Send somebody. [[call tool_call {json.dumps(given)}]] [[say Sent.]]", session)
    found = _until(lambda: [row.key for row in rows_of(gateway.database) if row.said == "All is quiet."])
    assert len(found) == 1
    assert ":subagent:" in found[0]
    assert "All is quiet." not in [text for _, text in said_in(gateway.database, session)]


def _until(look: Callable[[], list[str]]) -> list[str]:
    deadline = time.monotonic() + 120
    while not (found := look()):
        assert time.monotonic() < deadline, "it never comes"
        time.sleep(0.2)
    return found


def test_a_compaction_that_usage_forces_takes_nothing_out_and_costs_no_turn(gateway: Gateway) -> None:
    session = gateway.session()
    gateway.say("Never touch the file pump.cfg. [[say I keep off it.]]", session)
    gateway.models.use_once = 127_000
    gateway.say("Now write the report. [[say Writing.]]", session)
    assert gateway.say("Go on with it. [[say Going on.]]", session) == "Going on."
    request = gateway.models.talk("Go on with it.")[-1]
    assert "Never touch the file pump.cfg." in request.text
    assert "Now write the report." in request.text
    assert [text for role, text in said_in(gateway.database, session) if role == "assistant"] == [
        "I keep off it.",
        "Writing.",
        "Going on.",
    ]


def test_a_fork_a_rewind_and_a_reset_end_where_they_belong(gateway: Gateway) -> None:
    session = gateway.session()
    gateway.say("Call the pump Anna. [[say Anna it is.]]", session)
    gateway.say("And the valve Berta. [[say Berta it is.]]", session)
    second = [one for one in gateway.talk(session) if one["role"] == "user"][1]["__openclaw"]["id"]
    fork = gateway.call("sessions.fork", sessionKey=session, entryId=second)["sessionKey"]
    gateway.call("sessions.rewind", sessionKey=session, entryId=second)
    gateway.say("Call the valve Clara. [[say Clara it is.]]", session)
    gateway.say("Call it Doris in the fork. [[say Doris it is.]]", fork)

    rewound = gateway.models.talk("Call the valve Clara.")[-1]
    forked = gateway.models.talk("Call it Doris in the fork.")[-1]
    for request in (rewound, forked):
        assert request.text.count("Anna it is.") == 2
        assert "Berta" not in request.text
    talk = talk_of(gateway.database, session)
    assert [row.said for row in talk if row.gone] == [
        "And the valve Berta. [[say Berta it is.]]",
        "Berta it is.",
    ]
    assert twice(talk) == []
    assert [text for _, text in said_in(gateway.database, fork)] == [
        "Call the pump Anna. [[say Anna it is.]]",
        "Anna it is.",
        "Call it Doris in the fork. [[say Doris it is.]]",
        "Doris it is.",
    ]

    gateway.call("sessions.reset", key=session)
    gateway.say("What is new? [[say Nothing.]]", session)
    gateway.say("And now? [[say Nothing either.]]", session)
    request = gateway.models.talk("And now?")[-1]
    assert "What is new?" in request.text
    assert "Clara" not in re.sub(r"<recalled>.*?</recalled>", "", request.text)


def test_a_process_that_is_killed_costs_no_turn_and_each_message_is_stored_once(gateway: Gateway) -> None:
    session = gateway.session()
    gateway.say("Good evening. [[say Good evening to you.]]", session)
    call = '[[call exec {"command":"sleep 3"}]]'
    said: list[str] = []
    turn = threading.Thread(
        target=lambda: said.append(gateway.say(f"Wait. {call} [[say It was killed.]]", session))
    )
    turn.start()
    gateway.agent.kill_server()
    turn.join(300)
    assert said == ["It was killed."]
    gateway.say("Go on after it. [[say Going on after it.]]", session)
    assert [text for role, text in said_in(gateway.database, session) if role == "assistant"] == [
        "Good evening to you.",
        "It was killed.",
        "Going on after it.",
    ]
    assert twice([row for row in rows_of(gateway.database) if row.key == session]) == []


def test_what_was_stored_live_is_not_imported_again(gateway: Gateway) -> None:
    # In the store are the rewound, reset, forked and compacted sessions of the tests above too.
    session = gateway.session()
    gateway.say(f"Run both of these. {BOTH} [[say Both of these ran.]]", session)
    gateway.say("And thanks for it. [[say With pleasure.]]", session)
    before = talk_of(gateway.database, session)
    assert [row.role for row in before] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
        "user",
        "assistant",
    ]
    for _ in range(2):
        output = gateway.agent.lcm("import", str(gateway.agent.home / "state"), "--apply")
        assert talk_of(gateway.database, session) == before, output
        # A fork begins with what it copied, which its own context needs.
        whole = [row for row in rows_of(gateway.database) if ":dashboard:" not in row.key]
        assert twice(whole) == [], output


def test_two_at_once_store_each_their_own(gateway: Gateway) -> None:
    sessions = [gateway.session(), gateway.session()]
    prompts = [f"I am number {number}. [[say You are {number}.]]" for number in range(2)]
    turns = [
        gateway.agent.start("agent", "--agent", "main", "--session-key", session, "--message", prompt)
        for session, prompt in zip(sessions, prompts, strict=True)
    ]
    outputs = [one.communicate(timeout=300)[0] for one in turns]
    assert [one.returncode for one in turns] == [0, 0], outputs
    for number, session in enumerate(sessions):
        assert said_in(gateway.database, session) == [
            ("user", prompts[number]),
            ("assistant", f"You are {number}."),
        ]


def test_lcm_and_its_doctor_are_commands_and_its_tools_are_found_and_called(gateway: Gateway) -> None:
    session = gateway.session()
    gateway.say("The roof was mended in May. [[say Noted about the roof.]]", session)
    assert "this session: conversation" in gateway.command("/lcm", session)
    assert "All is whole" in gateway.command("/lcm doctor", session)
    compacted = gateway.call("sessions.compact", key=session)
    assert compacted["reason"] == "already under target: nothing_eligible"
    asked = {"query": "lcm_grep search all that was said"}
    gateway.say(f"Look for tools. [[call tool_search {json.dumps(asked)}]] [[say Found.]]", session)
    assert "openclaw:lcm:lcm_grep" in gateway.models.talk("Look for tools.")[-1].text
    called = {"id": "openclaw:lcm:lcm_grep", "args": {"pattern": "roof mended"}}
    gateway.say(f"Search for it. [[call tool_call {json.dumps(called)}]] [[say Searched.]]", session)
    results = [turn for turn in gateway.models.talk("Search for it.")[-1].turns if turn["role"] == "tool"]
    assert "hits" in results[-1]["content"]
    # What the command answered is OpenClaw's, and not what the agent said.
    assert "this session: conversation" not in gateway.models.talk("Search for it.")[-1].text
    said = gateway.agent.lcm("doctor", "--host", "openclaw")
    assert "openclaw.last_turn: the last turn is stored: all 8 messages" in said


class Session:
    """A session of the gateway that stays open."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway, self.key = gateway, gateway.session()

    def say(self, prompt: str) -> None:
        self._gateway.say(prompt, self.key)


class AskedInOpenclaw(Asked):
    """OpenClaw shows its model three tools, with which it finds and calls the others."""

    def search(self, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        return "tool_call", {"id": "openclaw:lcm:lcm_grep", "args": arguments}


def test_facts_planted_in_openclaw_are_in_view_after_a_compaction(gateway: Gateway) -> None:
    talk = Session(gateway)
    hold(
        AskedInOpenclaw(gateway.agent, talk, ("exec", "command"), ""),
        gateway.agent,
        127_000,
    )


def read_manifests(*asked: tuple[Path, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """What OpenClaw's own loader makes of each folder's manifest, and what is wrong with these settings by it."""
    agents = Path(os.environ["LCM_TEST_AGENTS"])
    command = [
        str(agents / "node" / "node_modules" / "node" / "bin" / "node"),
        str(Path(__file__).with_name("read_manifests.mjs")),
        str(agents / "openclaw" / "node_modules" / "openclaw"),
    ]
    folders = [{"folder": str(folder), "settings": settings} for folder, settings in asked]
    done = subprocess.run(command, input=json.dumps({"folders": folders}), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    assert [one for one in found if "error" in one] == []
    return found


def test_its_loader_reads_both_manifests_and_nothing_of_them_is_dropped(tmp_path: Path) -> None:
    ours, adapter = tmp_path / "ours", tmp_path / "lcm"
    ours.mkdir()
    (ours / "openclaw.plugin.json").write_text(as_text(), encoding="utf-8")
    for name, text in openclaw_files(None, {}).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    said = manifest()
    defaults = {
        key: rule["default"] for key, rule in said["configSchema"]["properties"].items() if "default" in rule
    }
    settings = [defaults, {"contextThreshold": 0.5}, {"contextThreshold": 7}, {"maxSweepPasses": "many"}]
    read, of_adapter = read_manifests((ours, settings), (adapter, [{}, {"window": 1}]))

    for key in (
        "id",
        "name",
        "version",
        "description",
        "kind",
        "skills",
        "contracts",
        "configSchema",
        "uiHints",
    ):
        assert read["manifest"][key] == said[key], key
    whole, changed, too_large, no_number = read["errors"]
    assert (whole, changed) == ([], [])
    assert too_large != []
    assert too_large[0].startswith("contextThreshold")
    assert no_number == ["maxSweepPasses: must be integer"]

    written = json.loads((adapter / "openclaw.plugin.json").read_text(encoding="utf-8"))
    assert {key: of_adapter["manifest"][key] for key in written} == written
    assert of_adapter["errors"][0] == []
    assert of_adapter["errors"][1] != []
