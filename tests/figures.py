"""Figures that a test run measured, printed after its tests, also when they ran in several processes.

A `conftest.py` takes both names in: ``from figures import figure, pytest_terminal_summary``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

__all__ = ["figure", "pytest_terminal_summary"]

_FIGURE = "figure"


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Notes a line that tells what a run measured."""
    return lambda line: record_property(_FIGURE, line)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints what was noted."""
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, ()):
            for name, line in report.user_properties:
                if name == _FIGURE and report.when == "call":
                    terminalreporter.write_line(line)
