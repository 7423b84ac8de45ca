"""Every hot path reads PostgreSQL through an index, and reads little, however long the history is.

The statements are those that the code sends, and the plans those that the server carried out for them.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Literal

import large_history
import psycopg
import pytest
from effort import FULL
from messages import assistant, call, result, user
from plan_log import Plan, PlanLog, explaining

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.maps.source import MapSource
from lcm_plugin.plugin import LcmPlugin
from lcm_plugin.store.postgres.store import PostgresStore
from lcm_plugin.store.postgres.watchdog import WatchedConnection
from lcm_plugin.store.search import Clause, Filter, WordQuery
from lcm_plugin.store.tables import conversations
from lcm_plugin.types import Turn

NOW = 1_780_000_000_000
MAIN, SMALL = Session(large_history.KEY, "run-0"), Session(large_history.SMALL_KEY, "run-7")
# A page of items or candidates with what stands round them; a tenth of what a scan of the history would read.
MOST_ROWS = 2_500
LARGE_TABLE = 2_000
# What is counted as a whole, one row for dozens of messages: conversations and summaries.
COUNTED = (
    "SELECT count(*), count(*) FILTER (WHERE active), CAST(coalesce(sum(message_count), 0) AS bigint), "
    "max(updated_at) FROM conversations",
    "SELECT depth, count(*) FROM summaries ",
    "SELECT count(*) FROM summaries ",
    "SELECT model, level, count(*), CAST(sum(source_tokens) AS bigint)",
    "SELECT conversation_id, session_key FROM conversations WHERE session_key ~>=~ ",
    "SELECT session_key, max(conversation_id) FROM conversations WHERE session_key ~>=~ ",
    f"{conversations.SELECT} WHERE conversation_id > ",
)


@pytest.fixture(scope="module")
def history(postgres_server: str) -> str:
    """The URL of a schema with a large history, on a server that tells its plans."""
    with psycopg.connect(postgres_server) as connection:
        try:
            connection.execute("LOAD 'auto_explain'")
        except psycopg.errors.UndefinedFile:
            if FULL:
                raise
            pytest.skip("this server has no auto_explain (postgresql-contrib)")
    url = f"{postgres_server}{'&' if '?' in postgres_server else '?'}schema=plans_{uuid.uuid4().hex[:8]}"
    PostgresStore(url).close()
    large_history.fill(url, NOW)
    return url


@pytest.fixture(scope="module")
def large_tables(history: str) -> set[str]:
    """The tables that a statement must not read as a whole."""
    plain, _, schema = history.rpartition("schema=")
    with psycopg.connect(plain.rstrip("&?")) as connection:
        rows = connection.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND reltuples > %s AND relnamespace = %s::regnamespace",
            (LARGE_TABLE, schema),
        )
        return {row[0] for row in rows}


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> PlanLog:
    """What the server tells of its plans."""
    log = PlanLog()
    begin = WatchedConnection.__init__

    def listening(connection: WatchedConnection, *args: Any, **more: Any) -> None:
        begin(connection, *args, **more)
        connection.add_notice_handler(log.hear)

    monkeypatch.setattr(WatchedConnection, "__init__", listening)
    return log


@pytest.fixture(params=["auto", "force_generic_plan"])
def engine(history: str, log: PlanLog, request: pytest.FixtureRequest) -> Iterator[Engine]:
    """An engine whose statements are planned for their values, or once for all values.

    Searches are always planned for the words they look for, so the second one recalls nothing by itself.
    """
    url = explaining(history, plan_cache_mode=request.param)
    recall: Literal["on", "off"] = "on" if request.param == "auto" else "off"
    config = LcmConfig(database=url, recall_scope="all", active_recall=recall)
    with Engine.open(config, clock=lambda: NOW) as engine:
        yield engine
        engine.wait_idle(60)


def _turn(engine: Engine) -> None:
    plugin, name = LcmPlugin(engine=engine), uuid.uuid4().hex
    asked = user(f"please look at {name}", id=f"host-{name}")
    plugin.before_turn(Turn(MAIN, [asked], mode="append", window=100_000))
    rest = [call(f"call_{name}"), result(f"call_{name}", f"here is {name}"), assistant(f"{name} is done")]
    plugin.after_turn(Turn(MAIN, rest, mode="append", window=100_000))
    engine.wait_idle(60)


def _asking(engine: Engine, text: str) -> None:
    context = LcmPlugin(engine=engine).before_turn(Turn(MAIN, [user(text)], mode="append", window=100_000))
    assert context is not None
    assert context.recalled


def _whole_list(engine: Engine) -> None:
    plugin = LcmPlugin(engine=engine)
    shown = [*engine.assemble(MAIN, 5_000).messages, user(f"and {uuid.uuid4().hex}")]
    plugin.before_turn(Turn(MAIN, shown, mode="sync", window=100_000))


def _compaction(engine: Engine) -> None:
    engine.ingest(MAIN, [user(f"{uuid.uuid4().hex} and on it goes with common work") for _ in range(100)])
    assert engine.compact(MAIN, force=True, budget=20_000).passes


def _grep(**arguments: Any) -> Callable[[Engine], None]:
    def search(engine: Engine) -> None:
        answer = engine.call_tool(MAIN, "lcm_grep", {"limit": 20, **arguments})
        assert "error" not in answer, answer

    return search


def _tool(name: str, **arguments: Any) -> Callable[[Engine], None]:
    def run(engine: Engine) -> None:
        answer = engine.call_tool(MAIN, name, arguments)
        assert "error" not in answer, answer

    return run


def _session_switch(engine: Engine) -> None:
    lane = Session("agent:main:lane-21", f"run-{uuid.uuid4().hex}")
    engine.ingest(lane, [user("a new run")])
    engine.new_session(lane)
    engine.undo_new(lane)
    engine.reset_session(lane)
    engine.end_session(lane, "deleted")


def _share(engine: Engine) -> None:
    with engine.store.read() as reader:
        assert 0.3 < reader.document_shares("message", [Clause("word", "common")], Filter((1,)))[0] < 0.9


def _by_host_id(engine: Engine) -> None:
    with engine.store.read() as reader:
        assert reader.heads_with_host_ids(1, ["host-9000", "host-9001"])
        assert reader.conversation_holding(large_history.KEY, "host-9000")
        assert reader.conversation_of_run(MAIN)
        assert reader.session_key_of("run-0") == large_history.KEY
        assert reader.users_within(1, [(100, 200), (15_000, 15_100)])


def _worker(engine: Engine) -> None:
    engine.integrity_jobs.request(8, "asked")
    engine.work(threading.Event(), until_idle=True)
    engine.integrity_jobs.finished()


HOT: dict[str, Callable[[Engine], object]] = {
    "turn": _turn,
    "the host's whole list": _whole_list,
    "assembly": lambda engine: engine.assemble(MAIN, 50_000),
    "compaction": _compaction,
    "session switch": _session_switch,
    "describe": _tool(
        "lcm_describe", id="msg_9000, sum_0000000000000009, sum_0000000002000003, file_0000000000000032"
    ),
    "expand": _tool("lcm_expand", summary_ids=["sum_0000000002000003"], depth=2),
    "share of a common word": _share,
    "message by the host's id": _by_host_id,
    "status": lambda engine: engine.command(MAIN, "/lcm status"),
    "worker": _worker,
    "check of one conversation": lambda engine: engine.check(SMALL),
}
SEARCHES: dict[str, Callable[[Engine], object]] = {
    "rare word": _grep(pattern="zebrafish"),
    "no such word": _grep(pattern="qwertzuiop", scope="both"),
    "phrase": _grep(pattern='"zebrafish my-lamp"'),
    "newest of a common word": _grep(pattern="common", sort="recency"),
    "rare word everywhere": _grep(pattern="zebrafish", all_conversations=True, scope="both"),
    "rare word of a small lane among large ones": lambda engine: engine.call_tool(
        SMALL, "lcm_grep", {"pattern": "common turn"}
    ),
    "question": _grep(pattern="what did the zebrafish and my-lamp do?"),
    "rare word in a time": _grep(pattern="zebrafish", since="3d", before="2d"),
    "rare word of a role and a tool": _grep(pattern="zebrafish", roles=["tool"], tool_name="shell"),
    "identifier": _grep(pattern="my-lamp"),
    "recall by itself": lambda engine: _asking(engine, "what did the zebrafish and my-lamp do in common?"),
    "Chinese": _grep(pattern="静默模式"),
    "short Chinese": _grep(pattern="静默"),
    "regex with a rare literal": _grep(pattern=r"zebra\w+ my", mode="regex"),
    "regex with an absent literal": _grep(pattern=r"qwertz\d", mode="regex", scope="both"),
    "regex with a choice": _grep(pattern=r"(zebrafish|静默模式).*[a-z]", mode="regex"),
    "regex with a common literal": _grep(pattern="common [q-z]", mode="regex"),
    "regex everywhere": _grep(pattern="zebrafish my", mode="regex", all_conversations=True),
    "regex in a time": _grep(pattern="zebrafish my", mode="regex", since="3d", before="2d"),
}


@pytest.mark.long
@pytest.mark.parametrize("path", HOT)
def test_a_hot_path_reads_through_an_index_and_little(
    engine: Engine, log: PlanLog, large_tables: set[str], path: str
) -> None:
    _require_short(log.of(lambda: HOT[path](engine)), large_tables)


@pytest.mark.parametrize("engine", ["auto"], indirect=True)
@pytest.mark.parametrize("path", SEARCHES)
def test_a_search_reads_through_an_index_and_little(
    engine: Engine, log: PlanLog, large_tables: set[str], path: str
) -> None:
    _require_short(log.of(lambda: SEARCHES[path](engine)), large_tables)


def test_a_map_is_worked_off_through_its_indexes(engine: Engine, log: PlanLog) -> None:
    with Engine.open(engine.config, lambda request: "true", clock=lambda: NOW) as working:
        items = MapSource(items=[("first", uuid.uuid4().hex), ("second", uuid.uuid4().hex)])
        record = working.maps.create(MAIN, items, "Yes?", {"type": "boolean"})
        with working.store.write() as writer:
            # What nobody has asked about, beside two that will be.
            writer.db.execute(
                b"INSERT INTO map_items (map_id, place, conversation_id, ref, content, item_key, tokens, state) "
                b"SELECT map_id, place + n, conversation_id, ref, content, item_key || n, tokens, state "
                b"FROM map_items, generate_series(1, 5000) AS n WHERE map_id = %s AND place = 2",
                [record.map_id],
            )
        done = list[int]()
        plans = log.of(
            lambda: working.maps.run(
                record.map_id, stop=lambda: len(done) > 3, progress=lambda one: done.append(one.done)
            )
        )
    assert max(done) > 1
    _require_short(plans, {"map_items"})


def _require_short(plans: list[Plan], large_tables: set[str]) -> None:
    assert plans
    judged = [plan for plan in plans if not plan.text.startswith(COUNTED)]
    faults = [fault for plan in judged for fault in plan.faults(large_tables, MOST_ROWS)]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("engine", ["auto"], indirect=True)
@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ("SELECT message_id FROM message_parts WHERE text LIKE '%x'", "reads all of message_parts"),
        ("SELECT seq FROM messages WHERE conversation_id = 1 ORDER BY tokens, seq LIMIT 1", "sorts"),
        ("SELECT max(tokens) FROM context_items WHERE conversation_id > 0", "context_items"),
    ],
)
def test_what_reads_too_much_is_told(
    engine: Engine, log: PlanLog, large_tables: set[str], statement: str, fault: str
) -> None:
    def read() -> None:
        with engine.store.read() as reader:
            reader.db.execute(statement.encode()).fetchall()

    found = [told for plan in log.of(read) for told in plan.faults(large_tables, MOST_ROWS)]
    assert any(fault in told for told in found)


@pytest.mark.parametrize("engine", ["auto"], indirect=True)
def test_the_last_resets_are_read_from_their_index_alone(
    engine: Engine, log: PlanLog, large_tables: set[str]
) -> None:
    def read() -> None:
        with engine.store.read() as reader:
            assert len(reader.last_resets("agent:other:")) > LARGE_TABLE

    [plan] = [plan for plan in log.of(read) if "max(conversation_id)" in plan.text]
    assert plan.faults(large_tables, 1 << 30) == []


@pytest.mark.parametrize("engine", ["auto"], indirect=True)
def test_a_word_that_no_row_holds_is_looked_for_by_the_word_and_not_row_by_row(
    engine: Engine, log: PlanLog
) -> None:
    absent = WordQuery((Clause("word", "qwertzuiop"),))

    def ask() -> None:
        with engine.store.read() as reader:
            newest = Filter(None, up_to_id=reader.newest_row("message"))
            assert reader.count_words("message", absent, newest, 1) == 0
            assert reader.find_words("message", absent, newest, order="recency", limit=1) == []

    plans = [plan for plan in log.of(ask) if "words @@" in plan.text]
    assert len(plans) == 2
    for plan in plans:
        assert "message_parts_words" in {node.get("Index Name") for node in plan.nodes()}, plan.text
        # In a long table the planner would do otherwise, did it know that one row is enough.
        assert "OFFSET 0" in plan.text or "AS MATERIALIZED" in plan.text
