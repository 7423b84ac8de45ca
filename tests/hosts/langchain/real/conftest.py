"""An engine on a fresh database for each test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from figures import figure, pytest_terminal_summary

from lcm_plugin import Engine, LcmConfig

__all__ = ["figure", "pytest_terminal_summary"]

os.environ["LCM_CONFIG"] = str(Path(__file__).with_name("no-settings.json"))
os.environ["LANGSMITH_TRACING"] = "false"
hypothesis.settings.register_profile("hosts", deadline=None, max_examples=60)
hypothesis.settings.load_profile("hosts")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine.open(LcmConfig(database=str(tmp_path / "lcm.db"))) as opened:
        yield opened
