"""The real agents, each in a home of its own, with lcm installed by `lcm install`, against one fake model server."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_models import FakeModels
from gateway import Gateway, opened
from real_agents import SMALL_CONTEXT, ClaudeCode, Codex, Gemini, Openclaw, Opencode

_CODEX_CONFIG = """model = "gpt-5.5-codex"
model_provider = "fake"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.fake]
name = "fake"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
request_max_retries = 0
stream_max_retries = 0
[projects."{project}"]
trust_level = "trusted"
"""


@pytest.fixture
def models() -> Iterator[FakeModels]:
    server = FakeModels()
    yield server
    server.close()


@pytest.fixture
def claude(tmp_path: Path, models: FakeModels) -> ClaudeCode:
    """Claude Code with lcm in it."""
    quiet = (
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "DISABLE_AUTOUPDATER",
        "DISABLE_TELEMETRY",
        "IS_SANDBOX",
    )
    agent = ClaudeCode("claude-code", tmp_path, models, dict.fromkeys(quiet, "1"))
    agent.environment |= {
        "CLAUDE_CONFIG_DIR": str(tmp_path / ".claude"),
        "ANTHROPIC_BASE_URL": models.url,
        "ANTHROPIC_API_KEY": "sk-dummy-key-0123456789abcdefghij",
        # A busy machine is no fault of the plugin's.
        "MCP_TIMEOUT": "120000",
        "PLUGIN_TIMEOUT_OF_LCM_MS": "4500",
    }
    return _installed(agent)


@pytest.fixture
def codex(tmp_path: Path, models: FakeModels) -> Codex:
    """Codex with lcm in it; its hooks run without a person's trust."""
    agent = Codex("codex", tmp_path, models, {"CODEX_HOME": str(tmp_path / ".codex"), "FAKE_KEY": "x"})
    agent.environment["PLUGIN_TIMEOUT_OF_LCM_MS"] = "4500"
    (tmp_path / ".codex").mkdir()
    text = _CODEX_CONFIG.format(url=models.url, project=agent.project)
    (tmp_path / ".codex" / "config.toml").write_text(text)
    return _installed(agent)


@pytest.fixture
def gemini(tmp_path: Path, models: FakeModels) -> Gemini:
    """Gemini CLI with lcm in it."""
    agent = Gemini(
        "gemini", tmp_path, models, {"GEMINI_API_KEY": "dummy", "GOOGLE_GEMINI_BASE_URL": models.url}
    )
    settings = {
        "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "hooksConfig": {"enabled": True},
    }
    (tmp_path / ".gemini").mkdir()
    (tmp_path / ".gemini" / "settings.json").write_text(json.dumps(settings))
    return _installed(agent)


@pytest.fixture
def opencode(tmp_path: Path, models: FakeModels) -> Opencode:
    """opencode with lcm in it."""
    quiet = ("AUTOUPDATE", "MODELS_FETCH", "DEFAULT_PLUGINS", "SHARE", "LSP_DOWNLOAD")
    agent = Opencode("opencode", tmp_path, models, {f"OPENCODE_DISABLE_{name}": "1" for name in quiet})
    # A busy machine is no fault of the plugin's.
    agent.environment["PLUGIN_TIMEOUT_OF_LCM_MS"] = "60000"
    limit = {"context": 200_000, "output": 8_000}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{models.url}/v1", "apiKey": "x"},
        "models": {"fake-model": {"limit": limit}},
    }
    settings = {
        "autoupdate": False,
        "share": "disabled",
        "model": "fake/fake-model",
        "small_model": "fake/fake-model",
        "provider": {"fake": provider},
        "permission": {"*": "allow"},
    }
    folder = tmp_path / ".config" / "opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.json").write_text(json.dumps(settings))
    # opencode installs this package itself, which takes a minute; without a network it waits for that at each start.
    kept = Path(os.environ["LCM_TEST_AGENTS"]) / "opencode" / "warm"
    (folder / "node_modules").symlink_to(kept / "node_modules")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(kept / name, folder)
    return _installed(agent)


@pytest.fixture
def openclaw(tmp_path: Path, models: FakeModels) -> Openclaw:
    """OpenClaw with lcm in its context engine slot."""
    return _openclaw(tmp_path, models)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway of OpenClaw, which takes half a minute to start: the cases of a file have sessions of their own in it."""
    models = FakeModels()
    agent = _openclaw(tmp_path_factory.mktemp("gateway"), models)
    agent.environment |= SMALL_CONTEXT
    with opened(agent) as running:
        yield running
    models.close()


def _openclaw(tmp_path: Path, models: FakeModels) -> Openclaw:
    agent = Openclaw("openclaw", tmp_path, models, {"OPENCLAW_STATE_DIR": str(tmp_path / "state")})
    agent.environment["PLUGIN_TIMEOUT_OF_LCM_MS"] = "120000"
    # It needs a newer Node than the others.
    newer = Path(os.environ["LCM_TEST_AGENTS"]) / "node" / "node_modules" / "node" / "bin"
    agent.environment["PATH"] = f"{newer}{os.pathsep}{agent.env()['PATH']}"
    free = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    model = {"id": "fake-model", "name": "Fake", "reasoning": False, "input": ["text"], "cost": free}
    limits = {"contextWindow": 128_000, "maxTokens": 8_192}
    provider = {"baseUrl": f"{models.url}/v1", "apiKey": "x", "api": "openai-completions"}
    workspace = {"workspace": str(agent.project), "skipBootstrap": True}
    settings = {
        "update": {"checkOnStart": False, "auto": {"enabled": False}},
        "agents": {"defaults": {**workspace, "model": {"primary": "fake/fake-model"}}},
        "models": {"mode": "merge", "providers": {"fake": {**provider, "models": [{**model, **limits}]}}},
    }
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "openclaw.json").write_text(json.dumps(settings))
    return _installed(agent)


def _installed(agent: Any) -> Any:
    agent.project.mkdir(exist_ok=True)
    assert shutil.which(agent.program), f"{agent.program} is not installed: run tests/hosts/agents/run.sh"
    output = agent.lcm("install", agent.name)
    assert "Left to do" in output
    return agent
