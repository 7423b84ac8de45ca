"""How many tokens the host itself adds to a model call: the system prompt and the tools' schemas."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from lcm_plugin.lru import LruCache

_KEPT = 32


class Overhead:
    """Counts each prompt and each set of tools once. Thread-safe. ``count`` gives the tokens of a value."""

    def __init__(self, count: Callable[[Any], int]) -> None:
        self._count = count
        self._counted: LruCache[Hashable, int] = LruCache(_KEPT)

    def of(self, request: Any, state: Mapping[str, Any]) -> int:
        """The tokens of a request's system messages and offered tools."""
        prompts = [m for m in request.messages if m.get("role") == "system"]
        told = sum(self._once(str(message.get("content")), message) for message in prompts)
        names = tuple(request.tool_names)
        return told + (self._once(names, _schemas(names, state)) if names else 0)

    def _once(self, key: Hashable, value: Any) -> int:
        known = self._counted.get(key)
        return self._counted.put_new(key, self._count(value)) if known is None else known


def _schemas(names: tuple[str, ...], state: Mapping[str, Any]) -> list[Any]:
    """The schemas of the turn's tools, which the host offers with the dots of their names replaced."""
    tools = getattr(state.get("_runtime_agent"), "tools", {})
    by_name = {name.replace(".", "_"): tool for name, tool in tools.items()}
    return [by_name[name].to_schema() for name in names if name in by_name]
