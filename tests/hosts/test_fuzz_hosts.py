"""A few talks with odd messages through each adapter that needs no host; ``python benchmarks/fuzz_hosts.py`` plays more."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzzing import play, play_deep

from lcm_plugin.messages.validate import validate


@pytest.mark.parametrize("host", ["plugin", "hermes", "bub"])
def test_odd_messages_lose_double_and_stop_nothing(tmp_path: Path, host: str) -> None:
    play(host, tmp_path, validate)


@pytest.mark.long
@pytest.mark.parametrize("host", ["plugin", "hermes", "bub"])
def test_messages_nested_deeper_than_python_recurses_lose_and_stop_nothing(tmp_path: Path, host: str) -> None:
    play_deep(host, tmp_path, validate)
