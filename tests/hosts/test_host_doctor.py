"""The proof of a host: it opens the store, reads the settings, writes and reads a row, and keeps nothing of it."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes.shell import run_here

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.errors import StoreError
from lcm_plugin.hosts.doctor import _CHECKS, Host, check_host
from lcm_plugin.maintenance.proof import try_store
from lcm_plugin.types import Severity

MAIN = Session("agent:main:main", "run-1")
HERE = [Host.MCP, Host.PYDANTIC_AI]
"""Hosts that the environment of the tests has."""


def whole(path: Path) -> None:
    with Engine.open(LcmConfig(database=str(path))) as engine:
        engine.ingest(MAIN, [{"role": "user", "content": "hello"}])


def random_bytes(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 64)


def another_program(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, body TEXT)")
    connection.close()


def refuses_rows(path: Path) -> None:
    whole(path)
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TRIGGER no BEFORE INSERT ON conversations BEGIN SELECT RAISE(ABORT, 'no more rows'); END"
        )
    connection.close()


def codes(host: Host, database: str | None = None) -> list[str]:
    return [f"{one.severity} {one.code.partition('.')[2]}" for one in check_host(host, database)]


@pytest.mark.long
@pytest.mark.parametrize("host", HERE)
@pytest.mark.parametrize("fault", [random_bytes, another_program, refuses_rows, Path.mkdir])
def test_a_database_that_cannot_be_used_is_never_called_active(
    tmp_path: Path, host: Host, fault: Callable[[Path], None]
) -> None:
    path = tmp_path / "lcm.db"
    fault(path)
    assert codes(host, str(path)) == ["error database"]
    done = run_here("doctor", "--host", host.value, "--database", path)
    assert done.returncode == 1
    assert "active" not in done.stdout
    assert str(path) in done.stdout


@pytest.mark.parametrize("host", HERE)
def test_a_place_that_cannot_be_written_and_a_wrong_setting(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert codes(host, "/proc/nowhere/lcm.db") == ["error database"]
    monkeypatch.setenv("LCM_CONTEXT_THRESHOLD", "7")
    assert codes(host) == ["error settings"]


def test_a_database_that_works_is_as_it_was_and_one_that_is_missing_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    assert codes(Host.MCP, str(path)) == ["info store", "info active"]
    assert list(tmp_path.iterdir()) == []
    whole(path)
    assert codes(Host.MCP, str(path)) == ["info store", "info active"]
    with Engine.open(LcmConfig(database=str(path))) as engine:
        assert engine.messages(MAIN) == [{"role": "user", "content": "hello"}]
        assert engine.library.status().conversations == 1
        assert engine.check().findings == ()


@pytest.mark.parametrize("host", Host)
def test_a_host_that_is_not_installed_says_how_to_install_it(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, _CHECKS[host].needs, None)
    (finding,) = check_host(host)
    assert finding.severity is Severity.ERROR
    assert "install" in finding.repair


@pytest.mark.both_stores
def test_a_row_is_written_read_and_taken_back(engine: Engine) -> None:
    engine.ingest(MAIN, [{"role": "user", "content": "hello"}])
    before = engine.library.status()
    assert try_store(engine.store) == before.last_stored_at
    assert engine.library.status().conversations == before.conversations


def test_a_store_that_may_only_be_read_fails_the_proof(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    whole(path)
    path.chmod(stat.S_IRUSR)
    with (
        Engine.open(LcmConfig(database=str(path)), read_only=True) as engine,
        pytest.raises(StoreError),
    ):
        try_store(engine.store)


def test_a_database_given_for_a_host_that_has_its_own_is_refused(tmp_path: Path) -> None:
    done = run_here("doctor", "--host", "hermes", "--database", str(tmp_path / "other.db"))
    assert done.returncode == 2
    assert "its own settings" in done.stderr


@pytest.mark.long
def test_looking_at_the_chat_asks_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LITELLM_LOCAL_MODEL_COST_MAP", raising=False)
    script = (
        "import sys, socket\n"
        "def no(*_, **__): raise AssertionError('the network was asked')\n"
        "socket.getaddrinfo = no\n"
        "from lcm_plugin.hosts.doctor import Host, check_host\n"
        "import logging; logging.basicConfig(stream=sys.stderr, level=logging.WARNING)\n"
        "check_host(Host.CHAT)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
