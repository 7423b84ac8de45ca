"""A database's password is shown nowhere: not in lists, answers, errors, events or logs."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.shell import run_here
from messages import user

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.config.explain import masked
from lcm_plugin.errors import LcmError
from lcm_plugin.plugin import LcmPlugin
from lcm_plugin.types import Turn

PASSWORD = "Swordfish77"
SPELLINGS = [
    f"postgresql://me:{PASSWORD}@{{host}}/db",
    f"postgresql://me@{{host}}/db?password={PASSWORD}",
    f"postgresql://me:{PASSWORD}@{{host}}/db?nonsense=1",
    f"postgresql://me:{PASSWORD}@[::1/db",
    f"postgresql://me:{PASSWORD}@{{host}}/db?schema=no-such-name",
]


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address that refuses connections."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.long
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_command_and_no_error_tells_it(
    spelling: str, nobody: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = spelling.format(host=nobody)
    monkeypatch.setenv("LCM_CONFIG", str(tmp_path / "config.json"))
    outputs = [
        run_here("config", "set", "database", url, "--json"),
        run_here("config", "set", "database", url),
        run_here("config", "list"),
        run_here("config", "list", "--json"),
        run_here("config", "get", "database", "--json"),
        run_here("status"),
        run_here("status", "--json"),
        run_here("doctor"),
        run_here("grep", "x"),
    ]
    assert PASSWORD in (tmp_path / "config.json").read_text()
    for done in outputs:
        assert PASSWORD not in done.stdout + done.stderr
    assert [done.returncode for done in outputs[5:]] == [5, 5, 5, 5]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_log_line_tells_it(spelling: str, nobody: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="lcm_plugin")
    plugin = LcmPlugin(LcmConfig(database=spelling.format(host=nobody)))
    turn = Turn(Session("k"), [user("hello")], mode="sync")
    assert plugin.before_turn(turn) is not None
    with pytest.raises(LcmError) as caught:
        Engine.open(LcmConfig(database=spelling.format(host=nobody)))
    assert PASSWORD not in str(caught.value)
    assert caplog.records
    assert all(PASSWORD not in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (f"postgresql://me:{PASSWORD}@h/db", "postgresql://me:***@h/db"),
        (f"postgresql://me:a:{PASSWORD}@b@h/db", "postgresql://me:***@h/db"),
        (f"host=h password='my {PASSWORD}' dbname=x", "host=h password=*** dbname=x"),
        (f"host=h password = {PASSWORD} dbname=x", "host=h password=*** dbname=x"),
        (f"postgresql://h/db?user=u&password={PASSWORD}", "postgresql://h/db?user=u&password=***"),
        ("postgresql://me@h/db", "postgresql://me@h/db"),
        ("/home/me/lcm.db", "/home/me/lcm.db"),
    ],
)
def test_what_is_masked_and_what_is_not(given: str, shown: str) -> None:
    assert masked(given) == shown
