"""`lcm web` as a person starts it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path

import pytest
from fakes.processes import piped
from fakes.shell import program, run_here
from three_sessions import MAIN, fill

from lcm_plugin import Engine, LcmConfig
from lcm_plugin.cli.errors import CONFIG, DATABASE


@pytest.fixture
def database(tmp_path: Path) -> Path:
    with Engine.open(LcmConfig(database=str(tmp_path / "a.db"))) as engine:
        fill(engine)
    return tmp_path / "a.db"


def test_the_address_that_it_prints_opens_and_ctrl_c_ends_it(database: Path) -> None:
    command = program("web", "--port", "0", "--database", database)[1:]
    with piped(*command) as (running, printed):
        address = printed.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        assert len(address.partition("?token=")[2]) >= 32
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        with browser.open(address) as answer:
            assert b"zanzibar" in answer.read()
        with Engine.open(LcmConfig(database=str(database))) as host:
            host.ingest(MAIN, [{"role": "user", "content": "a word about quinces"}])
        with browser.open(f"{address.partition('?')[0]}search?q=quinces") as answer:
            assert b"<mark>quinces</mark>" in answer.read()
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(address.partition("?")[0])
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 0


def test_a_taken_port_is_named(database: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run_here("web", "--port", str(port), "--database", database)
    assert done.returncode == CONFIG
    assert f"port {port} cannot be had" in done.stderr
    assert "--port 0" in done.stderr


def test_a_database_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    done = run_here("web", "--port", "0", "--database", tmp_path / "none.db")
    assert done.returncode == DATABASE
    assert not (tmp_path / "none.db").exists()


def test_without_the_extra_one_sentence_says_what_to_install(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "lcm_plugin.web.server", raising=False)
    done = run_here("web", "--database", database)
    assert done.returncode == CONFIG
    assert "pip install 'lcm_plugin[web]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.long
def test_the_extra_adds_nothing_to_the_import_of_the_core_or_the_command() -> None:
    heavy = "{'starlette', 'uvicorn', 'jinja2', 'lcm_plugin.web'}"
    for modules in ("lcm_plugin.engine, lcm_plugin.plugin", "lcm_plugin.cli.app"):
        code = f"import sys, {modules}; print(sorted({heavy} & set(sys.modules)))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]"
