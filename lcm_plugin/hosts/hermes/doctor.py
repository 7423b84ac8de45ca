"""Is Lossless Context Management really what this Hermes uses? Specific answers, each with its mend."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from lcm_plugin.errors import ConfigError
from lcm_plugin.hosts.hermes.settings import host_config, read_settings
from lcm_plugin.types import Finding, Severity

ENGINE = "lcm"
ENTRY_POINTS = "hermes_agent.plugins"


def own_findings() -> Iterator[Finding]:
    """What stands between this Hermes installation and the engine.

    Reads the host's configuration and loads its plugins, as the host does at start.
    """
    config = host_config()
    yield from _configuration(config)
    yield from _useless_settings()
    yield from _leftovers()
    yield from _loaded(config)


def selected_engine(config: Mapping[str, Any]) -> str:
    """The context engine that the host's config names."""
    context = config.get("context")
    name = context.get("engine") if isinstance(context, Mapping) else None
    return str(name or "compressor")


def not_selected(name: str) -> str:
    """What to say when the plugin is loaded and another engine is selected."""
    return (
        f"LCM IS NOT ACTIVE: Hermes uses the context engine '{name}', so nothing is stored or searched "
        "by LCM. Run: hermes config set context.engine lcm"
    )


def _configuration(config: Mapping[str, Any]) -> Iterator[Finding]:
    name = selected_engine(config)
    if name != ENGINE:
        yield _error("hermes.not_selected", not_selected(name), "hermes config set context.engine lcm")
    plugins = config.get("plugins") if isinstance(config.get("plugins"), Mapping) else {}
    assert isinstance(plugins, Mapping)
    if ENGINE in (plugins.get("disabled") or ()):
        yield _error("hermes.disabled", "plugins.disabled names 'lcm'.", "hermes plugins enable lcm")
    elif ENGINE not in (plugins.get("enabled") or ()):
        yield _error(
            "hermes.not_enabled",
            "plugins.enabled does not name 'lcm', so Hermes does not load the plugin.",
            "hermes plugins enable lcm",
        )
    compression = config.get("compression")
    if isinstance(compression, Mapping) and compression.get("enabled") is False:
        yield Finding(
            "hermes.compression_off",
            Severity.WARNING,
            "compression.enabled is false: messages are stored and found, but the context is never made smaller.",
            repair="hermes config set compression.enabled true",
        )
    toolsets = config.get("platform_toolsets")
    for platform, names in toolsets.items() if isinstance(toolsets, Mapping) else ():
        if isinstance(names, list) and not names:
            yield Finding(
                "hermes.no_tools",
                Severity.WARNING,
                f"platform_toolsets.{platform} is empty, so the agent has no recall tools there.",
                repair=f"add context_engine to platform_toolsets.{platform}",
            )


def _useless_settings() -> Iterator[Finding]:
    try:
        _, useless = read_settings()
    except ConfigError:
        return  # the check of the database names it
    for text in useless:
        yield Finding("hermes.setting", Severity.WARNING, f"{text}.", repair="correct it or remove it")


def _leftovers() -> Iterator[Finding]:
    try:
        import plugins.context_engine as bundled
    except ImportError:
        return
    folder = Path(str(bundled.__file__)).parent / ENGINE
    if folder.exists():
        yield _error(
            "hermes.leftover",
            f"{folder} holds another engine named 'lcm'; Hermes prefers it to the plugin.",
            f"remove the folder {folder}",
        )


def _loaded(config: Mapping[str, Any]) -> Iterator[Finding]:
    from hermes_cli.plugins import discover_plugins, get_plugin_context_engine, get_plugin_manager

    discover_plugins()
    loaded = getattr(get_plugin_manager(), "_plugins", {}).get(ENGINE)
    if loaded is None:
        yield _error(
            "hermes.not_found",
            f"Hermes found no plugin named 'lcm': neither the entry point ({_entry_point()}) nor a folder "
            "plugins/lcm in its home.",
            f"{sys.executable} -m pip install lcm_plugin",
        )
        return
    error = getattr(loaded, "error", None)
    if error and getattr(loaded, "enabled", False) is False and "not enabled" not in str(error):
        yield _error("hermes.load_failed", f"Hermes could not load the plugin: {error}", "see its agent.log")
    engine = get_plugin_context_engine()
    if engine is None:
        return
    if getattr(engine, "name", None) != ENGINE:
        yield _error(
            "hermes.other_engine",
            f"another plugin registered its context engine first: {getattr(engine, 'name', engine)!r}.",
            "disable that plugin; Hermes takes one engine only",
        )
        return
    try:
        copy.deepcopy(engine)
    except Exception as failure:  # noqa: BLE001 - whatever stops the host's copy is what we report
        yield _error("hermes.copy", f"the engine cannot be copied for an agent: {failure}", "report this")


def _entry_point() -> str:
    found = [point.value for point in entry_points(group=ENTRY_POINTS) if point.name == ENGINE]
    return found[0] if found else f"none in {sys.prefix}"


def _error(code: str, message: str, repair: str) -> Finding:
    return Finding(code, Severity.ERROR, message, repair=repair)
