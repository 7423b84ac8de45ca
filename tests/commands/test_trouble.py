"""A hook that fails is seen: in the chat, in status, after a restart, from another process."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pluggy
import pytest
from fakes.shell import run_here
from histories import talk_in

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.maintenance.hook_health import TOLD_AFTER
from lcm_plugin.plugin import LcmPlugin, register
from lcm_plugin.types import Context, Turn

KEY = Session("agent:main:telegram:42", "run-1")
HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lcm.db"


@pytest.fixture
def plugins(path: Path) -> Iterator[Callable[[], LcmPlugin]]:
    """Makes plugins over one database, as processes one after the other do."""
    made: list[LcmPlugin] = []

    def make() -> LcmPlugin:
        made.append(register(pluggy.PluginManager("lcm"), LcmConfig(database=str(path), busy_timeout_ms=20)))
        return made[-1]

    yield make
    for one in made:
        one.close()


def say(plugin: LcmPlugin, messages: list[dict[str, Any]] = HELLO) -> Context:
    context = plugin.before_turn(Turn(KEY, messages, mode="sync"))
    assert context is not None
    return context


def test_after_some_failures_the_user_is_told_once(path: Path, plugins: Callable[[], LcmPlugin]) -> None:
    path.write_bytes(b"random bytes " * 1_000)
    plugin = plugins()
    told = [say(plugin).notices for _ in range(TOLD_AFTER + 3)]
    assert [len(one) for one in told] == [0] * (TOLD_AFTER - 1) + [1, 0, 0, 0]
    assert f"{TOLD_AFTER} times in a row" in told[TOLD_AFTER - 1][0]
    assert "not a" in told[TOLD_AFTER - 1][0]


def test_a_command_says_why_nothing_works(path: Path, plugins: Callable[[], LcmPlugin]) -> None:
    path.write_bytes(b"random bytes " * 1_000)
    plugin = plugins()
    say(plugin)
    answer = plugin.lcm_run_command(KEY, "/lcm status")
    assert answer is not None
    assert not answer.ok
    assert "before\\_turn failed 1 time in a row" in answer.text


def test_failures_survive_a_restart_and_are_seen_by_another_process(
    path: Path, plugins: Callable[[], LcmPlugin]
) -> None:
    path.write_bytes(b"random bytes " * 1_000)
    first = plugins()
    say(first)
    say(first)
    first.close()
    second = plugins()
    say(second)
    (failure,) = [one for one in second.health.failures() if one.hook == "before_turn"]
    assert failure.in_a_row == 3
    done = run_here("status", "--database", path)
    assert done.returncode == 5
    assert "before_turn failed 3 times in a row" in done.stdout
    assert KEY.key in done.stdout


def test_status_of_a_working_database_names_the_hook_that_fails(
    path: Path, plugins: Callable[[], LcmPlugin]
) -> None:
    plugin = plugins()
    say(plugin)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for number in range(3):
        say(plugin, [*HELLO, {"role": "user", "content": f"and {number}"}])
    other.execute("ROLLBACK")
    other.close()
    answer = plugin.lcm_run_command(KEY, "/lcm status")
    assert answer is not None
    assert answer.ok
    assert "failed 3 times in a row" in answer.text
    assert answer.data["failing"][0]["lane"] == KEY.key
    assert "StoreBusy" in answer.data["failing"][0]["text"]
    assert answer.data["last_stored_at"] > 0
    shell = run_here("status", "--database", path)
    assert "before_turn failed 3 times in a row" in shell.stdout
    assert "before_turn failed 3 times in a row" in run_here("doctor", "--database", path).stdout
    assert "failed 3 times in a row" in plugin.engine.command(KEY, "/lcm doctor").text

    say(plugin, [*HELLO, {"role": "user", "content": "it works again"}])
    answer = plugin.lcm_run_command(KEY, "/lcm status")
    assert answer is not None
    assert answer.data["failing"] == []
    assert "works again (StoreBusy" in answer.text
    assert "in a row" not in run_here("status", "--database", path).stdout


def test_failures_are_counted_where_nothing_can_be_written(
    tmp_path: Path, plugins: Callable[[], LcmPlugin], path: Path
) -> None:
    path.mkdir()
    (tmp_path / "lcm.db.waiting").mkdir()
    plugin = plugins()
    for _ in range(TOLD_AFTER):
        notices = say(plugin).notices
    assert len(notices) == 1
    assert plugin.health.failures()[0].in_a_row == TOLD_AFTER


def test_the_record_holds_no_words_of_anybody(path: Path, plugins: Callable[[], LcmPlugin]) -> None:
    plugin = plugins()

    class Broken:
        @property
        def messages(self) -> Any:
            raise ValueError("a secret of the user")

        session, mode = KEY, "sync"

    plugin.before_turn(Broken())  # type: ignore[arg-type]
    (failure,) = plugin.health.failures()
    assert failure.text == "ValueError (the log says where)"


def test_a_context_over_the_threshold_is_never_said_to_owe_nothing(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    engine = open_engine()
    engine.ingest(session, [{"role": "user", "content": f"word {n} " * 400} for n in range(300)])
    answer = engine.command(session, "/lcm status")
    assert answer.data["session"]["context_tokens"] > answer.data["session"]["threshold_tokens"]
    assert "due (over hard limit)" in answer.text
    assert "nothing owed" not in answer.text
    off = open_engine(autocompact_disabled=True)
    assert "`autocompactDisabled` is set" in off.command(session, "/lcm status").text


def test_asked_checks_are_done_inside_a_host(open_engine: Callable[..., Engine], session: Session) -> None:
    engine = open_engine()
    talk_in(engine, session, 4)
    number = engine.command(session, "/lcm").data["session"]["conversation_id"]
    engine.integrity_jobs.request(number, "manual")
    assert "integrity checks: 1 waiting" in engine.command(session, "/lcm").text
    engine.schedule_compaction(session, 100_000)
    assert engine.wait_idle(60)
    text = engine.command(session, "/lcm").text
    assert "integrity checks: 1 finished; newest" in text
    assert "all is whole" in text
