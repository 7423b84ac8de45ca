"""The engine with the host's base class. Importable only where the host is."""

from __future__ import annotations

from typing import Any

from lcm_plugin.hosts.hermes.engine import HermesEngine


def engine_class() -> type[Any]:
    """The class of engine that the host accepts: ours, and an instance of its ``ContextEngine``."""
    from agent.context_engine import ContextEngine

    return type("LcmContextEngine", (HermesEngine, ContextEngine), {"__module__": __name__})
