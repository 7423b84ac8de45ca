"""Each setting does what the settings page says of it: an engine with it behaves otherwise than one without.

Settings come as JSON or as environment variables by turns, so that the whole way is travelled. What
another test file already holds a setting to is named in ``ELSEWHERE``.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from messages import assistant, call, result, user

from lcm_plugin import CompletionRequest, Engine, LcmConfig, LcmPlugin, Session, Turn
from lcm_plugin.config import shown_keys
from lcm_plugin.config.sources import variables_of
from lcm_plugin.types import Reason

KEY = Session("agent:main:main", "run-1")
SMALL = {
    "freshTailCount": 2,
    "leafChunkTokens": 200,
    "leafTargetTokens": 50,
    "leafMinFanout": 2,
    "condensedMinFanout": 2,
}

# Settings that another file holds to what they do.
ELSEWHERE = {
    "new_session_retain_depth": "sessions/test_new_and_undo.py",
    "bootstrap_max_tokens": "sessions/test_subagents.py",
    "ignore_session_patterns": "sessions/test_session_gate.py",
    "stateless_session_patterns": "sessions/test_session_gate.py",
    "skip_stateless_sessions": "sessions/test_session_gate.py",
    "control_message_patterns": "ingest/test_host_noise.py",
    "host_note_patterns": "ingest/test_host_noise.py",
    "prune_heartbeat_ok": "ingest/test_host_noise.py",
    "summary_base_url": "summarize/test_completers.py",
    "summary_model": "summarize/test_completers.py",
    "summary_provider": "summarize/test_completers.py",
    "fallback_models": "summarize/test_completers.py",
    "standing_max_tokens": "sessions/test_pins.py",
    "keep_latest_of": "assembly/test_latest_plan.py",
    "clear_results_of": "compaction/test_clearing.py",
    "pin_tool": "sessions/test_pins.py",
    "active_recall": "recall/test_active.py",
    "capture_only": "compaction/test_capture_only.py",
    "capture_only_session_patterns": "compaction/test_capture_only.py",
    "recall_tokens": "recall/test_active.py",
    "context_log_turns": "sessions/test_context_log.py",
    "maps": "maps/test_map_tools.py",
    "map_max_items": "maps/test_map_tools.py",
    "map_max_tokens": "maps/test_map_settings.py",
    "map_parallel": "maps/test_map_settings.py",
    "map_model": "maps/test_map_settings.py",
    "map_provider": "maps/test_map_settings.py",
    "semantic_search": "recall/test_semantic.py",
    "semantic_model": "recall/test_semantic.py",
    "semantic_model_dir": "recall/test_semantic.py",
}
HERE: set[str] = set()


def acts(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Notes which settings a test is about."""
    HERE.update(names)
    return lambda test: test


Open = Callable[..., Engine]


@pytest.fixture(params=["json", "environment"])
def make(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Any
) -> Iterator[Open]:
    """Opens engines whose settings (camelCase) come as JSON or from the environment."""
    engines: list[Engine] = []
    names = {key: name for name, key in shown_keys().items()}

    def open_one(completer: Any = None, **settings: Any) -> Engine:
        settings = {"databasePath": str(tmp_path / f"{len(engines)}.db"), **settings}
        if request.param == "json":
            config = LcmConfig.from_plugin(settings)
        else:
            with monkeypatch.context() as patch:
                for key, value in settings.items():
                    text = value if isinstance(value, str) else json.dumps(value)
                    patch.setenv(variables_of(names.get(key, "database"))[0], text)
                config = LcmConfig()
        engine = Engine.open(config, completer, clock=clock)
        engines.append(engine)
        return engine

    yield open_one
    for engine in engines:
        engine.close()


def fill(engine: Engine, turns: int, session: Session = KEY, start: int = 0) -> None:
    for n in range(start, start + turns):
        question = f"Question {n}: how does part {n} of the pump station {n} work, and why?"
        answer = f"Part {n} opens valve {n} when the pressure at sensor {n} falls."
        engine.ingest(session, [user(question), assistant(answer)])


def summaries(engine: Engine) -> list[Any]:
    return list(engine.library.summaries(1))


def raw(engine: Engine) -> int:
    return sum(item.kind == "message" for item in engine.context_items(KEY))


def write(request: CompletionRequest) -> str:
    """A model that answers shortly and validly."""
    return "The parts of the pump station open valves when pressure falls.\nExpand for details about: valves"


class Model:
    """Keeps the requests it got."""

    def __init__(self, answer: Callable[[CompletionRequest], str] = write) -> None:
        self.answer = answer
        self.requests: list[CompletionRequest] = []

    def __call__(self, request: CompletionRequest) -> str:
        self.requests.append(request)
        return self.answer(request)


@acts("enabled")
@pytest.mark.parametrize("enabled", [True, False])
def test_enabled(enabled: bool, tmp_path: Path) -> None:
    plugin = LcmPlugin(LcmConfig.from_plugin({"enabled": enabled, "dbPath": str(tmp_path / "a.db")}))
    own = [user("hello")]
    context = plugin.before_turn(Turn(KEY, own))
    plugin.after_turn(Turn(KEY, [*own, assistant("hi")]))
    assert context is not None
    assert context.messages == own
    assert len(plugin.engine.messages(KEY)) == (2 if enabled else 0)
    plugin.close()


@acts("database")
def test_database(make: Open, tmp_path: Path) -> None:
    place = tmp_path / "deep" / "folder" / "mine.db"
    make(databasePath=str(place))
    assert place.exists()
    assert place.stat().st_mode & 0o777 == 0o600


@acts("large_files_dir", "large_file_token_threshold")
def test_large_files_dir_and_threshold(make: Open, tmp_path: Path) -> None:
    text = "a line of a long log about the pump\n" * 400
    for setting in (str(tmp_path / "elsewhere"), "db", ""):
        engine = make(largeFilesDir=setting, largeFileTokenThreshold=1_000)
        engine.ingest(KEY, [user("read"), call("c1"), result("c1", text)])
        assert engine.messages(KEY)[2]["content"] == text
        with engine.store.read() as reader:
            [record] = reader.files(1)
        assert record.uri.startswith("db:") is (setting == "db")
    assert any((tmp_path / "elsewhere").rglob("*"))
    assert any((tmp_path / "lcm-files").rglob("*"))
    engine = make(largeFileTokenThreshold=100_000)
    engine.ingest(KEY, [user(text)])
    with engine.store.read() as reader:
        assert reader.files(1) == []


@acts("large_file_exempt_patterns")
def test_large_file_exempt_patterns(make: Open) -> None:
    text = "Always write tests. " * 400
    read = call("c1", "read_file", json.dumps({"path": "docs/RULES.txt"}))
    for patterns, moved in (([], True), (["RULES.txt"], False)):
        engine = make(largeFileTokenThreshold=1_000, largeFileExemptPatterns=patterns)
        engine.ingest(KEY, [user("read"), read, result("c1", text)])
        with engine.store.read() as reader:
            assert bool(reader.files(1)) is moved


@acts("durability")
@pytest.mark.parametrize(("durability", "level"), [("normal", 1), ("full", 2)])
def test_durability(make: Open, durability: str, level: int) -> None:
    engine = make(durability=durability)
    with engine.store.write() as writer:
        assert writer.db.execute("PRAGMA synchronous").fetchone()[0] == level  # type: ignore[attr-defined]


@acts("busy_timeout_ms")
def test_busy_timeout(make: Open) -> None:
    engine = make(busyTimeoutMs=50)
    blocker = sqlite3.connect(engine.store.location, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    begun = time.monotonic()
    with pytest.raises(Exception, match="locked by another writer"):
        engine.ingest(KEY, [user("x")])
    assert time.monotonic() - begun < 4  # five seconds by default
    blocker.execute("ROLLBACK")
    blocker.close()
    assert engine.ingest(KEY, [user("x")]).stored == 1


@acts("context_threshold", "hard_threshold")
def test_thresholds(make: Open) -> None:
    reasons = []
    for soft, hard in ((0.9, 0.95), (0.3, 0.95), (0.1, 0.2)):
        engine = make(contextThreshold=soft, hardThreshold=hard, contextPolicy="faithful")
        fill(engine, 20)
        tokens = engine.evaluate(KEY, 100_000).tokens
        reasons.append(engine.evaluate(KEY, tokens * 2).reason)
    assert reasons == [Reason.BELOW_THRESHOLD, Reason.OVER_THRESHOLD, Reason.OVER_HARD_LIMIT]


@acts("context_threshold_overrides")
@pytest.mark.parametrize(
    ("match", "fits", "differs"),
    [
        ({"model": "small"}, {"model": "small"}, {"model": "large"}),
        ({"modelContextWindowMax": 9_000}, {"window": 9_000}, {"window": 9_001}),
        ({"modelContextWindowMin": 9_000}, {"window": 9_000}, {"window": 8_999}),
        ({"modelContextWindowMin": 9_000}, {"window": 9_000}, {}),
        ({"model": "small", "sessionPattern": "agent:*:main"}, {"model": "small"}, {}),
    ],
)
def test_overrides(make: Open, match: dict[str, Any], fits: dict[str, Any], differs: dict[str, Any]) -> None:
    rule = {"match": match, "contextThreshold": 0.1}
    engine = make(contextThresholdOverrides=[rule], contextPolicy="faithful")
    fill(engine, 20)
    budget = engine.evaluate(KEY, 100_000).tokens * 2
    assert engine.evaluate(KEY, budget, **fits).due
    assert not engine.evaluate(KEY, budget, **differs).due


@acts("hard_wait_ms")
def test_hard_wait(make: Open) -> None:
    answered = threading.Event()

    def slow(request: CompletionRequest) -> str:
        answered.wait(300)
        return write(request)

    engine = make(slow, hardWaitMs=1, contextThreshold=0.1, hardThreshold=0.1, **SMALL)
    fill(engine, 20)
    seen: list[str] = []
    engine.subscribe(lambda event: seen.append(event.name))
    engine.schedule_compaction(KEY, 2_000, wait=True)
    assert "compaction.wait_ended" in seen
    answered.set()
    assert engine.wait_idle(60)


@acts("fresh_tail_count", "fresh_tail_max_tokens")
def test_fresh_tail(make: Open) -> None:
    for settings, least, most in (
        ({"freshTailCount": 2}, 2, 6),
        ({"freshTailCount": 20}, 20, 24),
        ({"freshTailCount": 20, "freshTailMaxTokens": 100}, 2, 8),
    ):
        engine = make(**{**SMALL, **settings})
        fill(engine, 40)
        engine.compact(KEY, force=True, budget=8_000)
        assert least <= raw(engine) <= most


@pytest.mark.long
@acts("context_policy", "verbatim_tokens")
def test_context_policy_and_verbatim_tokens(make: Open) -> None:
    held = []
    for settings in (
        {"contextPolicy": "economy"},
        {"contextPolicy": "balanced"},
        {"contextPolicy": "faithful"},
        {"contextPolicy": "economy", "verbatimTokens": 3_000},
    ):
        engine = make(freshTailCount=2, **settings)
        for n in range(120):
            fill(engine, 1, start=n)
            engine.compact(KEY, budget=8_000)
        held.append(sum(item.tokens for item in engine.context_items(KEY) if item.kind == "message"))
    economy, balanced, faithful, kept = held
    assert economy < balanced < faithful
    assert economy < 3_000 <= kept


@acts("max_active_messages")
def test_max_active_messages(make: Open) -> None:
    engine = make(maxActiveMessages=30)
    fill(engine, 15)
    assert not engine.evaluate(KEY, 500_000).due
    fill(engine, 1, start=15)
    assert engine.evaluate(KEY, 500_000).reason is Reason.TOO_MANY_MESSAGES


@acts("leaf_min_fanout")
def test_leaf_min_fanout(make: Open) -> None:
    for least, written in ((8, 0), (2, 1)):
        engine = make(**{**SMALL, "leafMinFanout": least, "leafChunkTokens": 4_000})
        fill(engine, 4)
        engine.compact(KEY, force=True, budget=100_000)
        assert len(summaries(engine)) == written


@acts("condensed_min_fanout")
def test_condensed_min_fanout(make: Open) -> None:
    deepest = []
    for fanout in (2, 50):
        engine = make(**{**SMALL, "condensedMinFanout": fanout})
        fill(engine, 40)
        engine.compact(KEY, force=True, budget=100_000)
        deepest.append(max(summary.depth for summary in summaries(engine)))
    assert deepest[0] > deepest[1] == 0


@acts("condensed_min_fanout_hard")
def test_condensed_min_fanout_hard(make: Open) -> None:
    deepest = []
    for hard in (2, 50):
        engine = make(**{**SMALL, "condensedMinFanout": 50, "condensedMinFanoutHard": hard})
        fill(engine, 40)
        engine.compact(KEY, force=True, budget=500)
        deepest.append(max(summary.depth for summary in summaries(engine)))
    assert deepest[0] > deepest[1] == 0


@pytest.mark.long
@acts("incremental_max_depth")
def test_incremental_max_depth(make: Open) -> None:
    deepest = []
    for depth in (0, 1, -1):
        engine = make(**SMALL, incrementalMaxDepth=depth)
        for n in range(60):
            fill(engine, 1, start=n)
            engine.compact(KEY, budget=100_000)
        deepest.append(max(summary.depth for summary in summaries(engine)))
    assert deepest[0] == 0
    assert deepest[1] == 1
    assert deepest[2] > 1


@acts("leaf_chunk_tokens", "leaf_trigger_tokens")
def test_leaf_chunk_and_trigger(make: Open) -> None:
    sizes = []
    for chunk in (150, 600):
        engine = make(**{**SMALL, "leafChunkTokens": chunk})
        fill(engine, 40)
        engine.compact(KEY, force=True, budget=100_000)
        sizes.append(max(s.source_tokens for s in summaries(engine) if s.depth == 0))
    assert sizes[0] <= 150 < sizes[1] <= 600
    for trigger, due in ((100, True), (100_000, False)):
        engine = make(freshTailCount=2, leafTriggerTokens=trigger)
        fill(engine, 20)
        assert engine.evaluate(KEY, 500_000).due is due


@pytest.mark.long
@acts("leaf_target_tokens", "condensed_target_tokens")
def test_target_tokens(make: Open) -> None:
    for depth, key in ((0, "leafTargetTokens"), (1, "condensedTargetTokens")):
        biggest = []
        for target in (40, 90):
            engine = make(**{**SMALL, "leafChunkTokens": 800, "leafTargetTokens": 90, key: target})
            fill(engine, 90)
            engine.compact(KEY, force=True, budget=100_000)
            biggest.append(max(s.tokens for s in summaries(engine) if s.depth == depth))
        assert biggest[0] <= 40 < biggest[1] <= 90


@acts("summary_prefix_target_tokens")
def test_summary_prefix_target(make: Open) -> None:
    held = []
    for target in (120, 100_000):
        engine = make(**SMALL, incrementalMaxDepth=1, summaryPrefixTargetTokens=target)
        for n in range(60):
            fill(engine, 1, start=n)
            engine.compact(KEY, budget=100_000)
        held.append(sum(item.tokens for item in engine.context_items(KEY) if item.kind == "summary"))
    assert held[0] < held[1]


@acts("summary_max_overage_factor")
def test_summary_max_overage_factor(make: Open) -> None:
    opens = [f"Part {n} of the station opens valve {n} when sensor {n} falls." for n in range(1, 11)]
    biggest = []
    for factor in (1, 3):
        engine = make(
            Model(lambda request: " ".join(opens) + "\nExpand for details about: valves"),
            **{**SMALL, "leafChunkTokens": 1_500, "leafTargetTokens": 60},
            summaryMaxOverageFactor=factor,
        )
        fill(engine, 60)
        engine.compact(KEY, force=True, budget=100_000)
        biggest.append(max(s.tokens for s in summaries(engine) if s.depth == 0))
    assert biggest[0] <= 60 < biggest[1] <= 180


@acts("max_expand_tokens")
def test_max_expand_tokens(make: Open) -> None:
    text = "word " * 3_000
    lengths = []
    for most in (200, 2_000):
        engine = make(maxExpandTokens=most)
        engine.ingest(KEY, [user(text)])
        shown = engine.call_tool(KEY, "lcm_describe", {"id": "msg_1"})
        lengths.append(engine.count_tokens(shown["content"]))
    assert lengths[0] <= 200 < lengths[1] <= 2_000


@acts("answer_max_chars")
def test_answer_max_chars(make: Open) -> None:
    lengths = []
    for most in (2_000, None):
        engine = make(answerMaxChars=most)
        engine.ingest(KEY, [user("word " * 3_000)])
        shown = engine.call_tool(KEY, "lcm_describe", {"id": "msg_1"})
        lengths.append(len(json.dumps(shown, ensure_ascii=False)))
    assert 1_000 < lengths[0] <= 2_000 < lengths[1]


@acts("max_assembly_token_budget")
def test_max_assembly_token_budget(make: Open) -> None:
    engine = make(maxAssemblyTokenBudget=1_000)
    fill(engine, 100)
    assert engine.assemble(KEY, 500_000).tokens <= 1_000
    assert engine.budgets.total(None, None) == 1_000
    assert engine.evaluate(KEY, 500_000).due
    assert make().budgets.total(None, None) == 128_000


@acts("prompt_aware_eviction")
def test_prompt_aware_eviction(make: Open) -> None:
    kept = []
    for on in (False, True):
        engine = make(**{**SMALL, "condensedMinFanout": 50}, promptAwareEviction=on)
        told = "The albatross nests on the northern cliff."
        engine.ingest(KEY, [user(told), assistant("I see, the albatross nests on the cliff.")])
        fill(engine, 60)
        engine.compact(KEY, force=True, budget=100_000)
        engine.ingest(KEY, [user("albatross northern cliff?")])
        context = engine.assemble(KEY, 600, prompt="albatross northern cliff?")
        kept.append("albatross nests" in str(context.messages))
    assert kept == [False, True]


@acts("max_sweep_passes", "sweep_deadline_ms")
def test_sweep_bounds(make: Open) -> None:
    engine = make(Model(), **SMALL, maxSweepPasses=2)
    fill(engine, 40)
    assert engine.compact(KEY, force=True, budget=100_000).passes == 2

    def slow(request: CompletionRequest) -> str:
        time.sleep(0.05)
        return write(request)

    engine = make(slow, **SMALL, sweepDeadlineMs=1)
    fill(engine, 40)
    assert engine.compact(KEY, force=True, budget=100_000).passes <= 1


@acts("autocompact_disabled")
def test_autocompact_disabled(make: Open) -> None:
    engine = make(**SMALL, autocompactDisabled=True)
    fill(engine, 40)
    decision = engine.evaluate(KEY, 1_000)
    assert (decision.due, decision.reason) == (False, Reason.DISABLED)
    assert not engine.compact(KEY, budget=1_000).compacted
    assert engine.compact(KEY, force=True, budget=1_000).compacted


@acts("recall_scope")
def test_recall_scope(make: Open) -> None:
    lanes = [KEY, Session("agent:main:other"), Session("agent:ops:main"), Session("elsewhere")]
    found = {}
    for scope in ("session", "agent", "all"):
        engine = make(recallScope=scope)
        for lane in lanes:
            engine.ingest(lane, [user("the word is heliotrope")])
        asked = {"pattern": "heliotrope", "all_conversations": True}
        found[scope] = {hit["session_key"] for hit in engine.call_tool(KEY, "lcm_grep", asked)["hits"]}
    keys = [lane.key for lane in lanes]
    assert found == {"session": set(keys[:1]), "agent": set(keys[:2]), "all": set(keys)}


@acts("redact_patterns")
def test_redact_patterns(make: Open) -> None:
    engine = make(redactPatterns=[r"tok-[0-9]{3,5}"])
    engine.ingest(KEY, [user("my token is tok-1234, keep it")])
    assert engine.messages(KEY) == [user("my token is [REDACTED], keep it")]
    assert b"tok-1234" not in Path(engine.store.location).read_bytes()


def summarised(make: Open, model: Model, turns: int = 20, **settings: Any) -> Engine:
    engine = make(model, **SMALL, **settings)
    fill(engine, turns)
    engine.compact(KEY, force=True, budget=100_000)
    return engine


@acts("summary_timeout_ms")
def test_summary_timeout(make: Open) -> None:
    answered = threading.Event()

    def hangs(request: CompletionRequest) -> str:
        assert request.timeout <= 0.2
        answered.wait(300)
        return write(request)

    engine = make(hangs, **SMALL, summaryTimeoutMs=200, maxSweepPasses=1, sweepDeadlineMs=200)
    fill(engine, 10)
    engine.compact(KEY, force=True, budget=100_000)
    answered.set()
    assert {s.level for s in summaries(engine)} <= {"extractive"}


@acts("summary_max_calls_per_window", "summary_call_window_ms", "summary_spend_backoff_ms")
def test_spend_guard(make: Open, clock: Any) -> None:
    model = Model(lambda request: "")
    engine = make(
        model, **SMALL, summaryMaxCallsPerWindow=3, summaryCallWindowMs=10_000, summarySpendBackoffMs=60_000
    )

    def calls() -> int:
        before = len(model.requests)
        fill(engine, 20, start=before * 100)
        engine.compact(KEY, budget=100_000)
        return len(model.requests) - before

    assert 0 < calls() <= 3
    for _ in range(3):
        calls()
    assert len(model.requests) == 3
    assert calls() == 0
    clock.forward(11_000)
    assert calls() == 0
    clock.forward(60_000)
    assert calls() > 0


@pytest.mark.long
@acts("summary_max_tokens_per_window")
def test_the_spend_guard_counts_tokens(make: Open) -> None:
    counts = []
    for most in (1_000_000, 1):
        model = Model()
        engine = make(model, **SMALL, summaryMaxTokensPerWindow=most)
        for number in range(3):
            fill(engine, 20, start=len(counts) * 1_000 + number * 100)
            engine.compact(KEY, budget=1_000_000)
        counts.append(len(model.requests))
    assert counts[0] >= 3
    assert counts[1] == 1


@acts("custom_instructions", "strip_injected_context_tags", "timezone")
def test_what_a_summary_prompt_holds(make: Open) -> None:
    model = Model()
    settings = {
        "customInstructions": "Write about valves only.",
        "timezone": "Asia/Tokyo",
        "stripInjectedContextTags": ["memories"],
    }
    for given in ({}, settings):
        model.requests.clear()
        engine = make(model, **SMALL, **given)
        at = {"created_at": "2026-01-01T00:00:00Z"}
        engine.ingest(KEY, [user(f"Question {n} <memories>secret {n}</memories>", **at) for n in range(40)])
        engine.compact(KEY, force=True, budget=100_000)
        prompt = json.dumps([request.messages for request in model.requests])
        assert ("Write about valves only." in prompt) is bool(given)
        assert ("secret 3" in prompt) is not bool(given)
        assert ("09:00" in prompt) is bool(given)
        assert ("09:00" in str(engine.assemble(KEY, 8_000).messages)) is bool(given)


@acts("large_file_summary_model", "large_file_summary_provider")
def test_large_file_summary_model(make: Open) -> None:
    text = "A report about the harbour wall, its cracks, and who pays for it.\n" * 300
    for given, asked in (({}, 0), ({"largeFileSummaryModel": "seer", "largeFileSummaryProvider": "p"}, 1)):
        model = Model(lambda request: "The report is about cracks in the harbour wall and who pays.")
        engine = make(model, largeFileTokenThreshold=1_000, **given)
        engine.ingest(KEY, [user("read"), call("c1"), result("c1", text)])
        engine.wait_idle(60)
        of_files = [request for request in model.requests if request.purpose == "file_summary"]
        assert bool(of_files) is bool(asked)
        assert all("seer" in str(request.model) for request in of_files)


@acts("delegation_timeout_ms")
def test_delegation_timeout(make: Open) -> None:
    model = Model(lambda request: "Nothing is known about that.")
    engine = make(model, delegationTimeoutMs=5_000)
    fill(engine, 5)
    engine.call_tool(KEY, "lcm_expand_query", {"prompt": "What opens valve 3?"})
    asked = [request for request in model.requests if request.purpose == "expansion"]
    assert asked
    assert all(request.timeout <= 5 for request in asked)


@acts("expansion_model", "expansion_provider")
def test_expansion_model_and_provider(make: Open) -> None:
    firsts = []
    for given in ({}, {"expansionModel": "strong", "expansionProvider": "p"}):
        routes = make(Model(), summaryModel="q/cheap", **given).summarizer.completions.routes("expansion")
        firsts.append(routes[0].name)
    assert firsts == ["host", "p/strong"]


def test_every_setting_is_held_to_what_it_does() -> None:
    assert not HERE & set(ELSEWHERE)
    assert HERE | set(ELSEWHERE) == set(LcmConfig.model_fields)
    folder = Path(__file__).parents[1]
    for name, place in ELSEWHERE.items():
        assert name in (folder / place).read_text(encoding="utf-8")
