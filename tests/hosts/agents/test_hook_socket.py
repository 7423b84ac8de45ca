"""Hooks that are processes: each is answered by its session's server, or by itself where there is none."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from agent_logs import Log
from waiting import eventually

from lcm_plugin import Engine, LcmConfig
from lcm_plugin.hosts.agents import hook_client
from lcm_plugin.hosts.agents.capture import Capture
from lcm_plugin.hosts.agents.hook_socket import HookSocket
from lcm_plugin.hosts.agents.plugin_files import HOOK_CLIENT, hook_line
from lcm_plugin.hosts.mcp.rest import Rest
from lcm_plugin.messages.merging import COUNTS

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="the system has no local sockets")
# What starts a server here, and so is named by its socket.
STARTER = os.getppid()
ASKED = {
    "hook_event_name": "BeforeAgent",
    "session_id": "other",
    "cwd": "/home/ann/pump",
    "prompt": "What is the gate code of the north pumping station?",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "hooks"


@pytest.fixture
def server(folder: Path) -> Iterator[HookSocket]:
    made = HookSocket(folder)
    yield made
    made.close()


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A database with one stored turn of the project."""
    log = Log(tmp_path)
    log.turn("The gate code of the north pumping station is HERON-4417.", "Noted.")
    with Engine.open(LcmConfig(database=str(tmp_path / "lcm.db"))) as engine:
        Capture(engine, "claude-code").store([log.path])
    return tmp_path / "lcm.db"


def asked(folder: Path, *arguments: str, starter: int = STARTER, said: Mapping[str, Any] = ASKED) -> Any:
    """What a hook prints, which may not fail."""
    line = [sys.executable, "-I", "-S", str(HOOK_CLIENT), str(folder), str(starter)]
    # With these it could only fail where it runs by itself.
    ended = subprocess.run(
        [*line, *(arguments or ("none", "--database", "/nowhere/lcm.db"))],
        input=json.dumps(said).encode(),
        capture_output=True,
        check=True,
        timeout=120,
    )
    return json.loads(ended.stdout)


def test_the_sessions_server_answers_a_hook(server: HookSocket, folder: Path) -> None:
    server.answer_with(lambda said, _: {"asked": said["prompt"]})
    assert asked(folder) == {"asked": ASKED["prompt"]}


def test_a_long_prompt_and_a_long_answer_come_whole(server: HookSocket, folder: Path) -> None:
    server.answer_with(lambda said, _: {"asked": said["prompt"]})
    long = "Pümpe " * 200_000
    assert asked(folder, said=ASKED | {"prompt": long}) == {"asked": long}


def test_a_hook_waits_for_a_server_that_still_starts(server: HookSocket, folder: Path) -> None:
    line = [sys.executable, "-I", "-S", str(HOOK_CLIENT), str(folder), str(STARTER), "none"]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as hook:
        assert hook.stdin is not None
        hook.stdin.write(json.dumps(ASKED).encode())
        hook.stdin.close()
        server.answer_with(lambda said, _: {"late": True})
        assert hook.stdout is not None
        assert json.loads(hook.stdout.read()) == {"late": True}


def test_only_its_owner_can_come_to_a_socket(server: HookSocket, folder: Path) -> None:
    assert [stat.S_IMODE(one.stat().st_mode) for one in (folder, *folder.iterdir())] == [0o700, 0o600]


def test_a_folder_that_others_can_enter_is_used_by_neither_side(folder: Path) -> None:
    kept = HookSocket(folder)
    kept.answer_with(lambda said, _: {"answered": True})
    folder.chmod(0o755)
    with pytest.raises(PermissionError):
        HookSocket(folder)
    assert hook_client._of_server(str(folder), f"{STARTER}-", b"{}") is None
    kept.close()


def test_another_sessions_server_is_not_asked(server: HookSocket, folder: Path) -> None:
    server.answer_with(lambda said, _: {"another": True})
    for other in (STARTER + 1, int(f"{STARTER}1")):
        assert hook_client._of_server(str(folder), f"{other}-", b"{}") is None


def test_of_two_servers_of_one_agent_the_newer_is_asked(server: HookSocket, folder: Path) -> None:
    server.answer_with(lambda said, _: {"server": "older"})
    (older,) = folder.iterdir()
    kept = older.with_name(f"{STARTER}-1")
    older.rename(kept)
    os.utime(kept, (1, 1))
    newer = HookSocket(folder)
    newer.answer_with(lambda said, _: {"server": "newer"})
    assert asked(folder) == {"server": "newer"}
    newer.close()
    assert asked(folder) == {"server": "older"}


def test_a_path_that_is_too_long_for_a_socket_is_none_here(tmp_path: Path) -> None:
    long = tmp_path / ("l" * 100) / ("m" * 100)
    made = HookSocket(long)
    made.answer_with(lambda said, _: {"answered": True})
    assert asked(long) == {"answered": True}
    made.close()
    assert list(long.iterdir()) == []


def test_what_a_killed_server_left_is_removed_by_the_next(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    for name in ("7-8", "7-9"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
            left.bind(str(folder / name))
    os.utime(folder / "7-8", (1, 1))
    made = HookSocket(folder)
    # The other is so new that its server may only not listen yet.
    assert {one.name for one in folder.iterdir()} == {"7-9", f"{STARTER}-{os.getpid()}"}
    made.close()


def test_a_living_servers_socket_is_not_removed(server: HookSocket, folder: Path) -> None:
    (path,) = folder.iterdir()
    os.utime(path, (1, 1))
    living = path.rename(path.with_name("7-8"))
    another = HookSocket(folder)
    assert living.exists()
    another.close()
    living.unlink()


@contextmanager
def hanging(folder: Path) -> Iterator[socket.socket]:
    """A server whose process was stopped: the system takes connections for it, and nobody answers."""
    folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stopped:
        stopped.bind(str(folder / f"{STARTER}-8"))
        stopped.listen()
        yield stopped


def seconds_of_a_hook(folder: Path) -> float:
    started = time.monotonic()
    assert hook_client._of_server(str(folder), f"{STARTER}-", b"{}") == b"{}\n"
    return time.monotonic() - started


def test_a_server_that_hangs_costs_300_ms_once_and_next_to_nothing_from_then_on(folder: Path) -> None:
    with hanging(folder):
        assert seconds_of_a_hook(folder) >= 0.3
        assert f"late-{STARTER}-8" in [one.name for one in folder.iterdir()]
        # A busy machine only makes a hook slower: the fastest of several says what it waits for.
        assert 0.05 <= min(seconds_of_a_hook(folder) for _ in range(5)) < 0.3


def test_a_server_that_answers_again_is_waited_for_as_before(server: HookSocket, folder: Path) -> None:
    note = folder / f"late-{STARTER}-{os.getpid()}"
    note.touch()
    server.answer_with(lambda said, _: {"answered": True})
    for _ in iter(lambda: hook_client._of_server(str(folder), f"{STARTER}-", b"{}"), b'{"answered": true}\n'):
        # A busy machine may be late again.
        continue
    assert not note.exists()


def test_a_server_that_lives_and_does_not_answer_is_noted_too(
    server: HookSocket, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook_client, "_SECONDS", 0.05)
    assert seconds_of_a_hook(folder) >= 0.05
    assert (folder / f"late-{STARTER}-{os.getpid()}").exists()
    server.close()
    assert list(folder.iterdir()) == []


def test_what_a_hook_said_that_did_not_wait_is_heard_all_the_same(folder: Path) -> None:
    heard: list[str] = []
    with hanging(folder) as stopped:
        said = json.dumps(ASKED).encode()
        assert hook_client._of_server(str(folder), f"{STARTER}-", said) == b"{}\n"
        connection, _ = stopped.accept()
        late = HookSocket(folder)
        late.answer_with(lambda said, _: {"heard": heard.append(said["prompt"])})
        late._answer(connection)
        late.close()
    assert heard == [ASKED["prompt"]]


def test_a_slow_machine_may_give_a_server_more_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUGIN_TIMEOUT_OF_LCM_MS", "450")
    with hanging(folder):
        assert seconds_of_a_hook(folder) >= 0.45


def test_notes_of_servers_that_are_gone_are_removed_by_the_next(folder: Path) -> None:
    with hanging(folder):
        for name in (f"late-{STARTER}-8", "late-7-9"):
            (folder / name).touch()
        HookSocket(folder).close()
        assert {one.name for one in folder.iterdir()} == {f"{STARTER}-8", f"late-{STARTER}-8"}


def test_a_hook_that_waited_for_a_server_to_start_says_how_long(server: HookSocket, folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-I", "-S", str(HOOK_CLIENT), str(folder), str(STARTER), "none"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as hook:
        assert hook.stdin is not None
        assert hook.stdout is not None
        hook.stdin.write(json.dumps(ASKED).encode())
        hook.stdin.close()
        eventually(lambda: any(one.name.startswith("lcm-hook-") for one in threading.enumerate()))
        began = time.monotonic()
        eventually(lambda: time.monotonic() - began > 0.1)
        server.answer_with(lambda said, waited: {"waited": waited})
        assert json.loads(hook.stdout.read())["waited"] >= 0.1


def test_what_is_no_json_object_is_answered_by_the_hook_itself(server: HookSocket, folder: Path) -> None:
    server.answer_with(lambda said, _: {"answered": True})
    for data in (b"", b"nonsense", b"[1]"):
        assert hook_client._of_server(str(folder), f"{STARTER}-", data) is None


@pytest.mark.long
def test_a_killed_servers_hook_answers_by_itself(folder: Path, history: Path) -> None:
    folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(str(folder / f"{STARTER}-8"))
    answer = asked(folder, "gemini-cli", "--database", str(history))
    assert "HERON-4417" in answer["hookSpecificOutput"]["additionalContext"]


@pytest.mark.long
def test_a_hooks_line_is_answered_by_the_server_that_the_same_program_started(
    tmp_path: Path, history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "it's data"))
    line = hook_line("gemini-cli", "/nowhere/lcm.db", windows=False)

    def hook(said: Mapping[str, Any]) -> str:
        ended = subprocess.run(["bash", "-c", line], input=json.dumps(said), capture_output=True, text=True)
        assert ended.returncode == 0
        return ended.stdout

    command = [
        sys.executable,
        "-P",
        "-m",
        "lcm_plugin.hosts.agents",
        "gemini-cli",
        "--database",
        str(history),
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        sockets = tmp_path / "it's data" / "lcm" / "agents" / "hooks"
        deadline = time.monotonic() + 60
        while not sockets.is_dir() or not list(sockets.iterdir()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        until_answered = iter(lambda: "HERON-4417" in hook(ASKED), True)
        # A busy machine is no fault: the first prompt may be answered with nothing.
        for _ in until_answered:
            assert time.monotonic() < deadline
        assert started.stdin is not None
        started.stdin.close()
        started.wait(60)
    assert list(sockets.iterdir()) == []


def test_a_hooks_line_never_fails_even_when_its_python_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    line = hook_line("gemini-cli", None, windows=False)
    ended = subprocess.run(["bash", "-c", line], input=b"{}", capture_output=True, check=True)
    assert ended.stdout == b""


def test_the_client_loads_nothing_that_takes_time(server: HookSocket, folder: Path) -> None:
    server.answer_with(lambda said, _: {})
    line = [sys.executable, "-I", "-S", "-X", "importtime", str(HOOK_CLIENT), str(folder), str(STARTER)]
    ended = subprocess.run([*line, "none"], input=b"{}", capture_output=True, check=True)
    loaded = {row.rsplit(b"|", 1)[1].strip().decode() for row in ended.stderr.splitlines() if b"|" in row}
    assert "_socket" in loaded
    assert not loaded & {"socket", "json", "subprocess", "pathlib", "re", "lcm_plugin", "site"}


def test_a_hook_from_a_socket_begins_a_servers_rest_anew() -> None:
    async def work() -> None:
        rest = Rest(0.5)
        COUNTS.get_ready()
        async with anyio.create_task_group() as group:
            group.start_soon(rest.watch)
            until = anyio.current_time() + 0.8
            while anyio.current_time() < until:
                await anyio.to_thread.run_sync(rest.stir_from_thread)
                await anyio.sleep(0.01)
                assert COUNTS.is_ready
            group.cancel_scope.cancel()

    anyio.run(work)
