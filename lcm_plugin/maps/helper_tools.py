"""Tools of the program that the helpers of an agentic map may use beside the reading tools."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from lcm_plugin.errors import InputError, ModelTimeout
from lcm_plugin.summarize.completers import on_worker

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MOST_TOOLS = 32
_helping: ContextVar[bool] = ContextVar("a helper's tool runs in this thread", default=False)


@dataclass(frozen=True, slots=True)
class HelperTool:
    """A tool for helpers: ``parameters`` is the JSON schema of its arguments.

    ``call`` takes the arguments and returns a text, or what JSON can express. It runs on a thread of its own, several
    at a time; what it raises goes to the helper as an error.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    call: Callable[[dict[str, Any]], Any]

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name.startswith("lcm_"):
            raise InputError(
                f"a helper's tool cannot be called {self.name[:80]!r}: letters, digits, _ and -, at most 64, and not "
                "lcm_…"
            )


class HelperTools:
    """A map's tools by their names. Thread-safe."""

    def __init__(self, tools: Sequence[HelperTool] = ()) -> None:
        self._tools = {tool.name: tool for tool in tools}
        if len(self._tools) < len(tools):
            raise InputError("two helper tools have the same name")
        if len(tools) > _MOST_TOOLS:
            raise InputError(f"{len(tools)} helper tools are given; {_MOST_TOOLS} are allowed")

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(self._tools)

    @property
    def schemas(self) -> tuple[dict[str, Any], ...]:
        """As OpenAI function schemas."""
        return tuple(
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": dict(tool.parameters),
                },
            }
            for tool in self._tools.values()
        )

    def answer(self, name: str, arguments: Any, seconds: float) -> str:
        """What a tool returns, as text; an error's text when it fails or takes longer than ``seconds``."""
        if not isinstance(arguments, dict):
            return _error("the arguments must be a JSON object")

        def run() -> Any:
            _helping.set(True)
            return self._tools[name].call(arguments)

        try:
            found = on_worker(run, max(0.0, seconds), threading.Event())
            return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, default=str)
        except ModelTimeout as error:
            return _error(f"{name}: {error}")
        except Exception as error:  # noqa: BLE001 - the helper reads what went wrong and goes on
            return _error(f"{name}: {type(error).__name__}: {error}"[:500])


def refuse_recursion() -> None:
    """Raises `InputError` in a helper's tool: no map begins within an item of another."""
    if _helping.get():
        raise InputError("a tool of a map's helper cannot begin a map: each item would begin more of them")


def _error(text: str) -> str:
    return json.dumps({"error": text}, ensure_ascii=False)
