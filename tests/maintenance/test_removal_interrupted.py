"""Removing beside hosts that write, and when it is killed: nothing else is lost, and it can be done again."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from databases import FreshDatabase, open_raw
from fakes.processes import piped
from messages import assistant, user

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.errors import StoreBusy
from lcm_plugin.maintenance.file_checks import FileChecks
from lcm_plugin.maintenance.redaction.targets import MatchingTexts
from lcm_plugin.maintenance.selection import LaneKind, Selection
from lcm_plugin.store.records import FileRecord

pytestmark = pytest.mark.both_stores_under_ci

SECRET = "sk-Zq81xW77aaPQ"
CHILD = Path(__file__).with_name("prune_child.py")
LIVE = Session("agent:main:live", "run-1")
ARCHIVED = Selection(older_than_ms=0, kinds=frozenset({LaneKind.ARCHIVED}))


def fill(database: str) -> Engine:
    engine = Engine.open(
        LcmConfig(
            database=database,
            fresh_tail_count=2,
            leaf_chunk_tokens=300,
            leaf_min_fanout=2,
            large_file_token_threshold=1_000,
        )
    )
    for number in range(3):
        lane = Session(f"agent:main:lane{number}", "r")
        talk = [
            turn
            for n in range(40)
            for turn in (user(f"{n} of {number}: {SECRET} " + "so on " * 30), assistant(f"yes {n} " * 20))
        ]
        engine.ingest(lane, talk)
        engine.compact(lane, force=True)
        engine.reset_session(lane)
    engine.ingest(LIVE, [user("the live lane " * 20), assistant("goes on")])
    engine.call_tool(LIVE, "lcm_grep", {"pattern": "live"})
    return engine


def errors(engine: Engine) -> list[str]:
    return [finding.message for finding in engine.check().findings if finding.severity == "error"]


def everything_in(database: str) -> bytes:
    """All that a database holds, as bytes: the files of its folder, or the rows of its tables."""
    if "://" not in database:
        return b"".join(path.read_bytes() for path in Path(database).parent.rglob("*") if path.is_file())
    raw = open_raw(database)
    tables = raw.rows("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
    rows = [row for (table,) in tables for row in raw.rows(f"SELECT t::text FROM {table} t")]  # noqa: S608
    raw.close()
    return str(rows).encode()


def was_killed(database: str, what: str, after_s: float) -> bool:
    """Begins a removal in another process and kills it; false when it was faster."""
    with piped(CHILD, database, what) as (child, printed):
        assert printed.readline() == "ready\n"
        time.sleep(after_s)
        child.send_signal(signal.SIGKILL)
        return "done" not in printed.read()


@pytest.mark.long
@pytest.mark.parametrize("what", ["prune", "redact"])
def test_a_killed_removal_leaves_a_whole_database_and_can_be_done_again(
    fresh_database: FreshDatabase, what: str
) -> None:
    chance = random.Random(what)
    for tries in range(1, 16):
        with fresh_database() as database:
            with fill(database) as engine:
                config, before = engine.config, engine.messages(LIVE)
            killed = 0
            while killed < 2 and was_killed(database, what, chance.uniform(0.0, 0.12 / tries)):
                killed += 1
                with Engine.open(config) as again:
                    assert errors(again) == []
                    assert again.messages(LIVE) == before
            if killed == 2:
                with Engine.open(config) as again:
                    remove_what_is_left(again, what)
                    assert errors(again) == []
                    assert again.messages(LIVE) == before
                assert SECRET.encode() not in everything_in(database)
                return
    pytest.fail("every removal was done before it could be killed")


def remove_what_is_left(engine: Engine, what: str) -> None:
    if what == "prune":
        engine.retention.apply(engine.retention.plan(ARCHIVED), "a person")
        assert [c.session_key for c in engine.library.conversations() if c.message_count] == [LIVE.key]
    else:
        target = MatchingTexts.of_text(SECRET)
        engine.redaction(engine.store).apply(target, "a person")
        assert not engine.redaction(engine.store).look(target).anything


@pytest.mark.long
def test_hosts_store_and_read_all_the_while(fresh_database: FreshDatabase) -> None:
    with fresh_database() as database, fill(database) as engine, Engine.open(engine.config) as host:
        removes_beside_a_host(engine, host)


def removes_beside_a_host(engine: Engine, host: Engine) -> None:
    failed: list[BaseException] = []
    over = threading.Event()
    stored = 0

    def talk() -> None:
        nonlocal stored
        try:
            while not over.is_set() and stored < 400:
                host.ingest(LIVE, [user(f"more {stored} " * 5), assistant(f"well {stored}")])
                stored += 1
                host.assemble(LIVE, 2_000)
        except BaseException as error:  # noqa: BLE001 - told to the test's own thread
            failed.append(error)

    thread = threading.Thread(target=talk)
    thread.start()
    try:
        engine.redaction(engine.store).apply(MatchingTexts.of_text(SECRET), "a person")
        engine.retention.apply(engine.retention.plan(ARCHIVED), "a person")
    finally:
        over.set()
        thread.join()
    assert failed == []
    assert stored > 3
    assert len(engine.messages(LIVE)) == 2 + 2 * stored
    assert errors(engine) == []


@pytest.mark.long
def test_bytes_that_come_again_while_they_are_removed_are_never_missing(
    database_named: Callable[[str], str],
) -> None:
    config = LcmConfig(database=database_named("lcm"), large_file_token_threshold=1_000)
    long = "\n".join(f"line {n} of a long text" for n in range(500))
    with Engine.open(config) as host, Engine.open(config) as cleaner:
        over = threading.Event()

        def clean() -> None:
            while not over.is_set():
                cleaner.retention.apply(cleaner.retention.plan(ARCHIVED), "a person", give_back_space=False)

        thread = threading.Thread(target=clean)
        thread.start()
        try:
            for number in range(40):
                lane = Session(f"agent:main:lane{number % 3}")
                host.ingest(lane, [user(long), assistant(f"{number}")])
                assert host.messages(lane)[0]["content"] == long
                host.reset_session(lane)
            host.ingest(LIVE, [user(long)])
        finally:
            over.set()
            thread.join()
        assert host.messages(LIVE)[0]["content"] == long
        assert errors(host) == []


def test_a_payload_that_is_removed_while_a_check_looks_at_it_is_no_finding(
    open_engine: Callable[..., Engine],
) -> None:
    engine = open_engine(large_file_token_threshold=1_000)
    long = "\n".join(f"line {n} of a long text" for n in range(500))
    engine.ingest(LIVE, [user(long), assistant("read")])
    engine.reset_session(LIVE)
    asked = 0

    def removes_after_the_records_were_read() -> bool:
        nonlocal asked
        asked += 1
        if asked == 2:
            outcome = engine.retention.apply(engine.retention.plan(ARCHIVED), "a person")
            assert outcome.files == 1
        return False

    checks = FileChecks(engine.store, engine.payloads)
    assert list(checks.records(1, removes_after_the_records_were_read)) == []
    assert asked > 2


def test_bytes_that_a_turn_is_about_to_refer_to_again_are_not_removed_under_it(
    open_engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    host = open_engine(large_file_token_threshold=1_000)
    cleaner = open_engine(large_file_token_threshold=1_000, busy_timeout_ms=50)
    long = "\n".join(f"line {n} of a long text" for n in range(500))
    host.ingest(LIVE, [user(long), assistant("read")])
    host.reset_session(LIVE)
    plan, holds, refused = cleaner.retention.plan(ARCHIVED), host.payloads.holds, []

    def removes_within_the_turn(records: Sequence[FileRecord]) -> bool:
        with pytest.raises(StoreBusy) as caught:
            cleaner.retention.apply(plan, "a person")
        refused.append(caught.value)
        return holds(records)

    monkeypatch.setattr(host.payloads, "holds", removes_within_the_turn)
    host.ingest(LIVE, [user(long), assistant("read again")])
    assert refused
    assert host.messages(LIVE)[0]["content"] == long
    cleaner.retention.apply(cleaner.retention.plan(ARCHIVED), "a person")
    assert host.messages(LIVE)[0]["content"] == long
    assert errors(host) == []
