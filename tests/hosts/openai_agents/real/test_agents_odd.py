"""Odd messages through the real host's own loop."""

from __future__ import annotations

from pathlib import Path

from fuzzing import play
from scripted import Item, problems_in

from lcm_plugin import Engine
from lcm_plugin.hosts.openai_agents import LcmSession


def test_an_empty_output_is_recorded_as_it_is_and_shown_as_a_result(engine: Engine) -> None:
    session = LcmSession("empty", engine=engine)
    items = [
        {"role": "user", "content": "look"},
        {"type": "function_call", "call_id": "c", "name": "search", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": []},
        {"role": "user", "content": "and?"},
    ]
    session._add(items)
    assert session._items(100) == items
    (shown,) = [item for item in session._items(None) if item.get("type") == "function_call_output"]
    assert shown["output"]
    assert "no result" not in str(shown["output"])
    assert problems_in(session._items(None)) == []


def asked_next(items: list[Item]) -> list[str]:
    """What is wrong with a history when the user says something behind it."""
    return problems_in([*items, {"role": "user", "content": "go on"}])


def test_odd_messages_lose_double_and_stop_nothing(tmp_path: Path) -> None:
    play("openai_agents", tmp_path, asked_next)
