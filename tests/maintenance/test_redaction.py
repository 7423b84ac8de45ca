"""Redaction of every shape of message: nothing of the secret is left, everything else is as it was."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from databases import FreshDatabase
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from messages import assistant, call, result, user

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.errors import InputError, NotFound
from lcm_plugin.maintenance.redaction.targets import MatchingTexts, NamedThings

pytestmark = pytest.mark.both_stores

LANE = Session("agent:main:main", "run-1")
SECRET = "sk-Zq81xW77aaPQ"
PATTERN = r"sk-[A-Za-z0-9]{8,}"

words = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
pieces = st.one_of(words, st.just(SECRET), st.builds(lambda a, b: f"{a} {SECRET} {b}", words, words))
keys = st.sampled_from(["note", "data_1", "x y", "deep.key", "väl"])
values = st.recursive(
    st.one_of(pieces, st.integers(0, 9), st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=6,
)
blocks = st.lists(
    st.one_of(
        st.builds(lambda text: {"type": "text", "text": text}, pieces),
        st.builds(lambda text: {"type": "thinking", "thinking": text, "signature": "c2lnbmVk"}, pieces),
        st.builds(lambda value: {"type": "custom", "body": value}, values),
    ),
    min_size=1,
    max_size=3,
)
messages = st.one_of(
    st.builds(lambda content, extra: user(content, meta=extra), st.one_of(pieces, blocks), values),
    st.builds(
        lambda content, thought: assistant(content, reasoning_content=thought),
        st.one_of(pieces, blocks),
        pieces,
    ),
    st.builds(
        lambda arguments, text: call("c1", arguments=json.dumps(arguments), text=text),
        st.dictionaries(keys, values, max_size=3),
        pieces,
    ),
    st.builds(lambda text: result("c1", text), pieces),
)


def texts(engine: Engine) -> str:
    """Everything that is stored of messages, as rows and as they come back."""
    with engine.store.read() as reader:
        rows = reader.messages(1, limit=1_000)
    return json.dumps([str(row) for row in rows]) + json.dumps(engine.messages(LANE))


@pytest.mark.long
@settings(
    max_examples=examples(25),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(messages, min_size=1, max_size=5))
def test_no_shape_of_message_keeps_any_of_it_and_a_replay_is_recognised(
    fresh_database: FreshDatabase, said: list[dict[str, Any]]
) -> None:
    with fresh_database() as database, Engine.open(LcmConfig(database=database)) as engine:
        engine.ingest(LANE, said, mode="append")
        before = engine.messages(LANE)
        target = MatchingTexts.of_pattern(PATTERN)
        seen = engine.redaction(engine.store).look(target)
        assert engine.messages(LANE) == before
        done = engine.redaction(engine.store).apply(target, "a person")
        assert (done.messages, done.places) == (seen.messages, seen.places)
        assert SECRET not in texts(engine)
        after = engine.messages(LANE)
        assert len(after) == len(before)
        for old, new in zip(before, after, strict=True):
            if SECRET not in json.dumps(old, ensure_ascii=False):
                assert new == old
            assert new["role"] == old["role"]
        assert [f.message for f in engine.check().findings if f.severity == "error"] == []
        assert engine.ingest(LANE, before, mode="sync").stored == 0
        assert SECRET not in texts(engine)


def test_signed_reasoning_that_changes_goes_as_a_whole(engine: Engine) -> None:
    kept = {"type": "thinking", "thinking": "herons", "signature": "a"}
    blocks = [kept, {"type": "thinking", "thinking": f"the key {SECRET}", "signature": "b"}]
    engine.ingest(LANE, [user("hello"), assistant([*blocks, {"type": "text", "text": "done"}])])
    engine.redaction(engine.store).apply(MatchingTexts.of_text(SECRET), "a person")
    assert engine.messages(LANE)[1]["content"] == [kept, {"type": "text", "text": "done"}]


def test_an_attached_text_file_is_redacted_inside_its_encoding(
    open_engine: Callable[..., Engine], tmp_path: Path
) -> None:
    engine = open_engine(large_files_dir=str(tmp_path / "lcm-files"))
    inner = "\n".join(f"setting {n} = {n}" for n in range(200)) + f"\nkey = {SECRET}\n"
    url = f"data:text/plain;base64,{base64.b64encode(inner.encode()).decode()}"
    engine.ingest(LANE, [user([{"type": "file", "file": {"filename": "a.txt", "file_data": url}}])])
    done = engine.redaction(engine.store).apply(MatchingTexts.of_text(SECRET), "a person")
    assert (done.messages, done.files) == (1, 1)
    stored = engine.messages(LANE)[0]["content"][0]["file"]["file_data"]
    text = base64.b64decode(stored.partition("base64,")[2]).decode()
    assert text == inner.replace(SECRET, "[REDACTED]")
    for path in (tmp_path / "lcm-files").rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes()


PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4


def picture(extra: bytes = b"") -> dict[str, Any]:
    url = f"data:image/png;base64,{base64.b64encode(PNG + extra).decode()}"
    return user([{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": url}}])


def test_a_binary_payload_that_holds_it_is_named_and_goes_by_its_id(engine: Engine) -> None:
    engine.ingest(LANE, [picture(SECRET.encode()), assistant("seen")])
    found = engine.redaction(engine.store).look(MatchingTexts.of_text(SECRET))
    assert not found.anything
    (file_id,) = found.untouched
    done = engine.redaction(engine.store).apply(NamedThings([file_id]), "a person")
    assert (done.messages, done.files) == (1, 1)
    assert engine.messages(LANE)[0]["content"] == [
        {"type": "text", "text": "look"},
        {"type": "text", "text": "[REDACTED]"},
    ]
    assert engine.payloads.folder_bytes() == 0
    assert engine.call_tool(LANE, "lcm_describe", {"id": file_id})["error_code"] == "NOT_FOUND"
    assert [f.message for f in engine.check().findings if f.severity == "error"] == []


def test_a_pictures_bytes_survive_a_redaction_of_the_words_beside_it(engine: Engine) -> None:
    said = picture()
    said["content"][0]["text"] = f"look at {SECRET}"
    engine.ingest(LANE, [said])
    engine.redaction(engine.store).apply(MatchingTexts.of_text(SECRET), "a person")
    content = engine.messages(LANE)[0]["content"]
    assert content[0]["text"] == "look at [REDACTED]"
    assert content[1] == picture()["content"][1]


def test_a_name_that_is_told_of_a_payload_is_redacted(engine: Engine) -> None:
    said = picture()
    said["content"].append({"type": "file", "file": {"filename": f"{SECRET}.bin", "file_data": "x"}})
    engine.ingest(LANE, [said])
    with engine.store.write() as writer:
        record = writer.files(1)[0]
        writer.describe_file(record.file_id, f"a picture of {SECRET}")
    done = engine.redaction(engine.store).apply(MatchingTexts.of_text(SECRET), "a person")
    assert done.notes == 1
    with engine.store.read() as reader:
        assert reader.files(1)[0].exploration == "a picture of [REDACTED]"


def test_a_named_group_narrows_what_goes(engine: Engine) -> None:
    engine.ingest(LANE, [user("the password is hunter2, the user anna")])
    engine.redaction(engine.store).apply(MatchingTexts.of_pattern(r"password is (?P<secret>\w+)"), "a person")
    assert engine.messages(LANE)[0]["content"] == "the password is [REDACTED], the user anna"


def test_a_literal_secret_is_not_spared_where_code_refers_to_it(engine: Engine) -> None:
    engine.ingest(LANE, [user('run with ${hunter2} and {"hunter2": 1}', meta={"hunter2": "x"})])
    engine.redaction(engine.store).apply(MatchingTexts.of_text("hunter2"), "a person")
    assert "hunter2" not in texts(engine)


@pytest.mark.parametrize("bad", ["(", "a{9999}", "", "x*"])
def test_a_pattern_that_cannot_be_used_is_refused_without_repeating_it(bad: str) -> None:
    with pytest.raises(InputError) as caught:
        MatchingTexts.of_pattern(bad)
    assert not bad or bad not in str(caught.value)


def test_an_unknown_id_is_refused_before_anything_changes(engine: Engine) -> None:
    engine.ingest(LANE, [user("hello"), assistant("yes")])
    with pytest.raises(NotFound, match="msg_99"):
        engine.redaction(engine.store).look(NamedThings(["msg_1", "msg_99"]))
    assert engine.messages(LANE)[0]["content"] == "hello"


def test_what_is_ignored_by_the_settings_is_redacted_all_the_same(
    open_engine: Callable[..., Engine],
) -> None:
    first = open_engine()
    first.ingest(LANE, [user(f"it is {SECRET}"), assistant("yes")])
    later = open_engine(ignore_session_patterns=["agent:main:*"])
    later.redaction(later.store).apply(MatchingTexts.of_text(SECRET), "a person")
    assert SECRET not in texts(first)
