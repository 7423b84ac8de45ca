"""An import of an agent's own logs after its plugin stored them: nothing is stored twice, whatever was undone or forked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from agent_logs import SESSION, Log, Rollout, stamp

from lcm_plugin import Engine, LcmConfig
from lcm_plugin.hosts.agents.capture import Capture
from lcm_plugin.interchange.importers.importing import find_sources, load, survey_all
from lcm_plugin.messages.blocks import text_of
from lcm_plugin.messages.parts import rebuild
from lcm_plugin.store.protocol import iterate_messages

Steps = Iterator[Path]
"""The log that grew, after each turn."""


def claude_code(folder: Path) -> Steps:
    """A turn that is rewound, and a fork that copies the log under equal ids."""
    log = Log(folder)
    log.turn("call the pump Anna", "Anna it is")
    base, begins = log.path.read_text(), log.newest
    yield log.path
    log.turn("call the valve Berta", "Berta it is")
    yield log.path
    log.newest = begins
    log.turn("call the valve Clara", "Clara it is")
    yield log.path
    fork = Log(folder, "0b0f5f0e-6c3e-4c57-9f3b-1d2c3b4a5f61")
    fork.write(base.replace(SESSION, "0b0f5f0e-6c3e-4c57-9f3b-1d2c3b4a5f61").encode())
    fork.newest, fork.ids = begins, [f"f{number}" for number in range(100)]
    fork.turn("call it Doris", "Doris it is")
    yield fork.path


def codex(folder: Path) -> Steps:
    """A turn that is rolled back, and a fork that names what it goes on from."""
    log = Rollout(folder)
    log.write(b"".join(log.turn_lines("call the pump Anna", "Anna it is")))
    yield log.path
    log.write(b"".join(log.turn_lines("call the valve Berta", "Berta it is")))
    yield log.path
    log.write(b"".join([*log.rolled_back_lines(1), *log.turn_lines("call the valve Clara", "Clara it is")]))
    yield log.path
    base = {"thread_id": SESSION, "end_ordinal_exclusive": 3}
    fork = Rollout(folder, "fork", forked_from_id=SESSION, history_base=base, history_mode="paginated")
    fork.write(b"".join(fork.turn_lines("call it Doris", "Doris it is")))
    yield fork.path


def gemini_cli(folder: Path) -> Steps:
    """A step back in a chat."""
    path = folder / "chats" / "session-2026-11-30T07-22-16cbabdf.jsonl"
    path.parent.mkdir()
    lines: list[dict[str, object]] = [{"sessionId": "16cbabdf-0230", "projectHash": "0", "kind": "main"}]

    def turn(number: int, asked: str, answered: str) -> Path:
        said: dict[str, object] = {
            "id": f"u{number}",
            "timestamp": stamp(number),
            "type": "user",
            "content": asked,
        }
        told: dict[str, object] = {
            "id": f"a{number}",
            "timestamp": stamp(number),
            "type": "gemini",
            "content": answered,
        }
        lines.extend((said, told))
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        return path

    yield turn(1, "call the pump Anna", "Anna it is")
    yield turn(2, "call the valve Berta", "Berta it is")
    lines.append({"$rewindTo": "u2"})
    yield turn(3, "call the valve Clara", "Clara it is")


@pytest.mark.parametrize(
    ("name", "steps"), [("claude-code", claude_code), ("codex", codex), ("gemini-cli", gemini_cli)]
)
def test_what_was_stored_live_is_not_imported_again(
    tmp_path: Path, name: str, steps: Callable[[Path], Steps]
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    with Engine.open(LcmConfig(database=str(tmp_path / "lcm.db"))) as engine:
        capture = Capture(engine, name)
        for log in steps(logs):
            capture.store([log])
        before = said(engine)
        for _ in range(2):
            sources, _ = find_sources([str(logs)])
            for source, surveyed in survey_all(sources, "", engine):
                assert surveyed.total("messages") == 0
                assert load(engine, source).total("messages") == 0
        assert said(engine) == before
    assert [text for text, count in Counter(text for _, text in before).items() if count > 1] == []
    assert {"Anna it is", "Berta it is", "Clara it is"} <= {text for _, text in before}


def said(engine: Engine) -> list[tuple[str, str]]:
    """The talk of all sessions, also what was taken back."""
    with engine.store.read() as reader:
        return [
            (conversation.session_key, text_of(rebuild(one)))
            for conversation in engine.library.conversations()
            for one in iterate_messages(reader, conversation.conversation_id)
            if one.head.withdrawn_at is not None or not one.head.hidden
        ]
