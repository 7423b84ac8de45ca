"""An engine on a fresh database for each test, and no tracing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import agents
import hypothesis
import pytest

from lcm_plugin import Engine, LcmConfig
from lcm_plugin.hosts.openai_agents import LcmSession

agents.set_tracing_disabled(True)
hypothesis.settings.register_profile("hosts", deadline=None, max_examples=60)
hypothesis.settings.load_profile("hosts")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine.open(LcmConfig(database=str(tmp_path / "lcm.db"), fresh_tail_count=8)) as opened:
        yield opened


@pytest.fixture
def session_of(engine: Engine) -> Callable[..., LcmSession]:
    def make(name: str = "one", **options: Any) -> LcmSession:
        return LcmSession(name, engine=engine, **options)

    return make
