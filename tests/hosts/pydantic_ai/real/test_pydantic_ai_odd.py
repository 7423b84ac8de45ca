"""Odd messages through the real host's own loop."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from checks import problems_of
from fuzzing import play, play_deep
from pydantic_ai.messages import ModelMessage


def refused(messages: Sequence[ModelMessage]) -> list[str]:
    """The rules that a list breaks, but for two responses in a row: the host has them, and its models join them."""
    return [problem for problem in problems_of(messages) if "alternate" not in problem]


def test_odd_messages_lose_double_and_stop_nothing(tmp_path: Path) -> None:
    play("pydantic_ai", tmp_path, refused)


def test_messages_nested_deeper_than_python_recurses_lose_and_stop_nothing(tmp_path: Path) -> None:
    play_deep("pydantic_ai", tmp_path, refused)
