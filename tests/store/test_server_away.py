"""A PostgreSQL server that restarts, ends sessions, freezes or is cut off: turns go on, nothing is lost or doubled."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from invariants import assert_sound
from messages import assistant, user
from postgres_server import PostgresServer
from tcp_proxy import TcpProxy
from waiting import eventually

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.compaction.leases import CompactionLease
from lcm_plugin.errors import ConnectionLost, ServerAway, StoreBusy
from lcm_plugin.plugin import LcmPlugin
from lcm_plugin.store.postgres.commit_status import INCARNATION, Outcome, ask_outcome
from lcm_plugin.store.postgres.store import PostgresStore
from lcm_plugin.types import Message, Reason, Turn

BUSY_MS = 400
LONGEST_HOOK_S = 6.0
CUT_STEP = 4


@pytest.fixture(autouse=True)
def quick_to_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server is waited for as long as a lock, and an answer a little longer."""
    monkeypatch.setattr("lcm_plugin.store.postgres.connection._LEAST_WAIT_S", 0.1)
    monkeypatch.setattr("lcm_plugin.store.postgres.connect_options._BEYOND_LOCKS_S", 0.2)
    monkeypatch.setattr("lcm_plugin.store.postgres.server_health._LONGEST_BELIEF_S", 0.3)
    monkeypatch.setattr("lcm_plugin.store.postgres.watchdog._LOOK_EVERY_S", 0.2)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer(tcp=True) as running:
        yield running


@pytest.fixture
def proxy(server: PostgresServer) -> Iterator[TcpProxy]:
    assert server.port is not None
    between = TcpProxy(server.port)
    yield between
    between.close()


@pytest.fixture(scope="module")
def schema(server: PostgresServer) -> str:
    PostgresStore(f"{server.url}&schema=lcm_away").close()
    return "lcm_away"


@pytest.fixture
def direct(server: PostgresServer, schema: str) -> str:
    """The database itself."""
    return f"{server.url}&schema={schema}"


@pytest.fixture
def through(server: PostgresServer, proxy: TcpProxy, schema: str) -> str:
    """The database behind the proxy."""
    return f"{server.tcp_url().replace(str(server.port), str(proxy.port))}&schema={schema}"


@pytest.fixture
def lane() -> Session:
    """A session of which the database knows nothing yet."""
    return Session(f"agent:main:{uuid.uuid4().hex}", "run-1")


@pytest.fixture
def administrator(server: PostgresServer) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    with psycopg.connect(server.url, autocommit=True) as connection:
        yield connection


class Host:
    """A host that hands its turns over as deltas, and what it was told of failures."""

    def __init__(self, url: str, lane: Session) -> None:
        self.lane = lane
        self.plugin = LcmPlugin(LcmConfig(database=url, busy_timeout_ms=BUSY_MS))
        self.said: list[Message] = []

    def turn(self, number: int) -> Any:
        """One turn through both hooks, each within its time; what ``before_turn`` gave."""
        context = self._hook(self.plugin.before_turn, user(f"question {number}"))
        self._hook(self.plugin.after_turn, assistant(f"answer {number}"))
        return context

    def _hook(self, hook: Callable[[Turn], Any], message: Message) -> Any:
        self.said.append(message)
        begun = time.monotonic()
        answer = hook(Turn(self.lane, [message], mode="append", window=32_000))
        assert time.monotonic() - begun < LONGEST_HOOK_S
        return answer

    def stored(self) -> list[Message]:
        return self.plugin.engine.messages(self.lane)


@pytest.fixture
def open_host(lane: Session) -> Iterator[Callable[[str], Host]]:
    hosts: list[Host] = []

    def open_one(url: str) -> Host:
        hosts.append(Host(url, lane))
        return hosts[-1]

    yield open_one
    for host in hosts:
        host.plugin.close()


@pytest.fixture
def open_engine() -> Iterator[Callable[[str], Engine]]:
    engines: list[Engine] = []

    def open_one(url: str) -> Engine:
        engines.append(Engine.open(LcmConfig(database=url, busy_timeout_ms=BUSY_MS)))
        return engines[-1]

    yield open_one
    for engine in engines:
        engine.close()


def failures_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the host's log says of failed hooks."""
    return [record.getMessage() for record in caplog.records if " failed for session" in record.getMessage()]


@contextmanager
def held_up(url: str, schema: str, table: str) -> Iterator[None]:
    """While it is open nobody can read or write a table."""
    with psycopg.connect(url.partition("&schema=")[0]) as connection:
        connection.execute(f'LOCK TABLE "{schema}".{table}'.encode())
        yield


def waiting_for_lock(administrator: psycopg.Connection[tuple[Any, ...]]) -> int | None:
    """The session that waits for a lock."""
    row = administrator.execute(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'lcm' AND wait_event_type = 'Lock'"
    ).fetchone()
    return row[0] if row else None


@pytest.mark.long
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restart_between_turns_is_not_noticed(
    server: PostgresServer,
    direct: str,
    open_host: Callable[[str], Host],
    caplog: pytest.LogCaptureFixture,
    mode: str,
) -> None:
    host = open_host(direct)
    host.turn(1)
    server.restart(mode)
    host.turn(2)
    assert host.stored() == host.said
    assert not failures_in(caplog)
    assert_sound(direct)


def test_sessions_that_an_administrator_ended_while_idle_are_replaced(
    direct: str,
    open_host: Callable[[str], Host],
    administrator: psycopg.Connection[tuple[Any, ...]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    host = open_host(direct)
    host.turn(1)
    ended = administrator.execute(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'lcm'"
    ).fetchone()
    assert ended is not None
    assert ended[0] > 0
    host.turn(2)
    assert host.stored() == host.said
    assert not failures_in(caplog)


def test_a_session_that_is_ended_while_it_writes_is_run_again(
    direct: str,
    schema: str,
    open_host: Callable[[str], Host],
    administrator: psycopg.Connection[tuple[Any, ...]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    host = open_host(direct)
    host.turn(1)
    with held_up(direct, schema, "messages"):
        turn = threading.Thread(target=host.turn, args=(2,))
        turn.start()
        first = eventually(lambda: waiting_for_lock(administrator))
        administrator.execute("SELECT pg_terminate_backend(%s)", (first,))
        eventually(lambda: waiting_for_lock(administrator) not in (None, first))
    turn.join(LONGEST_HOOK_S)
    assert host.stored() == host.said
    assert not failures_in(caplog)
    assert_sound(direct)


def test_a_session_that_is_ended_while_a_context_is_read_is_read_again(
    direct: str,
    schema: str,
    open_host: Callable[[str], Host],
    administrator: psycopg.Connection[tuple[Any, ...]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    host = open_host(direct)
    host.turn(1)
    contexts: list[Any] = []
    history = [*host.said, user("what now?")]
    with held_up(direct, schema, "summaries"):
        asked = Turn(host.lane, history, window=32_000)
        turn = threading.Thread(target=lambda: contexts.append(host.plugin.before_turn(asked)))
        turn.start()
        first = eventually(lambda: waiting_for_lock(administrator))
        administrator.execute("SELECT pg_terminate_backend(%s)", (first,))
        eventually(lambda: waiting_for_lock(administrator) not in (None, first))
    turn.join(LONGEST_HOOK_S)
    assert contexts[0].messages == history
    assert host.stored() == history
    assert not failures_in(caplog)


@pytest.mark.long
def test_a_worker_outlives_the_server(
    lane: Session, server: PostgresServer, direct: str, open_engine: Callable[[str], Engine]
) -> None:
    engine, stop = open_engine(direct), threading.Event()
    reports: list[Any] = []
    worker = threading.Thread(target=lambda: reports.append(engine.work(stop, poll_seconds=0.05)))
    worker.start()
    server.stop()
    try:
        with pytest.raises(ServerAway):
            engine.work(threading.Event(), until_idle=True)
        assert worker.is_alive()
    finally:
        server.start()
    engine.ingest(lane, [make(f"word {number} " * 300) for number in range(60) for make in (user, assistant)])
    with engine.store.write() as writer:
        conversation = writer.find_conversation(lane)
        assert conversation is not None
        writer.request_compaction(conversation.conversation_id, "test", None, now_ms())
    eventually(lambda: debt_state(engine, conversation.conversation_id) == "done")
    stop.set()
    worker.join(60)
    assert reports[0].passes > 0


def debt_state(engine: Engine, conversation_id: int) -> str | None:
    with engine.store.read() as reader:
        debt = reader.debt(conversation_id)
        return debt.state if debt else None


@pytest.mark.long
def test_while_the_server_is_down_the_host_goes_on_and_all_is_stored_once_it_is_back(
    server: PostgresServer, direct: str, open_host: Callable[[str], Host], caplog: pytest.LogCaptureFixture
) -> None:
    host = open_host(direct)
    host.turn(1)
    server.stop()
    begun = time.monotonic()
    try:
        for number in (2, 3, 4):
            assert host.turn(number) is None
    finally:
        server.start()
    assert time.monotonic() - begun < LONGEST_HOOK_S, "only the first hook waits"
    told = failures_in(caplog)
    assert len(told) == 6
    assert all("ServerAway" in one and "cannot be reached" in one for one in told), told
    assert not [record for record in caplog.records if record.name.startswith("psycopg")]
    assert len(host.turn(5).messages) == 9
    assert host.stored() == host.said
    assert_sound(direct)


def test_a_host_that_hands_over_its_whole_list_gets_it_back_while_the_server_is_down(
    lane: Session, server: PostgresServer, direct: str, open_host: Callable[[str], Host]
) -> None:
    plugin = open_host(direct).plugin
    history = [user("one")]
    plugin.before_turn(Turn(lane, history, window=32_000))
    server.stop()
    history = [*history, assistant("uno"), user("two")]
    try:
        context = plugin.before_turn(Turn(lane, history, window=32_000))
    finally:
        server.start()
    assert context is not None
    assert context.messages == history
    history.append(assistant("due"))
    plugin.after_turn(Turn(lane, history, window=32_000))
    assert plugin.engine.messages(lane) == history


@pytest.mark.long
def test_a_server_that_freezes_does_not_hold_a_turn_up(
    through: str,
    direct: str,
    proxy: TcpProxy,
    open_host: Callable[[str], Host],
    caplog: pytest.LogCaptureFixture,
) -> None:
    host = open_host(through)
    host.turn(1)
    proxy.freeze()
    host.turn(2)
    assert "no answer for" in failures_in(caplog)[0]
    proxy.thaw()
    numbers = itertools.count(3)  # what took long to find out is believed for a while
    eventually(lambda: host.turn(next(numbers)) is not None)
    assert host.stored() == host.said
    assert_sound(direct)


def test_a_slow_answer_is_waited_for(
    direct: str,
) -> None:
    store = PostgresStore(direct, busy_timeout_ms=100)
    try:
        with store.read() as reader:
            # Longer than twice the time after which it looks whether anybody is there.
            assert reader.db.execute("SELECT 1 FROM pg_sleep(0.7)").fetchone() == (1,)
    finally:
        store.close()


def test_a_server_that_takes_no_more_connections_is_not_taken_for_gone(
    server: PostgresServer, schema: str, administrator: psycopg.Connection[tuple[Any, ...]]
) -> None:
    administrator.execute("CREATE ROLE single LOGIN CONNECTION LIMIT 1")
    administrator.execute(f'GRANT ALL ON SCHEMA "{schema}" TO single'.encode())
    administrator.execute(f'GRANT ALL ON ALL TABLES IN SCHEMA "{schema}" TO single'.encode())
    store = PostgresStore(f"{server.tcp_url('single')}&schema={schema}", busy_timeout_ms=BUSY_MS)
    try:
        with store.read() as reader:
            assert reader.db.execute("SELECT 1 FROM pg_sleep(1)").fetchone() == (1,)
    finally:
        store.close()


@pytest.mark.long
@pytest.mark.parametrize("arrives", [True, False])
def test_a_connection_that_is_cut_at_any_request_of_a_turn_loses_and_doubles_nothing(
    through: str,
    direct: str,
    proxy: TcpProxy,
    open_host: Callable[[str], Host],
    caplog: pytest.LogCaptureFixture,
    arrives: bool,
) -> None:
    host = open_host(through)
    host.turn(0)
    nth = 1
    while True:
        proxy.cut_at(nth, arrives=arrives)
        host.turn(nth)
        if proxy.cancel_cut():
            break
        nth += CUT_STEP
    assert nth > 30, "a turn has more requests than that"
    assert not failures_in(caplog)
    assert host.stored() == host.said
    assert_sound(direct)


@pytest.mark.parametrize("fate", ["unanswered", "silent", "lost"])
def test_a_commit_whose_answer_never_comes_is_neither_lost_nor_doubled(
    lane: Session, through: str, direct: str, proxy: TcpProxy, open_engine: Callable[[str], Engine], fate: Any
) -> None:
    engine = open_engine(through)
    said = [user("ok"), assistant("good")]
    engine.ingest(lane, said)
    proxy.commit_after(1, fate)
    report = engine.ingest(lane, said)
    assert proxy.commit == "answered"
    assert (report.stored, report.skipped) == (2, 0)
    assert engine.messages(lane) == said * 2
    assert_sound(direct)


def test_a_transaction_costs_two_exchanges_beside_its_own(through: str, proxy: TcpProxy) -> None:
    store = PostgresStore(through, busy_timeout_ms=BUSY_MS)
    try:
        for transaction in (store.read, store.write):
            for _ in range(2):  # the first may make a connection
                before = proxy.requests
                with transaction() as handle:
                    assert handle.guard("none") is None
            assert proxy.requests - before == 3
    finally:
        store.close()


@pytest.mark.parametrize("fate", ["unanswered", "lost"])
def test_a_commit_that_nobody_can_tell_about_is_looked_for_later(
    lane: Session, through: str, direct: str, proxy: TcpProxy, open_engine: Callable[[str], Engine], fate: Any
) -> None:
    engine = open_engine(through)
    said = [user("ok"), assistant("good")]
    engine.ingest(lane, said)
    proxy.commit_after(1, fate)
    proxy.then_refuse = True
    with pytest.raises(ServerAway):
        engine.ingest(lane, said)
    proxy.mend()
    # The host hands it over again, with what came after.
    assert engine.ingest(lane, [*said, user("and now?")]).stored == 3
    assert engine.messages(lane) == [*said, *said, user("and now?")]
    assert engine.ingest(lane, [assistant("nothing"), *said]).stored == 3, "alike, and new"
    assert_sound(direct)


def test_large_files_are_kept_once_when_the_commit_is_not_answered(
    lane: Session, through: str, direct: str, proxy: TcpProxy, open_engine: Callable[[str], Engine]
) -> None:
    engine = open_engine(through)
    message = user("".join(f"line {number} of a long file\n" for number in range(20_000)))
    proxy.commit_after(2, "unanswered")
    engine.ingest(lane, [message])
    assert proxy.commit == "answered"
    assert engine.messages(lane) == [message]
    with engine.store.read() as reader:
        (file,) = reader.files(reader.lane(lane.key)[0].conversation_id)
        assert reader.blob(file.sha256) is not None


@pytest.mark.parametrize("fate", ["unanswered", "lost"])
def test_a_reset_whose_commit_is_not_answered_happens_once(
    lane: Session, through: str, direct: str, proxy: TcpProxy, open_engine: Callable[[str], Engine], fate: Any
) -> None:
    engine = open_engine(through)
    engine.ingest(lane, [user("before")])
    proxy.commit = fate
    archived = engine.reset_session(lane)
    assert archived is not None
    assert archived.message_count == 1
    with engine.store.read() as reader:
        assert [row.active for row in reader.lane(lane.key)] == [False, True]
    engine.ingest(lane, [user("after")])
    assert engine.messages(lane) == [user("after")]
    assert_sound(direct)


@pytest.mark.parametrize("fate", ["unanswered", "lost"])
def test_a_new_whose_commit_is_not_answered_happens_once_and_can_be_undone(
    lane: Session, through: str, direct: str, proxy: TcpProxy, open_engine: Callable[[str], Engine], fate: Any
) -> None:
    engine = open_engine(through)
    engine.ingest(lane, [user("one"), assistant("uno")])
    proxy.commit = fate
    assert engine.new_session(lane, 0).dropped_messages == 2
    assert engine.context_items(lane) == []
    assert engine.undo_new(lane) == 2
    assert len(engine.context_items(lane)) == 2
    assert_sound(direct)


@pytest.mark.long
@pytest.mark.parametrize("fate", ["unanswered", "lost"])
def test_a_compaction_whose_commits_are_not_answered_publishes_each_summary_once(
    lane: Session, through: str, direct: str, proxy: TcpProxy, fate: Any
) -> None:
    config = LcmConfig(
        database=through,
        busy_timeout_ms=BUSY_MS,
        fresh_tail_count=4,
        leaf_chunk_tokens=1_000,
        leaf_target_tokens=200,
    )
    with Engine.open(config) as engine:
        talk = [
            make(f"{number}: the harbour master wrote down ship {number} and its cargo of salt. " * 6)
            for number in range(20)
            for make in (user, assistant)
        ]
        engine.ingest(lane, talk)
        proxy.commit_every(4, fate)
        done = engine.compact(lane, force=True)
        proxy.commit_after(1, "answered")
        assert proxy.fates > 3
        assert done.compacted
        assert engine.messages(lane) == talk
        assert engine.compact(lane, force=True).reason != Reason.LOCKED, "the lease was given back"
    assert_sound(direct)


def test_a_lease_outlasts_a_server_that_is_away_for_a_moment(
    lane: Session, through: str, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lcm_plugin.compaction.leases.LEASE_MS", 3_000)
    store, conversation_id = store_with_conversation(through, lane)
    try:
        lease = CompactionLease.of(store, conversation_id, now_ms)
        assert lease is not None
        with lease:
            refused = proxy.refused
            proxy.cut()
            eventually(lambda: proxy.refused > refused or not lease.held)
            assert lease.held, "it has not run out"
            proxy.mend()
            with store.read() as reader:
                before = reader.debt(conversation_id)
            assert before is not None
            eventually(lambda: lease_until(store, conversation_id) > before.lease_until)
            assert lease.held
    finally:
        store.close()


def test_a_lease_that_cannot_be_renewed_is_lost_when_it_has_run_out(
    lane: Session, through: str, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lcm_plugin.compaction.leases.LEASE_MS", 600)
    store, conversation_id = store_with_conversation(through, lane)
    try:
        begun = time.monotonic()
        lease = CompactionLease.of(store, conversation_id, now_ms)
        assert lease is not None
        with lease:
            proxy.cut()
            eventually(lambda: not lease.held)
            assert time.monotonic() - begun > 0.5
    finally:
        store.close()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def store_with_conversation(url: str, lane: Session) -> tuple[PostgresStore, int]:
    store = PostgresStore(url, busy_timeout_ms=BUSY_MS)
    with store.write() as writer:
        return store, writer.open_conversation(lane, now_ms()).conversation_id


def lease_until(store: PostgresStore, conversation_id: int) -> int:
    with store.read() as reader:
        debt = reader.debt(conversation_id)
        return debt.lease_until if debt else 0


def test_giving_back_space_says_what_went_wrong_and_leaves_nothing_changed(
    direct: str, schema: str, administrator: psycopg.Connection[tuple[Any, ...]]
) -> None:
    store = PostgresStore(direct, busy_timeout_ms=BUSY_MS)
    problems: list[BaseException] = []

    def give_back() -> None:
        try:
            store.give_back_space(scrub=True)
        except ConnectionLost as error:
            problems.append(error)

    try:
        with held_up(direct, schema, "summaries"):
            work = threading.Thread(target=give_back)
            work.start()
            waiting = eventually(lambda: waiting_for_lock(administrator))
            administrator.execute("SELECT pg_terminate_backend(%s)", (waiting,))
            work.join(60)
            assert "terminating connection due to administrator command" in str(problems[0])
            with pytest.raises(StoreBusy, match="try again"):
                store.give_back_space(scrub=True)
        store.give_back_space(scrub=True)
        with store.read() as reader:
            assert reader.db.execute("SHOW statement_timeout").fetchone() == ("1min",)
    finally:
        store.close()


def test_the_server_says_how_a_transaction_ended(server: PostgresServer) -> None:
    def connect() -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(server.url, autocommit=True)

    with connect() as connection, connect() as other:

        def number_of(end: str) -> str:
            # One that wrote nothing is committed later than it says.
            row = connection.execute(
                "BEGIN; SELECT pg_logical_emit_message(true, 'test', 'written'); SELECT pg_current_xact_id()"
            )
            assert row.nextset()
            assert row.nextset()
            found = row.fetchone()
            connection.execute(end.encode())
            assert found
            return str(found[0])

        row = other.execute(INCARNATION).fetchone()
        assert row
        incarnation = row[0]
        committed, aborted, still_open = number_of("COMMIT"), number_of("ROLLBACK"), number_of("SELECT 1")
        assert ask_outcome(connect, committed, incarnation, 1) is Outcome.COMMITTED
        assert ask_outcome(connect, aborted, incarnation, 1) is Outcome.ABORTED
        assert ask_outcome(connect, str(int(still_open) + 1_000_000), incarnation, 1) is Outcome.ABORTED
        assert ask_outcome(connect, committed, "another start of the server", 1) is Outcome.UNKNOWN
        assert ask_outcome(connect, still_open, "another start of the server", 1) is Outcome.ABORTED
        assert connection.execute("SELECT 1").fetchone() == (1,), (
            "the number is somebody else's, who is let be"
        )
        assert ask_outcome(connect, still_open, incarnation, 1) is Outcome.ABORTED, "it was ended"
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    server.restart("immediate")
    with connect() as connection:
        assert connection.execute(INCARNATION).fetchone() != (incarnation,)
    assert ask_outcome(connect, committed, incarnation, 1) is Outcome.UNKNOWN
    assert ask_outcome(connect, aborted, incarnation, 1) is Outcome.ABORTED


def test_a_crash_of_one_session_counts_as_another_start(
    server: PostgresServer, administrator: psycopg.Connection[tuple[Any, ...]]
) -> None:
    before = administrator.execute(INCARNATION).fetchone()
    os.kill(administrator.info.backend_pid, signal.SIGKILL)

    def another_start() -> bool:
        try:
            with psycopg.connect(server.url) as connection:
                return connection.execute(INCARNATION).fetchone() != before  # the server may not know yet
        except psycopg.OperationalError:
            return False  # it is recovering

    eventually(another_start)
