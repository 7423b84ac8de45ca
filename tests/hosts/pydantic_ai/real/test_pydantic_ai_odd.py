"""Odd messages through the real host's own loop."""

from __future__ import annotations

from pathlib import Path

from fuzzing import play


def test_odd_messages_lose_double_and_stop_nothing(tmp_path: Path) -> None:
    play("pydantic_ai", tmp_path)
