"""The quick starts, word for word: each command of a page is run, and prints what the page says it prints.

A line of output with ``…`` in it leaves out what differs from machine to machine; a ``…`` alone, any number of lines.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from messages import assistant, user

from lcm_plugin import Engine, LcmConfig, Session

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "start"
BLOCK = re.compile(
    r"(?:^Save this as `(?P<file>[^`]+)`.*?\n+)?^```(?P<kind>\w+)\n(?P<text>.*?)^```",
    re.MULTILINE | re.DOTALL,
)
# The Python of a plain installation to follow the pages with, as `.ci/release` has one; else that of the tests.
PLAIN = os.environ.get("PLAIN_PYTHON_OF_LCM", "")
ENDS = "== end of a command =="


@dataclass
class Command:
    """One command of a page, and the lines that it is said to print."""

    words: str
    output: list[str] = field(default_factory=list)

    @property
    def installs(self) -> bool:
        """Whether it makes the environment, which the tests have already."""
        return "pip install" in self.words or "venv" in self.words


def commands(page: Path) -> Iterator[Command]:
    """The commands of a page's console blocks, in order; a file that it says to save is written by one, too."""
    for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
        if match["file"]:
            yield Command(f"cat > {shlex.quote(match['file'])} <<'END'\n{match['text']}END")
        if match["kind"] == "console":
            yield from console(match["text"])


def console(text: str) -> Iterator[Command]:
    """The commands of one block: lines that begin with ``$``, each with what follows until the next."""
    found: list[Command] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:]))
        else:
            found[-1].output.append(line)
    yield from found


def pattern(lines: Sequence[str]) -> str:
    """The output that is said, as a regular expression."""
    parts = [r"(?:.*\n)*" if line == "…" else re.escape(line).replace("…", ".*") + r"\n" for line in lines]
    return "".join(parts)


def follow(page: str, folder: Path, env: dict[str, str], change: Callable[[str], str] = str) -> None:
    """Runs a page's commands in one shell and compares what each prints."""
    listed = [command for command in commands(PAGES / page) if not command.installs]
    script = "\n".join(f"{change(one.words)}\necho '{ENDS}' $?" for one in listed)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env={
            "PATH": f"{folder}/bin:{os.environ['PATH']}",
            "HOME": str(folder),
            **({} if PLAIN else {"PYTHONPATH": str(ROOT)}),
            **env,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    printed = re.split(rf"{ENDS} (\d+)\n", done.stdout)
    outputs, codes = printed[:-1:2], printed[1::2]
    assert len(outputs) == len(listed) > 5
    for command, output, code in zip(listed, outputs, codes, strict=True):
        assert code == "0", f"$ {command.words}\n{output}"
        # Whether the index of a fresh database is ready when the first search comes is a matter of milliseconds.
        told = "".join(line for line in output.splitlines(keepends=True) if not line.startswith("note: "))
        told = told.rstrip("\n") + "\n" if told else ""
        assert re.fullmatch(pattern(command.output), told), f"$ {command.words}\n{output}"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with ``lcm`` and ``python`` of the tests on its path, and the examples of a checkout."""
    (tmp_path / "bin").mkdir()
    for name, words in (
        ("lcm", "-c 'from lcm_plugin.cli import main; main()'"),
        ("python", ""),
        ("python3", ""),
    ):
        (tmp_path / "bin" / name).write_text(
            f'#!/bin/sh\nexec {PLAIN or sys.executable} {words} "$@"\n', encoding="utf-8"
        )
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


@pytest.mark.long
def test_a_developer_comes_through(home: Path) -> None:
    follow("developer.md", home, {})


@pytest.mark.long
def test_somebody_with_histories_comes_through(home: Path) -> None:
    folder = home / ".claude" / "projects" / "-home-ann-shop"
    folder.mkdir(parents=True)
    (folder / "a.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in claude_code_log()), encoding="utf-8"
    )
    follow("histories.md", home, {})


SAID = (
    "Why does the checkout time out?",
    "The payment client waits 30 seconds; PAY-117 lowers it to 5.",
    "Write that into the notes.",
    "Done: notes/payments.md says so.",
)


def claude_code_log() -> Iterator[dict[str, object]]:
    """A log as Claude Code writes it."""
    before = None
    for number, text in enumerate(SAID):
        role, mine = ("user", "assistant")[number % 2], f"00000000-0000-4000-8000-{number:012}"
        yield {
            "type": role,
            "uuid": mine,
            "parentUuid": before,
            "sessionId": "00000000-0000-4000-8000-0000000000ff",
            "timestamp": f"2026-03-17T09:0{number}:00.000Z",
            "cwd": "/home/ann/shop",
            "version": "2.1.332",
            "isSidechain": False,
            "message": {
                "role": role,
                "content": text if role == "user" else [{"type": "text", "text": text}],
            },
        }
        before = mine


@pytest.mark.long
def test_an_operator_comes_through(home: Path, postgres_server: str) -> None:
    database = home / "lcm.db"
    with Engine.open(LcmConfig(database=str(database))) as engine:
        talk = [make(f"bed {n}: the lilies") for n in range(20) for make in (user, assistant)]
        engine.ingest(Session("agent:main:main"), talk)
    server = f"{postgres_server}{'&' if '?' in postgres_server else '?'}schema=quick_start"

    def on_the_server(words: str) -> str:
        return words.replace("postgresql://lcm@db.example/lcm", shlex.quote(server))

    follow("operator.md", home, {"LCM_DATABASE_PATH": str(database)}, on_the_server)


def test_what_a_page_says_is_compared() -> None:
    [command] = console("$ lcm\na\t…\n…\nend\n")
    assert re.fullmatch(pattern(command.output), "a\tb\nx\ny\nend\n")
    assert not re.fullmatch(pattern(command.output), "b\tb\nx\nend\n")
    assert [one.words for one in console("$ pip install lcm_plugin\n") if one.installs]
