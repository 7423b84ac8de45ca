"""Threads and processes that ingest into and compact one database at once.

A few seconds in the suite; ``TEST_CONCURRENCY_SECONDS=60`` makes it a minute.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from effort import FULL
from fakes.processes import Running
from invariants import assert_sound

from lcm_plugin import Engine, LcmConfig, Session

pytestmark = pytest.mark.both_stores

SECONDS = float(os.environ.get("TEST_CONCURRENCY_SECONDS", "2.5" if FULL else "0.5"))
SHARES = {"sqlite": 1.0, "postgres": 0.5}
_CHILD = Path(__file__).with_name("concurrency_child.py")
THREADS, PROCESSES = 8, 4


def test_processes_with_threads_lose_nothing_double_nothing_and_see_no_lock(
    database_named: Callable[[str], str], store_kind: str, tmp_path: Path
) -> None:
    database, how = database_named("lcm"), (str(SECONDS * SHARES[store_kind]), str(THREADS // PROCESSES))
    outputs = [tmp_path / f"{number}.json" for number in range(PROCESSES)]
    children = [
        Running(_CHILD, database, output.stem, *how, stdout=output, stderr=tmp_path / "errors")
        for output in outputs
    ]
    written: dict[str, int] = {}
    for child, output in zip(children, outputs, strict=True):
        assert child.wait() == 0, (tmp_path / "errors").read_text()[-2_000:]
        report: dict[str, Any] = json.loads(output.read_text())
        assert report["errors"] == [], report["errors"][:3]
        for text, count in report["written"].items():
            written[text] = written.get(text, 0) + count
    check(database, written)


@pytest.mark.long
def test_threads_of_one_process_lose_nothing_and_double_nothing(
    database_named: Callable[[str], str], store_kind: str
) -> None:
    from concurrency_child import SETTINGS, work

    database = database_named("lcm")
    written: list[dict[str, int]] = []
    errors: list[str] = []
    with Engine.open(LcmConfig(database=database, **SETTINGS)) as engine:
        threads = [
            threading.Thread(
                target=work, args=(engine, f"t{number}", SECONDS * SHARES[store_kind] / 2, written, errors)
            )
            for number in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert engine.wait_idle(60)
    assert errors == []
    check(database, {text: count for row in written for text, count in row.items()})


def check(database: str, written: dict[str, int]) -> None:
    """Every acknowledged message is there, once, and every invariant holds."""
    from concurrency_child import LANES

    assert_sound(database)
    with Engine.open(LcmConfig(database=database)) as engine:
        stored: dict[str, int] = {}
        summaries = 0
        for lane in LANES:
            for message in engine.messages(Session(lane)):
                stored[message["content"]] = stored.get(message["content"], 0) + 1
            summaries += sum(item.kind == "summary" for item in engine.context_items(Session(lane)))
        assert stored == written
        assert summaries > 0
        assert engine.check().ok
