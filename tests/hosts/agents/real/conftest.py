"""The real agents, each in a home of its own, with lcm installed by `lcm install`, against one fake model server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import homes
import pytest
from fake_models import FakeModels
from gateway import Gateway, opened
from real_agents import SMALL_CONTEXT, ClaudeCode, Codex, Gemini, Openclaw, Opencode


@pytest.fixture
def models() -> Iterator[FakeModels]:
    server = FakeModels()
    yield server
    server.close()


@pytest.fixture
def claude(tmp_path: Path, models: FakeModels) -> ClaudeCode:
    """Claude Code with lcm in it."""
    return homes.with_lcm(homes.claude(tmp_path, models))


@pytest.fixture
def codex(tmp_path: Path, models: FakeModels) -> Codex:
    """Codex with lcm in it; its hooks run without a person's trust."""
    return homes.with_lcm(homes.codex(tmp_path, models))


@pytest.fixture
def gemini(tmp_path: Path, models: FakeModels) -> Gemini:
    """Gemini CLI with lcm in it."""
    return homes.with_lcm(homes.gemini(tmp_path, models))


@pytest.fixture
def opencode(tmp_path: Path, models: FakeModels) -> Opencode:
    """opencode with lcm in it."""
    return homes.with_lcm(homes.opencode(tmp_path, models))


@pytest.fixture
def openclaw(tmp_path: Path, models: FakeModels) -> Openclaw:
    """OpenClaw with lcm in its context engine slot."""
    return homes.with_lcm(homes.openclaw(tmp_path, models))


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway of OpenClaw, which takes half a minute to start: the cases of a file have sessions of their own in it."""
    models = FakeModels()
    agent = homes.with_lcm(homes.openclaw(tmp_path_factory.mktemp("gateway"), models))
    agent.environment |= SMALL_CONTEXT
    with opened(agent) as running:
        yield running
    models.close()
