"""A text of any size goes to its file without a second copy of it in memory."""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path

import pytest

from lcm_plugin import Engine, LcmConfig, Session
from lcm_plugin.files.content import Content
from lcm_plugin.files.explore import explore
from lcm_plugin.files.explore.base import HEAD_BYTES, TAIL_BYTES

TEXTS = {
    "prose": " the amber lantern hangs in the shed\nand 42 more; ",
    "umlauts": "die alte Lampe hängt über der Tür\n",
    "emoji": "😀🚢",
    "lone surrogates": "amber \ud83d lantern\n",
}


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    "name", ["prose", *(pytest.param(name, marks=pytest.mark.long) for name in ("emoji", "lone surrogates"))]
)
def test_storing_a_large_text_takes_far_less_memory_than_the_text(tmp_path: Path, name: str) -> None:
    text = TEXTS[name] * (40_000_000 // len(TEXTS[name]))
    session = Session("large")
    with Engine.open(LcmConfig(database=str(tmp_path / "lcm.db"))) as engine:
        engine.ingest(session, [{"role": "user", "content": "first"}])
        tracemalloc.start()
        try:
            engine.ingest(session, [{"role": "user", "content": text}], mode="append")
            assert tracemalloc.get_traced_memory()[1] < sys.getsizeof(text) * 3 // 4
        finally:
            tracemalloc.stop()
        assert engine.messages(session)[1]["content"] == text


@pytest.mark.long
@pytest.mark.parametrize("name", ["prose", "umlauts"])
@pytest.mark.parametrize("ending", ["", "\n", "no break"])
def test_a_large_text_is_explored_as_its_bytes_are(name: str, ending: str) -> None:
    text = TEXTS[name] * ((HEAD_BYTES + TAIL_BYTES) // len(TEXTS[name]) + 1) + ending
    assert explore(Content(text)) == explore(Content(text).whole())
