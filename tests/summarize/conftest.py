"""Fixtures of the summariser's tests."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from fakes.model_server import ModelServer
from model_bench import Bench, work

from lcm_plugin.messages.tokens import TokenCounter
from lcm_plugin.summarize.base import SourceBlock, SummaryTask


@pytest.fixture(scope="session")
def counter() -> TokenCounter:
    return TokenCounter()


@pytest.fixture
def make_task(counter: TokenCounter) -> Callable[..., SummaryTask]:
    """A task for blocks, by default those of `work`, with the source's tokens counted."""

    def make(blocks: Sequence[SourceBlock] | None = None, target: int = 300, **more: Any) -> SummaryTask:
        chosen = work() if blocks is None else tuple(blocks)
        tokens = more.pop("source_tokens", sum(counter.text(item.text) for item in chosen))
        return SummaryTask(
            chosen, more.pop("depth", 0), target, tokens, scope=more.pop("scope", "lane"), **more
        )

    return make


@pytest.fixture
def bench(counter: TokenCounter, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    for name in ("LCM_SUMMARY_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)
    with ModelServer() as server:
        yield Bench(server, counter)
    _close_clients()


def _close_clients() -> None:
    """litellm keeps its HTTP clients; left to the garbage collector they would warn in some other test."""
    if "litellm" not in sys.modules:
        return
    cache = sys.modules["litellm"].in_memory_llm_clients_cache
    for key, client in list(cache.cache_dict.items()):
        if "Async" not in type(client).__name__ and callable(getattr(client, "close", None)):
            client.close()
            cache.delete_cache(key)
