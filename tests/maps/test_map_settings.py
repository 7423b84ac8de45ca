"""The settings of maps do what they say."""

from __future__ import annotations

import threading
from collections.abc import Callable

from messages import user

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.events import EventBus
from lcm_plugin.maps.source import MapSource
from lcm_plugin.summarize.completers import Completions
from lcm_plugin.types import CompletionRequest

Open = Callable[..., Engine]


def test_an_agents_map_stops_at_its_tokens(open_engine: Open, session: Session) -> None:
    engine = open_engine(completer=lambda request: "true", maps=True, map_max_tokens=1_000)
    engine.ingest(session, [user(f"order {number} is late") for number in range(41)])
    made = engine.call_tool(
        session, "lcm_map", {"prompt": "Late?", "schema": {"type": "boolean"}, "roles": ["user"]}
    )
    assert (made["state"], made["reason"]) == ("stopped", "the budget is used up")
    assert 0 < made["tokens_spent"] <= 1_000


def test_so_many_calls_run_at_a_time(open_engine: Open, session: Session) -> None:
    together = threading.Barrier(3)

    def model(request: CompletionRequest) -> str:
        together.wait(20)
        return "true"

    engine = open_engine(completer=model, maps=True, map_parallel=3)
    items = [(str(number), f"item {number}") for number in range(6)]
    assert engine.map(session, MapSource(items=items), "Yes?", {"type": "boolean"}).done == 6


def test_the_model_of_maps_is_asked_before_the_hosts_and_a_named_one_before_it() -> None:
    config = LcmConfig(map_model="small", map_provider="openai", summary_model="anthropic/large")
    completions = Completions(config, EventBus(), lambda request: "host")
    assert [route.name for route in completions.routes("map")] == ["openai/small", "host", "anthropic/large"]
    assert completions.routes("map", "openai/other")[0].name == "openai/other"
