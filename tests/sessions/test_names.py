"""Names of conversations: from the host, from a person, from imported files, or their first words."""

from __future__ import annotations

from pathlib import Path

import pytest
from clock import Clock
from fakes.shell import run_here

from lcm_plugin import Engine, LcmConfig, LcmPlugin, Session
from lcm_plugin.maintenance.redaction.targets import MatchingTexts
from lcm_plugin.sessions.names import first_words, named, rename
from lcm_plugin.store.records import Conversation
from lcm_plugin.types import Turn

pytestmark = pytest.mark.both_stores

HARBOUR = Session("agent:main:harbour")


def only(engine: Engine, session: Session = HARBOUR) -> Conversation:
    return engine.library.conversation(session.key)


def shown(engine: Engine, session: Session = HARBOUR) -> str:
    with engine.store.read() as reader:
        return named(reader, [only(engine, session)])[0].title


def talk(*texts: str) -> list[dict[str, str]]:
    roles = ("user", "assistant")
    return [{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)]


def test_a_conversation_without_a_title_is_known_by_its_first_request(engine: Engine) -> None:
    engine.ingest(HARBOUR, [{"role": "system", "content": "You are"}, *talk("map the\n harbour", "Mapped.")])
    assert shown(engine) == "map the harbour"
    assert len(first_words({"role": "user", "content": "word " * 100})) == 80


def test_a_host_names_its_sessions_and_leaves_the_name_that_a_person_gave(engine: Engine) -> None:
    plugin = LcmPlugin(engine=engine)

    def turn(title: str) -> None:
        about = {"title": title, "project": "/work/app", "source": "myhost 1.2", "other": object()}
        plugin.after_turn(Turn(HARBOUR, talk("hello", "Hello."), metadata=about))

    turn("first name")
    turn("second name")
    row = only(engine)
    assert (row.title, row.project, row.source) == ("second name", "/work/app", "myhost 1.2")
    with engine.store.write() as writer:
        rename(writer, row, "mine")
    turn("third name")
    assert only(engine).title == "mine"


def test_a_redaction_reaches_the_title(engine: Engine) -> None:
    engine.ingest(HARBOUR, talk("hello", "Hello."))
    with engine.store.write() as writer:
        rename(writer, only(engine), "key sk-Zq81xW77aaPQ of the harbour")
    engine.redaction(engine.store).apply(MatchingTexts.of_text("sk-Zq81xW77aaPQ"), "a person")
    assert "sk-Zq81" not in only(engine).title
    assert "of the harbour" in only(engine).title


@pytest.mark.parametrize("selector", ["harbour MAP", "agent:*:harbour", "*map", "/work/app/", "app", "*/app"])
def test_title_project_and_globs_select(engine: Engine, selector: str) -> None:
    engine.ingest(HARBOUR, talk("hello", "Hello."))
    engine.ingest(Session("agent:main:other"), talk("something else", "Yes."))
    with engine.store.write() as writer:
        writer.name_conversation(
            only(engine).conversation_id, {"title": "Harbour map", "project": "/work/app"}
        )
    assert engine.library.conversation(selector).session_key == HARBOUR.key


def test_a_title_by_a_person_stays(engine: Engine) -> None:
    engine.ingest(HARBOUR, talk("hello", "Hello."))
    with engine.store.write() as writer:
        rename(writer, only(engine), "  My\nharbour ")
    assert (only(engine).title, only(engine).by_person) == ("My harbour", True)
    with engine.store.write() as writer:
        rename(writer, only(engine), "")
    assert (only(engine).title, only(engine).by_person) == ("", False)
    assert shown(engine) == "hello"


@pytest.mark.parametrize("words", ["tidefolder", "/work/tidefolder", "*/tide*", "Harbour map"])
def test_a_search_finds_a_conversation_by_its_folder_and_title(tmp_path: Path, words: str) -> None:
    database = tmp_path / "lcm.db"
    with Engine.open(LcmConfig(database=str(database))) as engine:
        engine.ingest(HARBOUR, talk("hello", "Hello."))
        engine.ingest(Session("agent:main:other"), talk("something else", "Yes."))
        with engine.store.write() as writer:
            names = {"title": "Harbour map", "project": "/work/tidefolder"}
            writer.name_conversation(only(engine).conversation_id, names)
    found = run_here("grep", words, "-d", database)
    assert "it is the name of 1 conversation, agent:main:harbour: --in searches there" in found.stderr
    assert "**Hello**" in run_here("grep", "hello", "--in", words, "-d", database).stdout
    for other in ("other words", "1"):
        assert "the name of" not in run_here("grep", other, "-d", database).stderr


@pytest.mark.long
def test_the_list_shows_names_and_begins_with_the_last_used(tmp_path: Path) -> None:
    database = tmp_path / "lcm.db"
    with Engine.open(LcmConfig(database=str(database)), clock=Clock(step=1)) as engine:
        engine.ingest(HARBOUR, talk("map the harbour", "Mapped."))
        engine.ingest(Session("agent:main:other"), talk("something else", "Yes."))
        engine.ingest(HARBOUR, talk("mark the cranes", "Marked."))
    lines = run_here("conversations", "-d", database).stdout.splitlines()
    assert [line.split("\t")[-1] for line in lines[1:]] == ["map the harbour", "something else"]
    assert run_here("rename", HARBOUR.key, "Harbour", "-d", database).returncode == 0
    assert run_here("conversations", "-d", database).stdout.splitlines()[1].endswith("\tHarbour")
    found = run_here("grep", "cranes", "--in", "harbour", "-d", database)
    assert "mark the" in found.stdout
    both = run_here("grep", "else cranes", "--in", "agent:main:*", "-d", database).stdout
    assert "mark the" in both
    assert "something" in both
