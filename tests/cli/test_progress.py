"""The bar of long work in a terminal: how far it is, how fast, what it cost, and the time left."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stderr

import pytest

from lcm_plugin.cli.output import progress


class Terminal(io.StringIO):
    """What a person sees who looks at standard error."""

    def isatty(self) -> bool:
        return True


def test_the_bar_shows_count_rate_cost_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    with redirect_stderr(Terminal()) as shown, progress("asking", 10, "items") as update:
        for done in range(1, 6):
            update(done, f"$0.0{done}")
    last = shown.getvalue().split("asking")[-1]
    assert "5/10" in last
    assert "items/s · $0.05" in last
    assert re.search(r" \d:\d\d:\d\d", last)


def test_where_it_is_not_wanted_or_nobody_looks_there_is_no_bar() -> None:
    for quiet, looks in ((True, Terminal()), (False, io.StringIO())):
        with redirect_stderr(looks) as shown, progress("asking", 10, "items", quiet=quiet) as update:
            update(10, "$0.10")
        assert shown.getvalue() == ""
