"""What could not be stored waits, in order, also through a restart, and is stored once."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from messages import assistant, user

from lcm_plugin import Engine, LcmConfig, LcmPlugin, Session, Turn
from lcm_plugin.errors import StoreError, StoreUnavailable
from lcm_plugin.events import Event
from lcm_plugin.ingest import recorder as recording
from lcm_plugin.ingest.recorder import Recorder
from lcm_plugin.store.waiting import WaitingFile

KEY = Session("agent:main:main", "run-1")


class Host:
    """A host with a plugin whose engine can be made to fail."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.path = folder / "lcm.db"
        self.file = folder / "lcm.db.waiting"
        self.plugin = LcmPlugin(LcmConfig(database=str(self.path), **settings))
        self.events: list[Event] = []
        self.plugin._tell_host = self.events.append  # type: ignore[method-assign]
        self.plugin._recorder = Recorder(self.plugin._settings, self.events.append)

    def say(self, *messages: Any, session: Session = KEY, mode: Any = "append") -> Any:
        return self.plugin.before_turn(Turn(session, messages, mode=mode, window=32_000))

    def stored(self, session: Session = KEY) -> list[Any]:
        return self.plugin.engine.messages(session)

    def names(self) -> list[str]:
        return [event.name for event in self.events]


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException | None], None]:
    """Makes every ingest raise, until it is called with None."""
    ingest, error = Engine.ingest, []

    def maybe(self: Engine, *given: Any, **more: Any) -> Any:
        if error and error[-1] is not None:
            raise error[-1]
        return ingest(self, *given, **more)

    monkeypatch.setattr(Engine, "ingest", maybe)
    return error.append


@pytest.mark.parametrize("error", [StoreError("odd"), MemoryError(), RuntimeError("bug"), OSError(5, "io")])
def test_no_failure_loses_a_delta(tmp_path: Path, failing: Callable[[Any], None], error: Exception) -> None:
    host = Host(tmp_path)
    host.say(user("one"))
    failing(error)
    assert host.say(assistant("uno")) is None
    assert host.say(user("two"), user("three")) is None
    assert [e.fields["messages"] for e in host.events if e.name == "ingest.waiting"] == [1, 3]
    failing(None)
    host.say(user("four"))
    assert host.stored() == [user("one"), assistant("uno"), user("two"), user("three"), user("four")]
    host.plugin.close()


def test_a_keyboard_interrupt_passes_and_loses_nothing(
    tmp_path: Path, failing: Callable[[Any], None]
) -> None:
    host = Host(tmp_path)
    failing(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        host.say(user("one"))
    failing(None)
    host.say(user("two"))
    assert host.stored() == [user("one"), user("two")]
    host.plugin.close()


def test_what_waits_outlives_the_process(tmp_path: Path, failing: Callable[[Any], None]) -> None:
    host = Host(tmp_path)
    failing(StoreUnavailable("away"))
    for number in range(5):
        host.say(user(f"number {number}"))
        host.say(user(f"other {number}"), session=Session("agent:main:other"))
    failing(None)
    assert stat.S_IMODE(host.file.stat().st_mode) == 0o600
    later = Host(tmp_path)
    later.say(user("and now"))
    assert [m["content"] for m in later.stored()] == [*(f"number {n}" for n in range(5)), "and now"]
    assert [m["content"] for m in later.stored(Session("agent:main:other"))] == [
        f"other {n}" for n in range(5)
    ]
    assert WaitingFile(later.file).lanes() == []
    later.plugin.close()
    host.plugin.close()


def test_a_list_waits_only_as_the_newest_and_goes_to_the_file_at_the_end(
    tmp_path: Path, failing: Callable[[Any], None]
) -> None:
    host = Host(tmp_path)
    failing(StoreUnavailable("away"))
    listing = [user("one"), assistant("uno")]
    assert host.say(*listing[:1], mode="sync").messages == listing[:1]
    host.say(*listing, mode="sync")
    assert WaitingFile(host.file).total() == 0
    host.plugin.session_end(KEY, "shutdown")
    host.plugin.close()
    failing(None)
    later = Host(tmp_path)
    later.say(*listing, user("two"), mode="sync")
    assert later.stored() == [*listing, user("two")]
    later.plugin.close()


def test_what_waits_was_said_before_a_reset(tmp_path: Path, failing: Callable[[Any], None]) -> None:
    from lcm_plugin import Reset

    host = Host(tmp_path)
    host.say(user("one"))
    failing(StoreUnavailable("away"))
    host.say(user("two"))
    assert not host.plugin.before_reset(Reset(KEY, "reset")).ok
    failing(None)
    assert host.plugin.before_reset(Reset(KEY, "reset")).ok
    host.say(user("three"))
    assert host.stored() == [user("three")]
    host.plugin.close()


def test_no_secret_is_written_to_the_file(tmp_path: Path, failing: Callable[[Any], None]) -> None:
    host = Host(tmp_path, redact_patterns=["sk-[a-z0-9]+"])
    failing(StoreUnavailable("away"))
    host.say(user("the key is sk-abc123"), user(b"raw sk-abc123"), {"content": "sk-abc123"})
    assert b"sk-abc123" not in host.file.read_bytes()
    assert host.file.read_bytes().count(b"[REDACTED]") >= 3
    failing(None)
    host.say(user("go on"))
    assert "sk-abc123" not in json.dumps(host.stored())
    assert len(host.stored()) == 4
    host.plugin.close()


def test_what_was_stored_before_a_kill_is_not_stored_again(tmp_path: Path) -> None:
    """Killed between the two databases: the batch stands in both."""
    host = Host(tmp_path)
    host.say(user("before"))
    engine, file = host.plugin.engine, WaitingFile(host.file)
    file.add(KEY, "append", [user("ok"), user("ok")])
    batch = file.oldest(KEY.key)
    assert batch is not None
    assert file.claim(batch, engine.arrivals.position(KEY))
    engine.ingest(KEY, batch.messages)
    later = Host(tmp_path)
    later.say(user("ok"))
    assert [m["content"] for m in later.stored()] == ["before", "ok", "ok", "ok"]
    assert file.lanes() == []
    later.plugin.close()
    host.plugin.close()


def test_what_was_claimed_and_not_stored_before_a_kill_is_stored(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.say(user("ok"))
    file = WaitingFile(host.file)
    file.add(KEY, "append", [user("ok")])
    batch = file.oldest(KEY.key)
    assert batch is not None
    assert file.claim(batch, host.plugin.engine.arrivals.position(KEY))
    later = Host(tmp_path)
    later.say(user("go on"))
    assert [m["content"] for m in later.stored()] == ["ok", "ok", "go on"]
    later.plugin.close()
    host.plugin.close()


def test_a_batch_that_a_living_process_stores_is_left_to_it(tmp_path: Path) -> None:
    host = Host(tmp_path)
    file = WaitingFile(host.file)
    file.add(KEY, "append", [user("one")])
    script = (
        "import sys; from pathlib import Path; from lcm_plugin.store.waiting import WaitingFile\n"
        f"file = WaitingFile(Path({str(host.file)!r})); print(file.claim(file.oldest({KEY.key!r}), (0, 1)), flush=True)\n"
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        host.say(user("two"))
        assert host.stored() == []
        other.kill()
        other.wait()
    host.say(user("three"))
    assert [m["content"] for m in host.stored()] == ["one", "two", "three"]
    host.plugin.close()


def test_a_damaged_file_is_set_aside_and_holds_up_nothing(tmp_path: Path) -> None:
    (tmp_path / "lcm.db.waiting").write_bytes(os.urandom(8_192))
    host = Host(tmp_path)
    assert host.say(user("one")) is not None
    assert host.stored() == [user("one")]
    assert [path.name.rpartition("-")[0] for path in tmp_path.glob("*.waiting.*")] == [
        "lcm.db.waiting.damaged"
    ]
    host.plugin.close()


def test_what_waits_is_bounded_and_what_is_beyond_is_refused_by_name(
    tmp_path: Path, failing: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "MOST_BYTES", 1_000)
    monkeypatch.setattr("lcm_plugin.ingest.recorder.WaitingFile", lambda path: WaitingFile(path, 0))
    host = Host(tmp_path)
    failing(StoreUnavailable("away"))
    for number in range(4):
        host.say(user(f"{number} " + "x" * 400))
    assert host.names().count("ingest.refused") == 2
    failing(None)
    host.say(user("end"))
    assert [m["content"][0] for m in host.stored()] == ["0", "1", "e"]
    host.plugin.close()


def test_order_is_kept_when_only_some_of_it_fits_into_the_file(
    tmp_path: Path, failing: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fits, add = [True], WaitingFile.add

    def sometimes(self: WaitingFile, *given: Any) -> None:
        if not fits[0]:
            raise StoreUnavailable("the disk is full")
        add(self, *given)

    monkeypatch.setattr(WaitingFile, "add", sometimes)
    host = Host(tmp_path)
    failing(StoreUnavailable("away"))
    for number, fit in enumerate([True, False, False, True, False]):
        fits[0] = fit
        host.say(user(str(number)))
    failing(None)
    host.say(user("5"))
    assert [m["content"] for m in host.stored()] == list("012345")
    host.plugin.close()
