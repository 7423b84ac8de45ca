"""The program ``lcm chat`` itself, in processes of its own, over a hundred turns and a kill."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fakes.answers import is_summary_request
from fakes.model_server import ModelRequest, ModelServer
from fakes.speech import fact, turn

from lcm_plugin import Engine, LcmConfig
from lcm_plugin.types import Message

pytestmark = pytest.mark.long
WINDOW = 16_000
TRIGGER = 5_600
LONGEST_TURN = 5_000
SETTINGS = {
    "LCM_CONTEXT_THRESHOLD": str(TRIGGER / WINDOW),
    "LCM_FRESH_TAIL_COUNT": "8",
    "LCM_LEAF_CHUNK_TOKENS": "1500",
    # Here the agent searches itself.
    "LCM_ACTIVE_RECALL": "off",
}
SECONDS = 120

Start = Callable[[], "subprocess.Popen[str]"]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(window=WINDOW) as running:
        yield running


@pytest.fixture
def start(server: ModelServer, tmp_path: Path) -> Iterator[Start]:
    """Starts the program on one database; what it prints goes to ``shown`` in the test's folder."""
    started: list[subprocess.Popen[str]] = []
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("LCM_")},
        **SETTINGS,
        "OPENAI_API_KEY": "sk-fake",
        "HOME": str(tmp_path),
        "COLUMNS": "200",
    }

    def start_one() -> subprocess.Popen[str]:
        program = [sys.executable, "-c", "from lcm_plugin.cli import main; main()", "chat"]
        options = ["--model", "openai/fake-model", "--base-url", server.url, "--window", str(WINDOW)]
        with (tmp_path / "shown").open("a") as output:
            process = subprocess.Popen(
                [*program, *options, "--database", str(tmp_path / "chat.db"), "--allow-tools"],
                env=environment,
                cwd=tmp_path,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
            )
        started.append(process)
        return process

    yield start_one
    for process in started:
        process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


def stored(tmp_path: Path) -> list[Message]:
    with Engine.open(LcmConfig(database=str(tmp_path / "chat.db"))) as engine:
        assert engine.check().ok
        library = engine.library
        (conversation,) = library.conversations()
        return [library.whole(row) for row in library.messages(conversation.conversation_id)]


def texts(rows: list[Message], role: str) -> list[str]:
    return [str(row["content"]) for row in rows if row["role"] == role]


def script() -> list[str]:
    """A hundred turns: talk with facts, tool calls, and at turn 90 a question about turn 3."""
    said = []
    for number in range(1, 101):
        if number == 90:
            said.append("RECALL VAULT-003")
        elif number % 10 == 0:
            said.append(f'CALL shell {{"command": "echo tool-{number}"}}')
        elif number % 7 == 0:
            said.append(f'CALL lcm_grep {{"pattern": "Note {number - 3:03d}", "limit": 3}}')
        else:
            said.append(f"{turn(number, 120)} {fact(number)}")
    return said


def test_a_fact_from_turn_3_is_found_at_turn_90_by_the_agents_own_search(
    server: ModelServer, start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = script()
    process = start()
    process.communicate("\n".join([*said, "/quit", ""]), timeout=SECONDS)
    shown = (tmp_path / "shown").read_text().replace("> ", "")
    assert process.returncode == 0, shown[-3000:]
    with capsys.disabled():
        print(f"\nlcm chat: {shown.strip().splitlines()[-1]}")
    assert re.search(r"100 turns; the memory added \d+ ms to each", shown)
    assert fact(3) in shown

    asked = [request for request in server.requests if not is_summary_request(request)]
    about = [request for request in asked if request.prompt == "RECALL VAULT-003"]
    assert not any(fact(3) in str(message.get("content")) for message in about[0].messages)
    assert about[-1].messages[-1]["role"] == "tool"
    assert server.invalid == []
    assert max(request.tokens for request in asked) <= TRIGGER + LONGEST_TURN
    assert len(server.requests) - len(asked) >= 10

    rows = stored(tmp_path)
    assert texts(rows, "user") == said
    assert texts(rows, "assistant")[-11 * 2 :].count(fact(3)) == 1
    calls = [call["id"] for row in rows for call in row.get("tool_calls") or ()]
    assert calls == [row["tool_call_id"] for row in rows if row["role"] == "tool"]
    assert len(rows) == 2 * len(said) + 2 * len(calls)


def test_a_killed_chat_goes_on_with_every_word_that_was_said(
    server: ModelServer, start: Start, tmp_path: Path
) -> None:
    """Killed while the model is asked for the answer to turn 15."""
    said = [f"{turn(number, 120)} {fact(number)}" for number in range(1, 31)]
    running: list[subprocess.Popen[str]] = []

    def kill(request: ModelRequest) -> None:
        number = re.search(r"Note (\d+) follows", request.prompt)
        if request.tools and number and int(number[1]) == 15 and running[-1].poll() is None:
            running[-1].send_signal(signal.SIGKILL)
            running[-1].wait(SECONDS)

    server.add_rule(kill)
    for first, last in ((0, 15), (15, 30)):
        running.append(start())
        try:
            running[-1].communicate("\n".join([*said[first:last], "/quit", ""]), timeout=SECONDS)
        except BrokenPipeError:
            running[-1].wait(SECONDS)
    assert [process.returncode for process in running] == [-signal.SIGKILL, 0]
    rows = stored(tmp_path)
    assert texts(rows, "user") == said
    assert len(texts(rows, "assistant")) == len(said) - 1
    assert server.invalid == []
