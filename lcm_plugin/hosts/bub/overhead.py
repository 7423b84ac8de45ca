"""How many tokens the host itself adds to a model call: the system prompt and the tools' schemas."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from lcm_plugin.forks import FreshLocks, join

_KEPT = 32


class Overhead(FreshLocks):
    """Counts each prompt and each set of tools once. Thread-safe. ``count`` gives the tokens of a value."""

    def __init__(self, count: Callable[[Any], int]) -> None:
        self._count = count
        self._counted: OrderedDict[Hashable, int] = OrderedDict()
        self._lock = threading.Lock()
        join(self)

    def of(self, request: Any, state: Mapping[str, Any]) -> int:
        """The tokens of a request's system messages and offered tools."""
        prompts = [m for m in request.messages if m.get("role") == "system"]
        told = sum(self._once(str(message.get("content")), message) for message in prompts)
        names = tuple(request.tool_names)
        return told + (self._once(names, _schemas(names, state)) if names else 0)

    def _once(self, key: Hashable, value: Any) -> int:
        with self._lock:
            if key in self._counted:
                self._counted.move_to_end(key)
                return self._counted[key]
        tokens = self._count(value)
        with self._lock:
            self._counted[key] = tokens
            if len(self._counted) > _KEPT:
                self._counted.popitem(last=False)
        return tokens


def _schemas(names: tuple[str, ...], state: Mapping[str, Any]) -> list[Any]:
    """The schemas of the turn's tools, which the host offers with the dots of their names replaced."""
    tools = getattr(state.get("_runtime_agent"), "tools", {})
    by_name = {name.replace(".", "_"): tool for name, tool in tools.items()}
    return [by_name[name].to_schema() for name in names if name in by_name]
