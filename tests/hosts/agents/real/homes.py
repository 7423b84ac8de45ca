"""A user's machine with one of the agents on it: its settings, as for a machine without a network."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fake_models import FakeModels
from real_agents import ClaudeCode, Codex, Gemini, Openclaw, Opencode

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


def claude(home: Path, models: FakeModels) -> ClaudeCode:
    """Claude Code."""
    quiet = (
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "DISABLE_AUTOUPDATER",
        "DISABLE_TELEMETRY",
        "IS_SANDBOX",
    )
    agent = ClaudeCode("claude-code", home, models, dict.fromkeys(quiet, "1"))
    agent.environment |= {
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "ANTHROPIC_BASE_URL": models.url,
        "ANTHROPIC_API_KEY": "sk-dummy-key-0123456789abcdefghij",
        # A busy machine is no fault of the plugin's.
        "MCP_TIMEOUT": "120000",
        "PLUGIN_TIMEOUT_OF_LCM_MS": "4500",
    }
    return agent


def codex(home: Path, models: FakeModels) -> Codex:
    """Codex; its hooks run without a person's trust."""
    agent = Codex("codex", home, models, {"CODEX_HOME": str(home / ".codex"), "FAKE_KEY": "x"})
    agent.environment["PLUGIN_TIMEOUT_OF_LCM_MS"] = "4500"
    (home / ".codex").mkdir()
    text = _CODEX_CONFIG.format(url=models.url, project=agent.project)
    (home / ".codex" / "config.toml").write_text(text)
    return agent


def gemini(home: Path, models: FakeModels) -> Gemini:
    """Gemini CLI."""
    agent = Gemini("gemini", home, models, {"GEMINI_API_KEY": "dummy", "GOOGLE_GEMINI_BASE_URL": models.url})
    settings = {
        "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "hooksConfig": {"enabled": True},
    }
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings))
    return agent


def opencode(home: Path, models: FakeModels) -> Opencode:
    """opencode."""
    quiet = ("AUTOUPDATE", "MODELS_FETCH", "DEFAULT_PLUGINS", "SHARE", "LSP_DOWNLOAD")
    agent = Opencode("opencode", home, models, {f"OPENCODE_DISABLE_{name}": "1" for name in quiet})
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
    folder = home / ".config" / "opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.json").write_text(json.dumps(settings))
    # opencode installs this package itself, which takes a minute; without a network it waits for that at each start.
    kept = Path(os.environ["LCM_TEST_AGENTS"]) / "opencode" / "warm"
    (folder / "node_modules").symlink_to(kept / "node_modules")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(kept / name, folder)
    return agent


def openclaw(home: Path, models: FakeModels) -> Openclaw:
    """OpenClaw, without a gateway."""
    agent = Openclaw("openclaw", home, models, {"OPENCLAW_STATE_DIR": str(home / "state")})
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
    (home / "state").mkdir()
    (home / "state" / "openclaw.json").write_text(json.dumps(settings))
    return agent


HOMES: dict[str, Callable[[Path, FakeModels], Any]] = {
    "claude-code": claude,
    "codex": codex,
    "gemini": gemini,
    "opencode": opencode,
    "openclaw": openclaw,
}


def with_lcm(agent: Any) -> Any:
    """An agent with lcm in it."""
    agent.project.mkdir(exist_ok=True)
    assert shutil.which(agent.program), f"{agent.program} is not installed: run tests/hosts/agents/run.sh"
    output = agent.lcm("install", agent.name)
    assert "Left to do" in output
    return agent
