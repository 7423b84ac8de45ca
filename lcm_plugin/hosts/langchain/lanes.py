"""Which session a running graph talks in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from langgraph.config import get_config

from lcm_plugin.types import Session

_CHECKPOINTER = "__pregel_checkpointer"
KeyOf = Callable[[Mapping[str, Any]], "Session | str | None"]


def thread_session(config: Mapping[str, Any]) -> Session | None:
    """The session of a run's ``thread_id``; None when the run has none.

    An agent that runs as a node of a larger graph has a lane of its own in the thread. One that a tool
    started (a sub-agent) has one for each call, since each begins with an empty history.
    """
    settings = config.get("configurable") or {}
    thread = settings.get("thread_id")
    if thread is None or thread == "":
        return None
    outer = str(settings.get("checkpoint_ns") or "").rpartition("|")[0]
    steps = [_step(step) for step in outer.split("|") if step]
    return Session(":".join(["langchain", str(thread), *steps]))


def running_session(choose: KeyOf | None = None) -> Session | None:
    """The session of the graph that runs in this context, by its config."""
    try:
        config: Mapping[str, Any] = get_config()
    except RuntimeError:
        return None
    chosen = thread_session(config) if choose is None else choose(config)
    return Session(chosen) if isinstance(chosen, str) else chosen


def keeps_its_state() -> bool:
    """Whether the graph that runs in this context has a checkpointer: its state goes on, with the same message ids."""
    try:
        return (get_config().get("configurable") or {}).get(_CHECKPOINTER) is not None
    except RuntimeError:
        return False


def _step(step: str) -> str:
    name, _, task = step.partition(":")
    return f"{name}/{task}" if name == "tools" else name
