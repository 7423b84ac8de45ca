"""Every command in a terminal: its help, output that fits, errors as documented, and quiet ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from fakes.shell import program, run_here, run_in_terminal, run_program

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.cli.app import app

INCIDENT = Path(__file__).resolve().parents[2] / "examples" / "incident.jsonl"
KEY = "agent:replay:main"
LISTINGS = ("conversations", "messages", "summaries", "context")
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def commands(group: Any = None, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    group = group or typer.main.get_command(app)
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*prefix, name))
        else:
            yield (*prefix, name)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("every")
    transcript = folder / "t.jsonl"
    rows = INCIDENT.read_text(encoding="utf-8").splitlines()[:150]
    transcript.write_text("\n".join(rows), encoding="utf-8")
    done = run_here("replay", transcript, "--database", folder / "a.db", "--budget", "8000", "--json")
    assert done.returncode == 0, done.stderr
    return folder / "a.db"


@pytest.mark.parametrize("command", list(commands()), ids=" ".join)
def test_every_command_has_help_with_an_example_and_takes_json(command: tuple[str, ...]) -> None:
    done = run_here(*command, "--help")
    assert done.returncode == 0
    assert "Example" in done.stdout or command == ("config", "path")
    assert ("--json" in done.stdout) == (command[0] not in ("chat", "mcp", "serve", "web"))


@pytest.mark.parametrize("command", list(commands()), ids=" ".join)
def test_a_wrong_option_is_a_usage_error_also_as_json(command: tuple[str, ...]) -> None:
    done = run_here(*command, "--no-such-option", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["exit_code"] == 2


@pytest.mark.long
@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("name", ["messages", "summaries", "context", "tree"])
def test_ids_stay_whole_at_every_width(database: Path, name: str, columns: int) -> None:
    data = json.loads(run_here("summaries", KEY, "--database", database, "--json").stdout)
    code, output = run_in_terminal(name, KEY, "--database", database, columns=columns)
    plain = ESCAPES.sub("", output).replace("\r", "")
    assert code == 0
    assert max(map(len, plain.splitlines())) <= columns
    if name == "messages":
        assert all(re.search(rf"\bmsg_{number}\b", plain) for number in range(1, 51))
    elif name == "summaries":
        assert all(row["summary_id"] in plain for row in data["summaries"])
    else:
        assert set(re.findall(r"sum_\w+", plain)) <= {row["summary_id"] for row in data["summaries"]}
        assert "sum_" in plain


@pytest.mark.long
@pytest.mark.parametrize("name", LISTINGS)
def test_pages_put_together_are_the_whole_list(database: Path, name: str) -> None:
    argument = () if name == "conversations" else (KEY,)
    listed = {"context": "items"}.get(name, name)
    whole = json.loads(run_here(name, *argument, "--database", database, "--json", "--limit", "10000").stdout)
    assert whole["next"] is None
    pages: list[Any] = []
    last: Any = None
    while True:
        more = () if last is None else ("--after", str(last))
        page = json.loads(
            run_here(name, *argument, *more, "--database", database, "--json", "--limit", "7").stdout
        )
        pages += page[listed]
        last = page["next"]
        if last is None:
            break
    assert pages == whole[listed]


@pytest.mark.parametrize("selector", [KEY, "agent:*:main", "agent:**", "1"])
def test_conversations_are_chosen_by_key_glob_or_number(database: Path, selector: str) -> None:
    done = run_here("conversations", selector, "--database", database, "--json")
    assert [row["conversation_id"] for row in json.loads(done.stdout)["conversations"]] == [1]
    for name in LISTINGS[1:]:
        assert run_here(name, selector, "--database", database).returncode == 0


def test_conversations_are_chosen_by_the_id_of_a_session(database: Path) -> None:
    rows = json.loads(run_here("conversations", "--database", database, "--json").stdout)["conversations"]
    done = run_here("conversations", rows[0]["session_id"], "--database", database, "--json")
    assert json.loads(done.stdout)["conversations"] == rows


def test_summaries_are_chosen_by_the_time_they_tell_of(database: Path) -> None:
    rows = json.loads(run_here("summaries", KEY, "--database", database, "--json").stdout)["summaries"]
    leaves = [row for row in rows if row["depth"] == 0]
    cut = leaves[1]["earliest_at"]
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(cut / 1000))
    done = run_here("summaries", KEY, "--until", moment, "--database", database, "--json")
    found = {row["summary_id"] for row in json.loads(done.stdout)["summaries"]}
    assert found == {row["summary_id"] for row in rows if row["earliest_at"] < cut // 1000 * 1000}
    assert 0 < len(found) < len(rows)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("messages", KEY, "--since", "soon"), 2),
        (("grep", "(", "--regex"), 2),
        (("messages", "agent:nobody:main"), 3),
        (("show", "msg_99999"), 3),
        (("show", "sum_0000000000000000"), 3),
        (("describe", "file_0000000000000000"), 3),
    ],
)
def test_errors_have_their_code_in_words_and_as_json(
    database: Path, arguments: tuple[str, ...], code: int
) -> None:
    done = run_here(*arguments, "--database", database, "--json")
    assert done.returncode == code
    answer = json.loads(done.stdout)
    assert answer["exit_code"] == code
    assert done.stderr.startswith("lcm: ")
    assert "Traceback" not in done.stderr
    assert run_here(*arguments, "--database", database).stdout == ""


def test_a_database_that_is_not_there_and_one_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database " * 500, encoding="utf-8")
    for name in ("none.db", "text.db"):
        done = run_here("status", "--database", tmp_path / name, "--json")
        assert done.returncode == json.loads(done.stdout)["exit_code"] == 5
    assert not (tmp_path / "none.db").exists()


def test_a_wrong_setting_is_code_4() -> None:
    done = run_here("config", "set", "contextThreshold", "7", "--json")
    assert done.returncode == json.loads(done.stdout)["exit_code"] == 4


def test_no_colour_when_it_is_not_wanted(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    coloured = run_in_terminal("tree", KEY, "--database", database)[1]
    monkeypatch.setenv("NO_COLOR", "1")
    plain = run_in_terminal("tree", KEY, "--database", database)[1]
    colours = re.compile(r"\x1b\[[0-9;]*3[0-7]m")
    assert colours.search(coloured)
    assert not colours.search(plain)


@pytest.mark.long
def test_a_reader_that_goes_away_is_no_error(database: Path) -> None:
    command = program("messages", KEY, "--database", database, "--limit", "10000", "--json")
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.close()
    complaints = child.stderr.read()
    child.stderr.close()
    assert child.wait(timeout=30) == 0
    assert complaints == b""


@pytest.mark.long
def test_control_c_ends_quietly(tmp_path: Path) -> None:
    # The command stands in a read of a pipe that nobody writes to.
    command = program("replay", "-", "--json")
    child = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        # A test run in the background ignores Ctrl-C, and its children would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert child.stdin is not None
    child.stdin.write(b"\n" * 200_000)  # more than a pipe holds: written once it reads
    child.stdin.flush()
    os.kill(child.pid, signal.SIGINT)
    output, complaints = child.communicate()
    assert child.returncode == 130
    assert output == b""
    assert complaints == b""


def test_reading_works_while_a_host_writes(tmp_path: Path) -> None:
    path = tmp_path / "live.db"
    session = Session("agent:main:main")
    with Engine.open(LcmConfig(database=str(path))) as engine, engine.store.write():
        pass
    with Engine.open(LcmConfig(database=str(path))) as engine:
        engine.ingest(session, [{"role": "user", "content": "before the write"}])
        engine.wait_idle(60)
        with engine.store.write():
            for arguments in (("status",), ("messages", session.key), ("grep", "write"), ("doctor",)):
                done = run_program(*arguments, "--database", path)
                assert done.returncode == 0, done.stderr
        engine.ingest(session, [{"role": "user", "content": "after it"}])
        assert len(engine.messages(session)) == 2


def test_completion_knows_the_commands() -> None:
    environment = {
        **os.environ,
        "_LCM_COMPLETE": "complete_bash",
        "COMP_WORDS": "lcm con",
        "COMP_CWORD": "1",
    }
    child = subprocess.run(
        [sys_executable(), "-c", "import sys; sys.argv[0] = 'lcm'; from lcm_plugin.cli import main; main()"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert {"conversations", "context", "config"} == set(child.stdout.split())


def test_it_starts_at_once() -> None:
    """CPU time, as wall time on a busy machine says little; the aim is 0.4 s, the bound is generous."""
    before = os.times()
    done = subprocess.run(program("--version"), capture_output=True, check=False)
    after = os.times()
    assert done.returncode == 0
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    assert spent < 0.8


def sys_executable() -> str:
    return program()[0]
