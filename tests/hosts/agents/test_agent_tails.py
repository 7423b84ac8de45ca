"""Reading on from where a log was read to stores what reading it whole at the same moments stores."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from agent_logs import CODEX_KEY, KEY, SESSION, Log, Rollout
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lcm_plugin import Engine, LcmConfig
from lcm_plugin.hosts.agents.capture import Capture
from lcm_plugin.interchange.importers.formats import FORMATS
from lcm_plugin.interchange.importers.importing import SourceFile, load
from lcm_plugin.interchange.importers.json_files import LineFile, View, viewing
from lcm_plugin.interchange.importers.tails import Position, tail_of
from lcm_plugin.store.protocol import iterate_items, iterate_messages

STEP = st.sampled_from(["turn", "turn", "turn", "calls", "rewind", "compaction"])


def stored(engine: Engine) -> list[Any]:
    """All that is stored, but for numbers that depend on when."""
    found = []
    for conversation in engine.library.conversations():
        number = conversation.conversation_id
        with engine.store.read() as reader:
            rows = [
                (
                    one.head.host_id,
                    one.head.role,
                    one.head.hidden,
                    one.head.created_at,
                    [part.text for part in one.parts],
                )
                for one in iterate_messages(reader, number)
            ]
            items = [(item.ordinal, item.kind) for item in iterate_items(reader, number)]
        found.append((conversation.session_key, conversation.active, rows, items))
    return found


def lines_of(log: Any, step: str, number: int, back: int) -> list[bytes]:
    if step == "turn":
        return log.turn_lines(f"request {number} about pumps", f"answer {number} about valves")
    if step == "calls":
        return [*log.turn_lines(f"look {number}", "I look."), *log.calls_lines(number, 2 + back % 2)]
    if step == "compaction":
        return log.compaction_lines(number)
    if isinstance(log, Rollout):
        return log.rolled_back_lines(1 + back % 2)
    if log.ids:
        log.newest = log.ids[-1 - back % len(log.ids)]
    return log.turn_lines(f"instead {number}", f"other answer {number}")


@pytest.mark.long
@pytest.mark.parametrize("name", ["claude-code", "codex"])
@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(st.tuples(STEP, st.integers(0, 12)), min_size=1, max_size=9),
    cuts=st.lists(st.integers(0, 400), max_size=12),
)
@example(steps=[("turn", 0)] * 4 + [("rewind", 0), ("turn", 0)], cuts=[325])
def test_piece_by_piece_is_as_good_as_whole(
    tmp_path_factory: pytest.TempPathFactory, name: str, steps: list[tuple[str, int]], cuts: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("tails")
    log: Any = Log(folder) if name == "claude-code" else Rollout(folder)
    data = b"".join(
        line for number, step in enumerate(steps) for line in lines_of(log, step[0], number, step[1])
    )
    ends = sorted({0, len(data), *(len(data) * cut // 400 for cut in cuts)})
    with (
        Engine.open(LcmConfig(database=str(folder / "whole.db"))) as whole,
        Engine.open(LcmConfig(database=str(folder / "pieces.db"))) as pieces,
    ):
        for begin, end in pairwise(ends):
            log.write(data[begin:end])
            load(whole, SourceFile(log.path, FORMATS[name]))
            Capture(pieces, name).store([log.path])
        assert stored(pieces) == stored(whole)


def test_a_turn_that_goes_on_is_read_alone_and_a_rewind_is_not(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.turn("first", "one")
    begin = tail_of(log.path, "claude-code", Position()).end
    log.turn("second", "two")
    tail = tail_of(log.path, "claude-code", begin)
    assert tail.plain
    with tail.reading(log.path), LineFile(log.path) as lines:
        assert [line.number for line in lines] == [3, 4]
    log.newest = log.ids[1]
    log.turn("instead of second", "another two")
    assert not tail_of(log.path, "claude-code", tail.end).plain
    assert not tail_of(log.path, "claude-code", Position()).plain


def test_a_view_keeps_numbers_and_offsets_of_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b"".join(b'{"n":%d}\n' % number for number in range(10)))
    with LineFile(path) as lines:
        every = list(lines)
    with viewing(path, View(2, every[6].offset, 6, every[8].offset)), LineFile(path) as lines:
        assert list(lines) == [*every[:2], *every[6:8]]
        assert list(lines) == [*every[:2], *every[6:8]]
    with viewing(tmp_path / "other", View(0, 5, 1, 6)), LineFile(path) as lines:
        assert list(lines) == every


def test_where_a_log_was_read_to_is_kept_for_the_next_process(tmp_path: Path) -> None:
    log = Log(tmp_path)
    with Engine.open(LcmConfig(database=str(tmp_path / "lcm.db"))) as engine:
        log.turn("first", "one")
        Capture(engine, "claude-code").store([log.path])
        log.turn("second", "two")
        Capture(engine, "claude-code").store([log.path])
        log.path.write_bytes(b"")
        log.newest = None
        log.turn("a new file", "in the old one's place")
        Capture(engine, "claude-code").store([log.path])
        [main, *_] = [rows for key, active, rows, _ in stored(engine) if key == KEY and active]
    texts = [text for *_, texts in main for text in texts]
    assert [text for text in texts if text in ("first", "one", "second", "two", "a new file")] == [
        "first",
        "one",
        "second",
        "two",
        "a new file",
    ]


def test_what_a_fork_goes_on_from_is_stored_in_its_own_session_whichever_log_is_read_first(
    tmp_path: Path,
) -> None:
    base = Rollout(tmp_path)
    for line in base.turn_lines("first", "one"):
        base.write(line)
    place = {"thread_id": SESSION, "end_ordinal_exclusive": 3}
    fork = Rollout(tmp_path, "fork", forked_from_id=SESSION, history_base=place, history_mode="paginated")
    for line in fork.turn_lines("second", "two"):
        fork.write(line)
    with Engine.open(LcmConfig(database=str(tmp_path / "lcm.db"))) as engine:
        capture = Capture(engine, "codex")
        capture.store([fork.path])
        capture.store([base.path])
        said = {
            key: [text for *_, hidden, _, texts in rows for text in texts if not hidden]
            for key, _, rows, _ in stored(engine)
        }
    assert said == {CODEX_KEY: ["first", "one"], "agent:codex:fork": ["second", "two"]}


def test_the_chats_of_sub_agents_of_gemini_cli_are_stored_with_their_sessions(tmp_path: Path) -> None:
    """Each lies in a folder that is called as its session is, whose first letters end the session's own file."""
    chats = {
        "session-2026-11-30T07-22-16cbabdf.jsonl": ("16cbabdf-0230", "main", "Send somebody."),
        "16cbabdf-0230/f8955859.jsonl": ("f8955859", "subagent", "Look round."),
        "77777777-0230/a1111111.jsonl": ("a1111111", "subagent", "Another session's."),
    }
    for name, (session, kind, text) in chats.items():
        path = tmp_path / "chats" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [
            {"sessionId": session, "projectHash": "0", "kind": kind},
            {"id": f"{session}-1", "timestamp": "2026-11-30T07:22:48Z", "type": "user", "content": text},
        ]
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with Engine.open(LcmConfig(database=str(tmp_path / "lcm.db"))) as engine:
        capture = Capture(engine, "gemini-cli")
        assert capture.store([tmp_path / "chats" / "session-2026-11-30T07-22-16cbabdf.jsonl"]) == 2
        kept = {row.session_key for row in engine.library.conversations()}
    assert kept == {"agent:gemini-cli:16cbabdf-0230", "agent:gemini-cli:f8955859"}
