"""Lossless Context Management: keep every message, send a bounded context, find everything again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lcm_plugin.version import VERSION

if TYPE_CHECKING:
    from types import ModuleType

    from lcm_plugin.config import LcmConfig
    from lcm_plugin.engine import Engine
    from lcm_plugin.errors import LcmError
    from lcm_plugin.hookspecs import hookimpl
    from lcm_plugin.memory import AsyncMemory, Memory
    from lcm_plugin.plugin import LcmPlugin
    from lcm_plugin.types import CompletionRequest, CompletionResult, Context, Reset, Session, Turn, Usage

__version__ = VERSION
__all__ = [
    "AsyncMemory",
    "CompletionRequest",
    "CompletionResult",
    "Context",
    "Engine",
    "LcmConfig",
    "LcmError",
    "LcmPlugin",
    "Memory",
    "Reset",
    "Session",
    "Turn",
    "Usage",
    "hookimpl",
]

_HOMES = {
    "AsyncMemory": "memory",
    "Engine": "engine",
    "LcmConfig": "config",
    "LcmError": "errors",
    "LcmPlugin": "plugin",
    "Memory": "memory",
    "hookimpl": "hookspecs",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_load(_HOMES.get(name, "types")), name)


def _load(module: str) -> ModuleType:
    """A module of the package, without runs of the collector, which would take a fifth of the time.

    What a module makes stays, so there is nothing to collect, and a host's memory would be gone through each time.
    """
    import gc
    from importlib import import_module

    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return import_module(f"{__name__}.{module}")
    finally:
        if was_enabled:
            gc.enable()
