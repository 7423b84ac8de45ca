"""Prometheus metrics, counted from events. Needs the extra ``metrics``.

A host that has a registry of its own calls `watch`; `serve` opens an endpoint. Nothing is labelled with a session or
a conversation: their number has no bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from lcm_plugin.errors import ConfigError
from lcm_plugin.events import Event

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from lcm_plugin.engine import Engine

LOCAL = "127.0.0.1"
_BUCKETS_MS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 120_000)
_SEARCHES = frozenset({"lcm_grep"})
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


_known: WeakKeyDictionary[Any, Metrics] = WeakKeyDictionary()


def watch(engine: Engine, registry: CollectorRegistry | None = None) -> Callable[[], None]:
    """Counts an engine's events in a registry, the default one if none is given; returns what ends that.

    Several engines may count in one registry. Raises `ConfigError` without prometheus-client.
    """
    chosen = _prometheus().REGISTRY if registry is None else registry
    if chosen not in _known:
        _known[chosen] = Metrics(chosen)
    return engine.subscribe(_known[chosen].note)


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
