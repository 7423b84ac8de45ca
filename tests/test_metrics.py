"""Metrics are what events add up to, in any registry, and can be scraped."""

from __future__ import annotations

import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from clock import Clock
from messages import assistant, user
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from lcm_plugin import Engine, LcmConfig, LcmPlugin, Session
from lcm_plugin.errors import ConfigError
from lcm_plugin.metrics import serve, watch

SMALL = {"fresh_tail_count": 2, "leaf_chunk_tokens": 300, "leaf_min_fanout": 2, "condensed_min_fanout": 2}


def values(registry: CollectorRegistry) -> dict[str, float]:
    """Every sample by name and labels, as a scrape reads it."""
    text = generate_latest(registry).decode()
    return {
        sample.name
        + "".join(f",{name}={value}" for name, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def busy(engine: Engine, session: Session) -> None:
    for number in range(16):
        engine.ingest(
            session,
            [user(f"question {number} " + "and so on " * 20), assistant(f"answer {number} " + "thus " * 30)],
        )
    engine.assemble(session)
    engine.compact(session, force=True)
    engine.call_tool(session, "lcm_grep", {"pattern": "question"})
    engine.call_tool(session, "lcm_describe", {"id": "msg_1"})
    engine.check()


def test_every_metric_counts_what_happened(open_engine: Callable[..., Engine], session: Session) -> None:
    engine, registry = open_engine(**SMALL), CollectorRegistry()
    watch(engine, registry)
    sent = []
    engine.subscribe(
        lambda event: sent.append(event.fields["tokens"]) if event.name == "assembly.done" else None
    )
    busy(engine, session)
    found = values(registry)
    with engine.store.read() as reader:
        depths = reader.summary_counts(1)
    assert found["lcm_context_tokens_total"] == sum(sent) > 1_000
    assert found["lcm_summaries_created_total,kind=leaf"] == depths[0] > 1
    assert found["lcm_summaries_created_total,kind=condensed"] == sum(depths.values()) - depths[0] > 0
    runs = {key: value for key, value in found.items() if key.startswith("lcm_compaction_runs_total")}
    assert runs == {"lcm_compaction_runs_total,trigger=manual,verdict=done": 1}
    assert found["lcm_search_latency_ms_count"] == 1
    assert found["lcm_expand_latency_ms_count,tool=lcm_describe"] == 1
    assert found["lcm_expand_latency_ms_sum,tool=lcm_describe"] > 0
    assert found["lcm_integrity_failures_total"] == 0


def test_integrity_errors_are_counted(open_engine: Callable[..., Engine], session: Session) -> None:
    engine, registry = open_engine(**SMALL), CollectorRegistry()
    watch(engine, registry)
    busy(engine, session)
    with engine.store.write() as writer:
        writer.db.execute("UPDATE conversations SET message_count = message_count + 1")  # type: ignore[attr-defined]
    report = engine.check()
    errors = sum(finding.severity == "error" for finding in report.findings)
    assert values(registry)["lcm_integrity_failures_total"] == errors > 0


def test_several_engines_count_in_one_registry_until_they_are_left_alone(
    open_engine: Callable[..., Engine], session: Session
) -> None:
    registry = CollectorRegistry()
    first, second = open_engine("a"), open_engine("b")
    ends = [watch(first, registry), watch(second, registry)]
    for engine in (first, second):
        engine.ingest(session, [user("hello"), assistant("yes")])
        engine.call_tool(session, "lcm_grep", {"pattern": "hello"})
    assert values(registry)["lcm_search_latency_ms_count"] == 2
    ends[0]()
    first.call_tool(session, "lcm_grep", {"pattern": "hello"})
    second.call_tool(session, "lcm_grep", {"pattern": "hello"})
    assert values(registry)["lcm_search_latency_ms_count"] == 3


def test_gauges_say_how_the_database_is_now(
    open_engine: Callable[..., Engine], session: Session, clock: Clock
) -> None:
    engine, registry = open_engine(**SMALL, autocompact_disabled=True), CollectorRegistry()
    unwatch = watch(engine, registry)
    engine.ingest(session, [user("hello"), assistant("yes " * 300)])
    calm = values(registry)
    assert calm["lcm_database_up"] == 1
    assert [calm[f"lcm_{name}"] for name in ("compaction_owed", "failing_hooks", "waiting_messages")] == [
        0,
        0,
        0,
    ]
    assert calm["lcm_last_error_timestamp_seconds"] == 0
    assert calm["lcm_last_stored_timestamp_seconds"] == clock.now / 1_000
    with engine.store.write() as writer:
        row = writer.find_conversation(session)
        assert row is not None
        room = engine.compaction.known_limits(writer, row).room
        writer.request_compaction(row.conversation_id, "over_threshold", None, clock.now)
        writer.save_guard("breaker:litellm:m", {"open_until": clock.now + 1})
        writer.save_guard("breaker:litellm:n", {"open_until": clock.now})
        writer.save_guard("spend:a", {"paused_until": clock.now + 1})
        lag = writer.index_state()
    assert calm["lcm_context_fullest_ratio"] == pytest.approx(row.context_tokens / room)
    engine.hook_health.failed("before_turn", session, "the disk is full")
    found = values(registry)
    assert (found["lcm_compaction_owed"], found["lcm_failing_hooks"]) == (1, 1)
    assert found["lcm_index_lag_rows"] == lag.message_lag + lag.summary_lag
    assert (found["lcm_guards_paused,kind=model"], found["lcm_guards_paused,kind=session"]) == (1, 1)
    assert found["lcm_last_error_timestamp_seconds"] == clock.now / 1_000
    clock.forward(3_700_000)
    assert values(registry)["lcm_context_fullest_ratio"] == 0, "nobody used it for an hour"
    engine.close()
    down = values(registry)
    assert down["lcm_database_up"] == 0
    assert "lcm_compaction_owed" not in down
    unwatch()
    assert "lcm_database_up" not in values(registry)


def test_hooks_that_work_are_timed(
    open_engine: Callable[..., Engine], session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, registry = open_engine(), CollectorRegistry()
    watch(engine, registry)
    plugin = LcmPlugin(engine=engine)
    clock = iter([*(at for call in range(20) for at in (call, call + 0.001 * (call + 1)))])
    monkeypatch.setattr("lcm_plugin.maintenance.hook_health.perf_counter", lambda: next(clock))
    for number in range(20):
        assert plugin.counted("before_turn", session, lambda number=number: number) == number
    found = values(registry)
    took = [found[f"lcm_hook_latency_ms,hook=before_turn,share={share}"] for share in ("0.5", "0.95", "1.0")]
    assert took == pytest.approx([11, 20, 20])


def test_no_label_names_a_session(open_engine: Callable[..., Engine], session: Session) -> None:
    engine, registry = open_engine(**SMALL), CollectorRegistry()
    watch(engine, registry)
    busy(engine, session)
    assert session.key not in str(values(registry))


def test_an_endpoint_answers_scrapes(open_engine: Callable[..., Engine], session: Session) -> None:
    engine, registry = open_engine(**SMALL), CollectorRegistry()
    watch(engine, registry)
    busy(engine, session)
    port, stop = serve(0, registry=registry)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        with pytest.raises(ConfigError, match=str(port)):
            serve(port, registry=registry)
    finally:
        stop()
    assert "# TYPE lcm_compaction_runs_total counter" in text
    assert "# TYPE lcm_search_latency_ms histogram" in text
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.long
def test_the_worker_serves_metrics_while_it_works(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-c",
        "from lcm_plugin.cli import main; main()",
        "worker",
        "--metrics-port",
        "0",
    ]
    database = str(tmp_path / "lcm.db")
    Engine.open(LcmConfig(database=database)).close()
    process = subprocess.Popen([*command, "--database", database], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        told = process.stderr.readline()
        address = told.partition("metrics: ")[2].strip()
        assert address.startswith("http://127.0.0.1:"), told
        with urllib.request.urlopen(address, timeout=60) as answer:
            assert "lcm_summaries_created_total" in answer.read().decode()
    finally:
        process.terminate()
        process.wait(10)
        process.stderr.close()
    assert process.returncode == 0


@pytest.mark.long
def test_importing_the_package_does_not_import_the_client() -> None:
    code = "import sys, lcm_plugin, lcm_plugin.engine; sys.exit('prometheus_client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_the_client_the_error_says_what_to_install(
    open_engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ConfigError, match=r"lcm_plugin\[metrics\]"):
        watch(open_engine())
