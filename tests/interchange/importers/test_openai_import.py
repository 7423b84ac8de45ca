"""OpenAI-style messages in their outer shapes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from imported_store import Imported, asides, words

from lcm_plugin import Session
from lcm_plugin.errors import InputError

FixtureFile = Callable[[str], Path]


def test_lines_with_a_message_each_are_one_conversation(
    imported: Imported, fixture_file: FixtureFile
) -> None:
    imported.bring(fixture_file("openai.jsonl"))
    given = [json.loads(line) for line in fixture_file("openai.jsonl").read_text().splitlines()]
    stored = imported.engine.messages(Session("agent:openai:openai"))
    assert stored[1:-1] == given[:-1]
    rows = imported.active("agent:openai:openai")
    assert rows[1].head.created_at == rows[2].head.created_at == 1_770_055_200_000
    assert asides(rows)[-1][1]["record"]["stars"] == 5


def test_lines_with_messages_are_conversations(imported: Imported, fixture_file: FixtureFile) -> None:
    imported.bring(fixture_file("openai-conversations.jsonl"))
    assert words(imported.active("agent:openai:t-1")) == ["hi", "hello"]
    assert words(imported.active("agent:openai:openai-conversations:2")) == ["hi", "hello again"]


@pytest.mark.parametrize("indent", [None, 1], ids=["one line", "spread"])
def test_a_whole_document_is_read(imported: Imported, tmp_path: Path, indent: int | None) -> None:
    talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    (tmp_path / "list.json").write_text(json.dumps(talk, indent=indent))
    (tmp_path / "object.json").write_text(json.dumps({"id": "o", "messages": talk}, indent=indent))
    imported.bring(tmp_path / "list.json")
    imported.bring(tmp_path / "object.json")
    assert words(imported.active("agent:openai:list")) == ["hi", "hello"]
    assert words(imported.active("agent:openai:o")) == ["hi", "hello"]


def test_one_key_for_one_session_and_a_pattern_for_many(
    imported: Imported, fixture_file: FixtureFile
) -> None:
    imported.bring(fixture_file("openai.jsonl"), "agent:main:main")
    assert imported.engine.messages(Session("agent:main:main"))
    from lcm_plugin.interchange.importers.importing import find_sources, look_over

    (source,), _ = find_sources([str(fixture_file("openai-conversations.jsonl"))])
    with pytest.raises(InputError, match=r"put \{id\} into it"):
        look_over(source, "agent:main:main")
    imported.bring_source(source, "chat:{id}")
    assert words(imported.active("chat:t-1")) == ["hi", "hello"]


def test_a_session_that_lives_here_is_left_alone(imported: Imported, fixture_file: FixtureFile) -> None:
    session = Session("agent:main:main")
    imported.engine.ingest(session, [{"role": "user", "content": "live"}])
    report = imported.bring(fixture_file("openai.jsonl"), "agent:main:main")
    assert [message["content"] for message in imported.engine.messages(session)] == ["live"]
    assert "has an active conversation of its own" in report.conversations[0].notes[0]
    assert "Book a table" in imported.archived("agent:main:main")[0]
    again = imported.bring(fixture_file("openai.jsonl"), "agent:main:main")
    assert again.total("new") == 0
    (hit,) = imported.engine.call_tool(session, "lcm_grep", {"pattern": "table"})["hits"]
    assert hit["conversation_id"] == report.conversations[0].conversation_id


def test_a_host_goes_on_where_the_import_ended(imported: Imported, fixture_file: FixtureFile) -> None:
    session = Session("agent:main:main", "run-1")
    imported.bring(fixture_file("openai.jsonl"), session.key)
    talk = [json.loads(line) for line in fixture_file("openai.jsonl").read_text().splitlines()[:-1]]
    report = imported.engine.ingest(
        session, [*talk, {"role": "user", "content": "And a window seat?"}], "sync"
    )
    assert report.stored == 1
    context = imported.engine.assemble(session, 8_000)
    assert [message["role"] for message in context.messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
