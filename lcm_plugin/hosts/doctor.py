"""``lcm doctor --host``: does a host really use lcm, and can anything be stored? Run it where the host runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lcm_plugin.errors import InputError
from lcm_plugin.types import Finding, Severity

if TYPE_CHECKING:
    from lcm_plugin.config import LcmConfig


class Host(StrEnum):
    """Hosts that can be checked."""

    BUB = "bub"
    CHAT = "chat"
    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    GEMINI = "gemini"
    HERMES = "hermes"
    LANGCHAIN = "langchain"
    MCP = "mcp"
    OPENCLAW = "openclaw"
    OPENCODE = "opencode"
    OPENAI_AGENTS = "openai-agents"
    PYDANTIC_AI = "pydantic-ai"


@dataclass(frozen=True, slots=True)
class _Check:
    """``needs`` is the module that must import. ``settings`` loads the host's own, ``own`` looks at the host itself."""

    needs: str
    install: str
    settings: str = ""
    own: str = ""


_CHECKS = {
    Host.BUB: _Check("bub", "lcm_plugin[bub]", "bub.settings:bub_config", "bub.doctor:own_findings"),
    Host.CHAT: _Check("litellm", "lcm_plugin[litellm]"),
    Host.CLAUDE_CODE: _Check(
        "mcp.server.lowlevel",
        "lcm_plugin[mcp]",
        "agents.doctor:claude_code_config",
        "agents.doctor:claude_code_findings",
    ),
    Host.CODEX: _Check(
        "mcp.server.lowlevel", "lcm_plugin[mcp]", "agents.doctor:codex_config", "agents.doctor:codex_findings"
    ),
    Host.GEMINI: _Check(
        "mcp.server.lowlevel",
        "lcm_plugin[mcp]",
        "agents.doctor:gemini_config",
        "agents.doctor:gemini_findings",
    ),
    Host.HERMES: _Check(
        "hermes_cli.config", "lcm_plugin", "hermes.settings:hermes_config", "hermes.doctor:own_findings"
    ),
    Host.LANGCHAIN: _Check("langchain.agents.middleware", "lcm_plugin[langchain]"),
    Host.MCP: _Check("mcp.server.lowlevel", "lcm_plugin[mcp]"),
    Host.OPENCLAW: _Check(
        "lcm_plugin.hosts.stdio",
        "lcm_plugin",
        "agents.doctor:openclaw_config",
        "agents.doctor:openclaw_findings",
    ),
    Host.OPENCODE: _Check(
        "mcp.server.lowlevel",
        "lcm_plugin[mcp]",
        "agents.doctor:opencode_config",
        "agents.doctor:opencode_findings",
    ),
    Host.OPENAI_AGENTS: _Check("agents", "lcm_plugin[openai-agents]"),
    Host.PYDANTIC_AI: _Check("pydantic_ai", "lcm_plugin[pydantic-ai]"),
}
_ORDER = [Severity.ERROR, Severity.WARNING, Severity.INFO]


def check_host(host: Host, database: str | None = None) -> list[Finding]:
    """What stands between a host and the engine, errors first; the settings, the database and a row are tried.

    A last finding of severity ``info`` with the code ``<host>.active`` is there only when no error was found.
    ``database`` is for hosts that name it in their program; others read it from their settings, and `InputError` says so.
    """
    from lcm_plugin.maintenance.proof import prove

    check = _CHECKS[host]
    if database and check.settings:
        raise InputError(f"{host} reads the database from its own settings: leave --database out")
    try:
        _imported(check.needs)
    except Exception as error:  # noqa: BLE001 - a host that breaks at its import is what is looked for
        missing = f"{check.needs} cannot be imported in this Python ({sys.prefix}): {type(error).__name__}: {error}."
        repair = f"Run the check with the Python that runs the host, and install {check.install} there."
        return [Finding(f"{host}.missing", Severity.ERROR, missing, repair=repair)]
    findings = [
        *_own(check, host),
        *prove(host.value, _settings_of(check, database), time.time_ns() // 1_000_000),
    ]
    if not any(finding.severity is Severity.ERROR for finding in findings):
        findings.append(_active(host, check))
    return sorted(findings, key=lambda finding: _ORDER.index(finding.severity))


def _imported(module: str) -> None:
    from lcm_plugin.summarize import litellm_client

    if module == "litellm":
        # It asks the network for prices unless it is told not to.
        litellm_client.load()
    else:
        import_module(module)


def _own(check: _Check, host: Host) -> Iterator[Finding]:
    if not check.own:
        return
    own: Callable[[], Iterator[Finding]] = _named(check.own)
    try:
        yield from own()
    except Exception as error:  # noqa: BLE001 - whatever the host raises is an answer
        text = f"looking at the host failed: {type(error).__name__}: {error}"
        yield Finding(f"{host}.failed", Severity.ERROR, text)


def _settings_of(check: _Check, database: str | None) -> Callable[[], LcmConfig]:
    if check.settings:
        loaded: Callable[[], LcmConfig] = _named(check.settings)
        return loaded
    from lcm_plugin.config.file import load_config

    return lambda: load_config(**({"database": database} if database else {}))


def _active(host: Host, check: _Check) -> Finding:
    if check.own:
        return Finding(f"{host}.active", Severity.INFO, f"the host {host} has loaded and selected lcm")
    text = f"{check.needs} is installed and the database works; your program chooses lcm itself"
    return Finding(f"{host}.active", Severity.INFO, text)


def _named(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(f"lcm_plugin.hosts.{module}"), name)
