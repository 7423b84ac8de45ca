"""An adapter goes on in a forked process, whatever locks other threads held at that moment."""

from __future__ import annotations

import ast
import os
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lcm_plugin.hosts
from lcm_plugin import LcmConfig, Session, Turn
from lcm_plugin.hosts.bub.core import Core
from lcm_plugin.hosts.bub.overhead import Overhead
from lcm_plugin.hosts.hermes.completer import AuxiliaryCompleter
from lcm_plugin.hosts.hermes.lanes import Lanes, LiveEngines
from lcm_plugin.hosts.hermes.outbox import Outbox
from lcm_plugin.hosts.hermes.runtime import Runtime, Times

pytestmark = [
    pytest.mark.sqlite_only,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork"),
    pytest.mark.filterwarnings("ignore:This process.*is multi-threaded, use of fork:DeprecationWarning"),
]
LOCKS = {"Lock", "RLock", "Condition"}


def goes_well_in_a_child(work: Callable[[], object]) -> bool:
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 - shown, and told by the exit code
            traceback.print_exc(file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def locks_of(owner: object) -> list[Any]:
    return [value for value in vars(owner).values() if hasattr(value, "acquire")]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Core(LcmConfig()),
        lambda: Overhead(len)._counted,
        lambda: Runtime(LcmConfig),
        Times,
        Outbox,
        LiveEngines,
        AuxiliaryCompleter,
        lambda: Lanes(lambda _: None),
    ],
)
def test_locks_that_another_thread_holds_are_free_in_the_child(make: Callable[[], object]) -> None:
    owner, held, done = make(), threading.Event(), threading.Event()
    assert locks_of(owner)

    def hold() -> None:
        for lock in locks_of(owner):
            lock.acquire()
        held.set()
        done.wait(60)
        for lock in locks_of(owner):
            lock.release()

    def work() -> None:
        assert all(lock.acquire(timeout=60) for lock in locks_of(owner))

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert held.wait(60)
        assert goes_well_in_a_child(work)
    finally:
        done.set()
        thread.join(60)


def test_the_line_of_the_parent_is_not_worked_off_in_the_child() -> None:
    outbox, going, done = Outbox(patience=0.01), threading.Event(), threading.Event()
    outbox.put(lambda: going.set() or done.wait(60))
    assert going.wait(60)
    outbox.put(lambda: None)

    def work() -> None:
        assert outbox.waiting == 0
        stored: list[int] = []
        outbox.put(lambda: stored.append(1))
        assert outbox.drain(10)
        assert stored == [1]

    try:
        assert goes_well_in_a_child(work)
        assert outbox.waiting == 2
    finally:
        done.set()
    assert outbox.drain(10)


def test_bubs_core_stores_in_parent_and_child(tmp_path: Path) -> None:
    core, session = Core(LcmConfig(database=str(tmp_path / "lcm.db"))), Session("agent:main:fork")

    def say(text: str) -> None:
        message = {"role": "user", "content": text}
        assert core.before_turn(Turn(session, [message], mode="append", window=8_000)) is not None

    say("one")
    assert goes_well_in_a_child(lambda: say("two"))
    say("three")
    engine = core.engine()
    assert engine is not None
    assert [message["content"] for message in engine.messages(session)] == ["one", "two", "three"]
    core.close()


def test_every_class_of_an_adapter_that_has_locks_renews_them() -> None:
    found = 0
    for path in Path(lcm_plugin.hosts.__file__).parent.rglob("*.py"):
        for made in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(made, ast.ClassDef):
                continue
            calls = [node.func for node in ast.walk(made) if isinstance(node, ast.Call)]
            if any(isinstance(call, ast.Attribute) and call.attr in LOCKS for call in calls):
                found += 1
                assert "FreshLocks" in {base.id for base in made.bases if isinstance(base, ast.Name)}, (
                    made.name
                )
                assert any(isinstance(call, ast.Name) and call.id == "join" for call in calls), made.name
    assert found > 10
