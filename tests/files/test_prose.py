"""A model's words about a file go to its record, off the turn, and never into the message."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest
from fakes.model_server import Failure, ModelServer, Reply

from lcm_plugin import Engine, Session

Open = Callable[..., Engine]
LOG = "".join(f"2026-01-01 12:00:00 ERROR disk sda1 of host web-{i} is full\n" for i in range(900))
WORDS = "A log of the disk sda1 being full on the hosts web-0 to web-899, with an ERROR for each."


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("LCM_SUMMARY_API_KEY", "no-secret")
    with ModelServer() as running:
        yield running
    # litellm keeps its HTTP clients; left to the garbage collector they would warn in some other test.
    cache = sys.modules["litellm"].in_memory_llm_clients_cache if "litellm" in sys.modules else None
    for key, client in list(cache.cache_dict.items()) if cache else ():
        if "Async" not in type(client).__name__ and callable(getattr(client, "close", None)):
            client.close()
            cache.delete_cache(key)


def told_of_the_file(open_engine: Open, session: Session, server: ModelServer, model: str) -> tuple[str, str]:
    """What `lcm_describe` tells of a file, and what the message shows."""
    engine = open_engine(
        large_file_token_threshold=1_000,
        large_file_summary_model=model,
        summary_provider="openai",
        summary_base_url=server.url,
    )
    engine.ingest(session, [{"role": "user", "content": LOG}])
    assert engine.wait_idle(60)
    shown = engine.assemble(session, 50_000).messages[0]["content"]
    return engine.call_tool(session, "lcm_describe", {"id": shown.split()[2]})["exploration"], shown


def test_a_models_words_stand_beside_what_was_found(
    open_engine: Open, session: Session, server: ModelServer
) -> None:
    server.enqueue(Reply(WORDS))
    told, shown = told_of_the_file(open_engine, session, server, "openai/cheap")
    assert told.startswith("Log: 900 lines.")
    assert told.endswith(WORDS)
    assert WORDS not in shown
    assert len(server.requests) == 1


def test_without_a_model_set_for_files_none_is_asked(
    open_engine: Open, session: Session, server: ModelServer
) -> None:
    told, _ = told_of_the_file(open_engine, session, server, "")
    assert told.startswith("Log: 900 lines.")
    assert server.requests == []


@pytest.mark.parametrize("outcome", [Reply("I'm sorry, but I can't help with that."), Failure(401)])
def test_a_refusal_or_a_failure_leaves_the_record_as_it_was(
    open_engine: Open, session: Session, server: ModelServer, outcome: Reply | Failure
) -> None:
    server.enqueue(outcome)
    told, _ = told_of_the_file(open_engine, session, server, "openai/cheap")
    assert told.startswith("Log: 900 lines.")
    assert "by a model" not in told
    assert len(server.requests) == 1
