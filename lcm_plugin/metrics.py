"""Prometheus metrics, counted from events and read from the database at each scrape. Needs the extra ``metrics``.

A host that has a registry of its own calls `watch`; `serve` opens an endpoint. Nothing is labelled with a session or
a conversation: their number has no bound.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from lcm_plugin.commands.gauges import Gauges, gauges
from lcm_plugin.errors import ConfigError, LcmError
from lcm_plugin.events import Event

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from lcm_plugin.engine import Engine

LOCAL = "127.0.0.1"
_BUCKETS_MS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 120_000)
_SEARCHES = frozenset({"lcm_grep"})
_SHARES = (0.5, 0.95, 1.0)
_EXPANSIONS = frozenset({"lcm_expand", "lcm_expand_query", "lcm_describe"})


class Metrics:
    """The counters of one registry. Thread-safe."""

    def __init__(self, registry: CollectorRegistry) -> None:
        from prometheus_client import Counter, Histogram

        self._context_tokens = Counter(
            "lcm_context_tokens", "Tokens of the contexts that were assembled.", registry=registry
        )
        self._runs = Counter(
            "lcm_compaction_runs",
            "Compactions, by what made them due and how they ended.",
            ("trigger", "verdict"),
            registry=registry,
        )
        self._summaries = Counter(
            "lcm_summaries_created", "Summaries that were published.", ("kind",), registry=registry
        )
        self._expansions = Histogram(
            "lcm_expand_latency_ms",
            "Milliseconds that an expansion or a description took.",
            ("tool",),
            buckets=_BUCKETS_MS,
            registry=registry,
        )
        self._searches = Histogram(
            "lcm_search_latency_ms",
            "Milliseconds that a search took.",
            buckets=_BUCKETS_MS,
            registry=registry,
        )
        self._failures = Counter(
            "lcm_integrity_failures", "Errors that integrity checks found.", registry=registry
        )
        self.state = StateCollector()
        registry.register(self.state)
        # So that a scrape shows both kinds before there is one.
        for kind in ("leaf", "condensed"):
            self._summaries.labels(kind)

    def note(self, event: Event) -> None:
        """Counts an event."""
        fields = event.fields
        match event.name:
            case "assembly.done":
                self._context_tokens.inc(fields["tokens"])
            case "compaction.finished":
                self._runs.labels(fields["trigger_reason"], fields["reason"]).inc()
            case "compaction.pass":
                self._summaries.labels("leaf" if fields["depth"] == 0 else "condensed").inc()
            case "recall.answered" if fields["tool"] in _SEARCHES:
                self._searches.observe(fields["ms"])
            case "recall.answered" if fields["tool"] in _EXPANSIONS:
                self._expansions.labels(fields["tool"]).observe(fields["ms"])
            case "integrity.checked":
                self._failures.inc(fields["errors"])


class StateCollector:
    """Reads the state of the engines that are watched when it is scraped; amounts of several add up. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._engines: list[Engine] = []

    def add(self, engine: Engine) -> None:
        """Watches one more."""
        with self._lock:
            self._engines.append(engine)

    def drop(self, engine: Engine) -> None:
        """Leaves one alone."""
        with self._lock:
            self._engines = [one for one in self._engines if one is not engine]

    def describe(self) -> list[Any]:
        """Nothing, so that no database is read when it is registered."""
        return []

    def collect(self) -> Iterator[Any]:
        """The gauges; ``lcm_database_up`` is 0 and the rest missing when a database cannot be read."""
        from prometheus_client.core import GaugeMetricFamily

        with self._lock:
            engines = list(self._engines)
        if not engines:
            return
        try:
            found = [_state(engine) for engine in engines]
        except LcmError:
            found = []
        latency = GaugeMetricFamily(
            "lcm_hook_latency_ms",
            "Milliseconds within which a share of a hook's newest calls in this process returned.",
            labels=("hook", "share"),
        )
        for hook, took in _times(engines).items():
            for share in _SHARES:
                latency.add_metric((hook, str(share)), took[min(len(took) - 1, int(share * len(took)))])
        yield latency
        yield GaugeMetricFamily("lcm_database_up", "Whether the database can be read.", value=bool(found))
        if not found:
            return
        for name, text, value in _FAMILIES:
            yield GaugeMetricFamily(name, text, value=value(found))
        paused = GaugeMetricFamily(
            "lcm_guards_paused", "Models, and sessions' summary calls, that are paused.", labels=("kind",)
        )
        paused.add_metric(("model",), len({model for one in found for model in one.paused_models}))
        paused.add_metric(("session",), sum(one.paused_sessions for one in found))
        yield paused


def _times(engines: list[Engine]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for engine in engines:
        for hook, took in engine.hook_health.times().items():
            found[hook] = sorted([*found.get(hook, ()), *took])
    return found


def _state(engine: Engine) -> Gauges:
    with engine.store.read() as reader:
        return gauges(engine, reader)


_FAMILIES: tuple[tuple[str, str, Callable[[list[Gauges]], float]], ...] = (
    (
        "lcm_compaction_owed",
        "Conversations that wait for a compaction or are in one.",
        lambda found: sum(one.owed for one in found),
    ),
    (
        "lcm_index_lag_rows",
        "Rows that are not in the search index yet.",
        lambda found: sum(one.index_lag for one in found),
    ),
    (
        "lcm_context_fullest_ratio",
        "The largest context of the sessions used in the last hour, as a share of its room.",
        lambda found: max(one.fullest for one in found),
    ),
    (
        "lcm_waiting_messages",
        "Messages that could not be stored yet.",
        lambda found: sum(one.waiting_messages for one in found),
    ),
    (
        "lcm_failing_hooks",
        "Hooks of sessions that failed at their last call.",
        lambda found: sum(one.failing_hooks for one in found),
    ),
    (
        "lcm_last_error_timestamp_seconds",
        "When a hook failed last, or this process warned of something; 0 for never.",
        lambda found: max(one.last_error_at for one in found) / 1_000,
    ),
    (
        "lcm_last_stored_timestamp_seconds",
        "When something was stored last; 0 for never.",
        lambda found: max(one.last_stored_at for one in found) / 1_000,
    ),
)
_known: WeakKeyDictionary[Any, Metrics] = WeakKeyDictionary()


def watch(engine: Engine, registry: CollectorRegistry | None = None) -> Callable[[], None]:
    """Counts an engine's events in a registry, the default one if none is given; returns what ends that.

    Several engines may count in one registry. Raises `ConfigError` without prometheus-client.
    """
    chosen = _prometheus().REGISTRY if registry is None else registry
    if chosen not in _known:
        _known[chosen] = Metrics(chosen)
    metrics = _known[chosen]
    metrics.state.add(engine)
    unsubscribe = engine.subscribe(metrics.note)

    def unwatch() -> None:
        unsubscribe()
        metrics.state.drop(engine)

    return unwatch


def serve(
    port: int, address: str = LOCAL, registry: CollectorRegistry | None = None
) -> tuple[int, Callable[[], None]]:
    """Answers scrapes on a thread of its own; returns the port (0 asks for a free one) and what ends it.

    Raises `ConfigError` when the port cannot be had.
    """
    prometheus = _prometheus()
    chosen = prometheus.REGISTRY if registry is None else registry
    try:
        server, thread = prometheus.start_http_server(port, address, chosen)
    except OSError as error:
        raise ConfigError(
            f"metrics cannot be served on {address}:{port}: {error.strerror or error}"
        ) from error

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return server.server_port, stop


def _prometheus() -> Any:
    try:
        import prometheus_client
    except ImportError as error:
        raise ConfigError("metrics need prometheus-client: pip install 'lcm_plugin[metrics]'") from error
    return prometheus_client
