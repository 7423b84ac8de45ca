"""Lossless Context Management: keep every message, send a bounded context, find everything again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lcm_plugin.version import VERSION

if TYPE_CHECKING:
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
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'types')}"), name)
