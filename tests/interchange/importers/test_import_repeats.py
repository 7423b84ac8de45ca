"""Importing again stores nothing new, a grown source adds what is new, a killed run goes on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from effort import examples
from fakes.processes import Running, piped
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from imported_store import Imported, words

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.interchange.importers.importing import find_sources, load, look_over

FIXTURES = ["claude-code.jsonl", "openclaw.jsonl", "codex.jsonl", "conversations.json", "openai.jsonl"]
FixtureFile = Callable[[str], Path]


@pytest.mark.parametrize("name", FIXTURES)
def test_a_second_run_stores_nothing(imported: Imported, fixture_file: FixtureFile, name: str) -> None:
    first = imported.bring(fixture_file(name))
    with imported.engine.store.read() as reader:
        before = [(row.conversation_id, row.next_seq, row.revision) for row in reader.conversations()]
    second = imported.bring(fixture_file(name))
    assert second.total("new") == 0
    assert second.total("known") == first.total("new")
    with imported.engine.store.read() as reader:
        assert [(row.conversation_id, row.next_seq, row.revision) for row in reader.conversations()] == before


@pytest.mark.parametrize("name", FIXTURES[:3] + FIXTURES[4:])
def test_a_file_that_grew_line_by_line_ends_as_the_whole_one(
    open_engine: Callable[..., Engine], fixture_file: FixtureFile, tmp_path: Path, name: str
) -> None:
    at_once, in_steps = Imported(open_engine("once")), Imported(open_engine("steps"))
    path = tmp_path / name
    lines = fixture_file(name).read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines))
    at_once.bring(path)
    for count in range(1, len(lines) + 1):
        path.write_bytes(b"".join(lines[:count]))
        in_steps.bring(path)
    keys = {row.session_key for row in at_once.engine.library.conversations()}
    assert keys == {row.session_key for row in in_steps.engine.library.conversations()}
    for key in keys:
        whole, grown = (
            {
                row.head.host_id: row.head.hidden
                for lane in one.lane(key)
                for row in one.rows(lane.conversation_id)
            }
            for one in (at_once, in_steps)
        )
        # An event that came before the item which repeats it was no repetition yet.
        heads = {one for one in grown if "import:" in str(one)}
        more = grown.keys() - whole.keys() - heads
        assert all(grown[one] for one in more)
        assert {one for one in whole if "import:" not in str(one)} <= grown.keys()
        assert [text for text in in_steps.context(key) if not text.startswith("sum_")] == [
            text for text in at_once.context(key) if not text.startswith("sum_")
        ]


def test_the_survey_tells_what_the_import_then_does(imported: Imported, fixture_file: FixtureFile) -> None:
    for name in FIXTURES:
        (source,), _ = find_sources([str(fixture_file(name))])
        told = look_over(source, "", imported.engine)
        done = imported.bring(fixture_file(name))
        again = look_over(source, "", imported.engine)
        assert (told.total("new"), told.broken_count) == (done.total("new"), done.broken_count)
        assert (again.total("new"), again.total("known")) == (0, done.total("new"))


messages = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", "system"]),
        "content": st.one_of(
            st.text(max_size=20),
            st.none(),
            st.lists(
                st.fixed_dictionaries({"type": st.just("text"), "text": st.text(max_size=8)}), max_size=2
            ),
        ),
    },
    optional={"id": st.text(max_size=3), "timestamp": st.integers(1, 2_000_000_000), "odd": st.integers()},
)


@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(talk=st.lists(messages, max_size=12), cuts=st.lists(st.integers(0, 12), max_size=3))
def test_however_a_file_is_cut_and_repeated_each_message_is_stored_once(
    tmp_path: Path, talk: list[dict[str, Any]], cuts: list[int]
) -> None:
    folder = tmp_path / str(time.perf_counter_ns())
    folder.mkdir()
    path = folder / "talk.jsonl"
    lines = [json.dumps(message) for message in talk]
    with Engine.open(LcmConfig(database=str(folder / "lcm.db"))) as engine:
        imported = Imported(engine)
        for count in [*sorted(cuts), len(lines), len(lines)]:
            path.write_text("".join(f"{line}\n" for line in lines[:count]))
            if count and lines[:count]:
                (source,), _ = find_sources([str(path)], "openai")
                imported.bring_source(source)
        stored = engine.messages(Session("agent:openai:talk"))[1:]
        assert stored == talk


CHILD = """
import sys
from lcm_plugin import Engine, LcmConfig
from lcm_plugin.interchange.importers.importing import find_sources, load
(source,), _ = find_sources([sys.argv[1]])
with Engine.open(LcmConfig(database=sys.argv[2])) as engine:
    load(engine, source, progress=lambda done: print(done, flush=True))
"""


@pytest.mark.long
def test_a_killed_run_goes_on_and_loses_nothing(open_engine: Callable[..., Engine], tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    talk = [{"role": "user", "content": f"message {number}"} for number in range(2_500)]
    path.write_text("".join(json.dumps(message) + "\n" for message in talk))
    with piped("-c", CHILD, path, tmp_path / "killed.db") as (_, printed):
        next(line for line in printed if int(line) > 600)
    imported = Imported(open_engine("killed"))
    half = len(words(imported.active("agent:openai:long")))
    assert 0 < half < 2_500
    report = imported.bring(path)
    assert report.total("known") == half
    assert words(imported.active("agent:openai:long")) == [message["content"] for message in talk]


def test_two_imports_at_once_store_each_message_once(
    open_engine: Callable[..., Engine], tmp_path: Path
) -> None:
    path = tmp_path / "long.jsonl"
    path.write_text("".join(json.dumps({"role": "user", "content": f"m{n}"}) + "\n" for n in range(600)))
    children = [Running("-c", CHILD, path, tmp_path / "both.db") for _ in range(2)]
    assert [child.wait() for child in children] == [0, 0]
    imported = Imported(open_engine("both"))
    assert sorted(words(imported.active("agent:openai:long"))) == sorted(f"m{n}" for n in range(600))
    assert imported.engine.check().ok


def test_what_an_import_leaves_over_the_threshold_is_owed(
    open_engine: Callable[..., Engine], tmp_path: Path
) -> None:
    path = tmp_path / "large.jsonl"
    text = "The tide tables of the harbour are printed every autumn. " * 40
    path.write_text(
        "".join(json.dumps({"role": "user", "content": f"{n} {text}"}) + "\n" for n in range(400))
    )
    calls: list[object] = []
    engine = open_engine("owed", lambda request: calls.append(request) or "never")
    (source,), _ = find_sources([str(path)])
    report = load(engine, source)
    with engine.store.read() as reader:
        debt = reader.debt(report.conversations[0].conversation_id or 0)
    assert debt is not None
    assert debt.state == "pending"
    assert not calls


@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parents=st.lists(st.integers(0, 30), min_size=1, max_size=12),
    cuts=st.lists(st.integers(1, 12), max_size=2),
)
def test_every_record_of_an_edited_chat_is_kept_and_only_its_live_branch_is_in_the_context(
    tmp_path: Path, parents: list[int], cuts: list[int]
) -> None:
    folder = tmp_path / str(time.perf_counter_ns())
    folder.mkdir()
    above = {f"r{n}": f"r{parent % n}" if n and parent < 25 else None for n, parent in enumerate(parents)}
    steps = sorted({min(cut, len(above)) for cut in cuts} | {len(above)})
    roots = [parent is None for parent in above.values()]
    # A file of which most records name no parent has no tree.
    assume(all(2 * sum(roots[1:count]) < count for count in steps))
    lines = [
        json.dumps(
            {
                "type": "user",
                "uuid": uuid,
                "parentUuid": parent,
                "sessionId": "edited",
                "timestamp": f"2026-03-01T10:00:{int(uuid[1:]):02d}Z",
                "message": {"role": "user", "content": f"say {uuid}"},
            }
        )
        for uuid, parent in above.items()
    ]
    path = folder / "edited.jsonl"
    key = "agent:claude-code:edited"
    with Engine.open(LcmConfig(database=str(folder / "lcm.db"))) as engine:
        imported = Imported(engine)
        for count in steps:
            path.write_text("\n".join(lines[:count]))
            imported.bring(path)
        assert imported.bring(path).total("new") == 0
        stored = [text for lane in imported.lane(key) for text in words(imported.rows(lane.conversation_id))]
        assert set(stored) == {f"say {uuid}" for uuid in above}
        at: str | None = f"r{len(lines) - 1}"
        live = []
        while at is not None:
            live.append(f"say {at}")
            at = above[at]
        if len(steps) == 1:
            assert sorted(stored) == sorted(f"say {uuid}" for uuid in above)
        assert imported.context(key) == live[::-1]
