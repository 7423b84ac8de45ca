"""What the plugin in opencode is answered: contexts of its own messages and pieces, and each message stored once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lcm_plugin import LcmConfig, Session
from lcm_plugin.hosts.opencode.messages import plan, to_core
from lcm_plugin.hosts.opencode.methods import OpencodeMethods
from lcm_plugin.interchange.importers.importing import find_sources, load, look_over
from lcm_plugin.plugin import LcmPlugin

S = "ses_1"
KEY = Session(f"agent:opencode:{S}")


class Talk:
    """A session's messages as opencode keeps them."""

    def __init__(self, session: str = S) -> None:
        self.session, self.listed, self.at = session, list[dict[str, Any]](), 1_760_000_000_000

    def say(self, text: str, *beside: dict[str, Any], **info: Any) -> dict[str, Any]:
        return self._add("user", [{"type": "text", "text": text}, *beside], **info)

    def answer(self, text: str, *calls: tuple[str, str], **info: Any) -> dict[str, Any]:
        parts: list[dict[str, Any]] = [{"type": "step-start"}]
        parts += [{"type": "text", "text": text}] if text else []
        for name, output in calls:
            state = {"status": "completed", "input": {"command": name}, "output": output}
            parts.append({"type": "tool", "tool": "bash", "callID": f"call_{name}", "state": state})
        info.setdefault("tokens", {"input": 0, "cache": {"read": 0}})
        return self._add("assistant", parts, **info)

    def _add(self, role: str, parts: list[dict[str, Any]], **info: Any) -> dict[str, Any]:
        self.at += 1_000
        name = f"msg_{len(self.listed):04}{self.session}"
        for place, part in enumerate(parts):
            part["id"] = f"prt_{name}{place:03}"
        times = {"created": self.at} | ({"completed": self.at} if role == "assistant" else {})
        self.listed.append({"info": {"id": name, "role": role, "time": times, **info}, "parts": parts})
        return self.listed[-1]


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[LcmPlugin]:
    made = LcmPlugin(LcmConfig(database=str(tmp_path / "talk.db"), leaf_chunk_tokens=1_000))
    yield made
    made.close()


@pytest.fixture
def opencode(plugin: LcmPlugin) -> OpencodeMethods:
    return OpencodeMethods(plugin)


def context(host: OpencodeMethods, talk: Talk, limit: int = 60_000, **more: Any) -> Any:
    params = {"session": talk.session, "messages": talk.listed, "limit": limit, "model": "m", **more}
    return host.all()["opencode.context"](params)["plan"]


def store(host: OpencodeMethods, talk: Talk, one: dict[str, Any]) -> None:
    assert host.all()["opencode.store"]({"session": talk.session, "messages": [one]})["stored"]


def recall(host: OpencodeMethods, prompt: str, session: str = "ses_2", **more: Any) -> str:
    given = {"session": session, "prompt": prompt, "directory": "/work/pumps", **more}
    return str(host.all()["opencode.recall"](given)["text"])


def stored(plugin: LcmPlugin, session: Session = KEY) -> list[str]:
    return [str(one["content"]) for one in plugin.engine.messages(session)]


def test_each_message_is_stored_once_whichever_event_brings_it(
    plugin: LcmPlugin, opencode: OpencodeMethods
) -> None:
    talk = Talk()
    talk.say("The gate code is HERON-4417.")
    assert context(opencode, talk) is None
    answer = talk.answer("Let me look.", ("ls", "a b"), ("pwd", "/work"))
    for _ in range(2):
        store(opencode, talk, answer)
    assert context(opencode, talk) is None
    store(opencode, talk, talk.answer("Noted."))
    talk.say("And the garage?")
    assert context(opencode, talk) is None
    roles = [one["role"] for one in plugin.engine.messages(KEY)]
    assert roles == ["user", "assistant", "tool", "tool", "assistant", "user"]


def test_what_was_compacted_goes_in_as_a_summary_and_the_rest_as_the_hosts_own(
    plugin: LcmPlugin, opencode: OpencodeMethods
) -> None:
    talk = Talk()
    for number in range(60):
        talk.say(f"Question {number}: " + "what does pump nine do in winter? " * 30)
        talk.answer(
            f"Answer {number}: " + "it stands still in the frost. " * 30, (f"log{number}", "quiet " * 40)
        )
    talk.say("Which pump did we speak of?")
    context(opencode, talk, limit=32_000)
    plugin.engine.wait_idle(60)
    planned = context(opencode, talk, limit=32_000)
    own = [one for one in planned if isinstance(one, str)]
    pieces = [one for one in planned if not isinstance(one, str)]
    assert own == [one["info"]["id"] for one in talk.listed if one["info"]["id"] in own]
    assert 10 < len(own) < 121
    assert "<summary" in pieces[0]["parts"][0]["text"]
    assert planned[-1] == own[-1]


def test_a_piece_of_a_message_keeps_its_calls_with_their_results() -> None:
    talk = Talk()
    talk.say("Look.")
    talk.answer("Looking.", ("ls", "a b"), ("pwd", "/work"))
    core = to_core(talk.listed)
    assert plan(core, core) == [one["info"]["id"] for one in talk.listed]
    shortened = [*core[:2], {**core[2], "content": "cut"}, core[3]]
    first, piece = plan(shortened, core)
    assert first == talk.listed[0]["info"]["id"]
    assert piece["role"] == "assistant"
    assert [part.get("output", part.get("text")) for part in piece["parts"]] == ["Looking.", "cut", "/work"]
    assert [part.get("input") for part in piece["parts"]] == [None, {"command": "ls"}, {"command": "pwd"}]


def test_what_the_host_took_back_leaves_the_context_and_stays_stored(
    plugin: LcmPlugin, opencode: OpencodeMethods
) -> None:
    talk = Talk()
    talk.say("Paint it red.")
    store(opencode, talk, talk.answer("Red it is."))
    talk.say("No, blue.")
    context(opencode, talk)
    store(opencode, talk, talk.answer("Blue it is."))
    talk.say("Green, please.")
    del talk.listed[2:4]
    context(opencode, talk)
    shown = [one["content"] for one in plugin.engine.assemble(KEY, 60_000).messages]
    assert [block[0]["text"] for block in shown] == ["Paint it red.", "Red it is.", "Green, please."]
    assert any("No, blue." in one for one in stored(plugin))


def test_the_hosts_compaction_is_no_talk_and_takes_nothing_out_of_the_context(
    plugin: LcmPlugin, opencode: OpencodeMethods
) -> None:
    talk = Talk()
    talk.say("The gate code is HERON-4417.")
    context(opencode, talk)
    store(opencode, talk, talk.answer("Noted."))
    before = list(talk.listed)
    talk._add("user", [{"type": "compaction", "auto": True}])
    summary = talk.answer("They spoke of a gate.", summary=True)
    store(opencode, talk, summary)
    opencode.all()["opencode.compacted"]({"session": S})
    talk.say("What is the gate code?")
    del talk.listed[:2]
    planned = context(opencode, talk)
    texts = [part["text"] for piece in planned[:2] for part in piece["parts"]]
    assert texts == ["The gate code is HERON-4417.", "Noted."]
    assert planned[2:] == [talk.listed[-1]["info"]["id"]]
    assert len(stored(plugin)) == len(before) + 1


def test_quotes_come_from_other_sessions_and_are_not_stored(
    plugin: LcmPlugin, opencode: OpencodeMethods
) -> None:
    first = Talk()
    first.say("The gate code of the north pumping station is HERON-4417.")
    context(opencode, first, directory="/work/pumps")
    store(opencode, first, first.answer("Noted."))
    asked = "What is the gate code of the north pumping station?"
    text = recall(opencode, asked)
    assert "HERON-4417" in text
    assert recall(opencode, asked, session="ses_3", parent="ses_2") == ""
    assert recall(opencode, "Thanks!", session="ses_4") == ""
    second = Talk("ses_2")
    second.say(asked, {"type": "text", "text": text, "synthetic": True})
    assert context(opencode, second) is None
    assert "recalled" not in str(stored(plugin, Session("agent:opencode:ses_2")))


def long_talk(plugin: LcmPlugin, host: OpencodeMethods, turns: int = 12) -> Talk:
    """A talk whose first fact was quoted once and is out of view, with that quote."""
    talk = Talk()
    for number in range(turns):
        fact = "The gate code of the north pumping station is HERON-4417. " if not number else ""
        talk.say(f"{fact}Question {number}: " + "what does pump nine do in winter? " * 60)
        store(host, talk, talk.answer("It stands still. " * 60))
    context(host, talk, limit=LIMIT)
    plugin.engine.wait_idle(60)
    return talk


LIMIT = 16_000
ASKED = "What is the gate code of the north pumping station?"


def test_what_a_context_of_ours_leaves_out_is_quoted_though_it_was_quoted_before(
    plugin: LcmPlugin, opencode: OpencodeMethods
) -> None:
    talk = long_talk(plugin, opencode)
    text = recall(opencode, ASKED, session=S, limit=LIMIT)
    assert "HERON-4417" in text
    talk.say(ASKED, {"type": "text", "text": text, "synthetic": True})
    context(opencode, talk, limit=LIMIT)
    store(opencode, talk, talk.answer("It is in the quote."))
    again = "Which gate code has the north pumping station?"
    assert "HERON-4417" not in recall(opencode, again, session=S, limit=LIMIT)
    for number in range(12):
        talk.say(f"Next {number}: " + "and what does pump ten do in summer? " * 60)
        store(opencode, talk, talk.answer("It hums. " * 60))
    context(opencode, talk, limit=LIMIT)
    plugin.engine.wait_idle(60)
    assert "HERON-4417" in recall(opencode, again, session=S, limit=LIMIT)


def test_what_an_earlier_run_quoted_and_still_shows_is_not_quoted_again(plugin: LcmPlugin) -> None:
    first = OpencodeMethods(plugin)
    talk = long_talk(plugin, first)
    text = recall(first, ASKED, session=S, limit=LIMIT)
    talk.say(ASKED, {"type": "text", "text": text, "synthetic": True})
    context(first, talk, limit=LIMIT)
    store(first, talk, talk.answer("It is in the quote."))
    second = OpencodeMethods(plugin)
    given = {"session": S, "limit": LIMIT, "messages": talk.listed}
    assert "HERON-4417" not in recall(second, "Which gate code has the north pumping station?", **given)


def test_capture_only_stores_leaves_the_list_alone_and_gives_a_resume_pack_once(tmp_path: Path) -> None:
    plugin = LcmPlugin(LcmConfig(database=str(tmp_path / "talk.db"), capture_only=True))
    host = OpencodeMethods(plugin)
    talk = Talk()
    talk.say("Never touch pump.cfg. The gate code is HERON-4417.")
    assert context(host, talk) is None
    store(host, talk, talk.answer("Noted."))
    host.all()["opencode.idle"]({"session": S})
    host.all()["opencode.compacted"]({"session": S})
    pack = recall(host, "Go on.", session=S)
    assert pack.startswith("<lcm-resume>")
    assert "Never touch pump.cfg." in pack
    assert recall(host, "And on.", session=S) == ""
    assert len(stored(plugin)) == 2
    plugin.close()


def test_what_a_call_cost_says_what_the_host_adds_to_a_context(
    plugin: LcmPlugin, opencode: OpencodeMethods
) -> None:
    talk = Talk()
    talk.say("Hello.")
    context(opencode, talk)
    assert opencode._overhead.get(S) is None
    store(opencode, talk, talk.answer("Hello.", tokens={"input": 4_000, "cache": {"read": 16_000}}))
    learned = opencode._overhead.get(S)
    assert learned is not None
    assert 19_900 < learned < 20_000


def write_database(path: Path, talk: Talk, revert: str = "") -> Path:
    """opencode's database with one session, whose messages from ``revert`` on a person undid."""
    state = json.dumps({"messageID": revert}) if revert else None
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE session (id, project_id, parent_id, directory, title, version, time_created, revert)"
        )
        database.execute(
            "INSERT INTO session VALUES (?, 'p', NULL, '/work', 'T', '1', 1760000000000, ?)", (S, state)
        )
        database.execute("CREATE TABLE message (id, session_id, time_created, data)")
        database.execute("CREATE TABLE part (id, message_id, data)")
        for one in talk.listed:
            info = one["info"]
            row = (info["id"], S, info["time"]["created"], json.dumps(info))
            database.execute("INSERT INTO message VALUES (?, ?, ?, ?)", row)
            for part in one["parts"]:
                database.execute(
                    "INSERT INTO part VALUES (?, ?, ?)", (part["id"], info["id"], json.dumps(part))
                )
    database.close()
    return path


def test_an_import_after_it_stores_nothing_again(
    plugin: LcmPlugin, opencode: OpencodeMethods, tmp_path: Path
) -> None:
    talk = Talk()
    talk.say("The gate code is HERON-4417.")
    context(opencode, talk)
    store(opencode, talk, talk.answer("Noted."))
    path = write_database(tmp_path / "opencode.db", talk)
    [source], _ = find_sources([str(path)])
    looked = look_over(source, "", plugin.engine)
    report = load(plugin.engine, source)
    assert (report.total("said"), report.total("messages")) == (2, 0)
    assert looked.total("messages") == 0
    assert [row.message_count for row in plugin.engine.library.conversations()] == [2]


@pytest.mark.parametrize("gone_on", [False, True])
def test_what_was_undone_is_not_imported_again(
    plugin: LcmPlugin, opencode: OpencodeMethods, tmp_path: Path, gone_on: bool
) -> None:
    talk = Talk()
    for asked, answered in (("Paint it red.", "Red it is."), ("No, blue.", "Blue it is.")):
        talk.say(asked)
        context(opencode, talk)
        store(opencode, talk, talk.answer(answered))
    undone = str(talk.listed[2]["info"]["id"])
    if gone_on:
        # The next prompt deletes what was undone.
        del talk.listed[2:]
        talk.at += 1
        talk.say("Green, please.")["info"]["id"] = "msg_9"
        context(opencode, talk)
    before = stored(plugin)
    path = write_database(tmp_path / "opencode.db", talk, "" if gone_on else undone)
    [source], _ = find_sources([str(path)])
    for _ in range(2):
        assert look_over(source, "", plugin.engine).total("messages") == 0
        assert load(plugin.engine, source).total("messages") == 0
    assert stored(plugin) == before
    assert len(list(plugin.engine.library.conversations())) == 1
    shown = str(plugin.engine.assemble(KEY, 60_000).messages)
    assert "Paint it red." in shown
    assert "No, blue." not in shown
