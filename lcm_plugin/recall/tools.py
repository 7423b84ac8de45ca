"""The recall tools: their schemas, and the call that answers them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lcm_plugin.recall.schemas import TOOL_NAMES, tool_schemas

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine
    from lcm_plugin.types import Session

__all__ = ["TOOL_NAMES", "call_tool", "tool_schemas"]


def call_tool(engine: Engine, session: Session, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A tool's answer as a dict; what goes wrong is told in it, as ``error`` and ``error_code``."""
    return engine.recall.call(session, name, arguments)
