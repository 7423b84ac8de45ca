"""The fuzzer of ``benchmarks/fuzz_hosts.py``, for tests that play a few of its talks."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import effort

from lcm_plugin import Engine, LcmConfig

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"


def play(host: str, folder: Path, problems_in: Callable[[Any], list[str]], whole: int = 8) -> None:
    """Plays some talks with odd messages, ``whole`` of them and always the same under CI; fails naming the example.

    ``problems_in`` says what providers would refuse of a context in the host's own objects.
    """
    seed, examples = effort.seed(), effort.examples(whole, here=3)
    counts = _loaded("fuzz_hosts").run(host, examples, seed, folder, problems_in)
    assert counts["examples"] == examples
    assert counts["odd"] > 0


# How deep, and how many of the forms: the deepest ones take a second each.
DEPTHS = {990: 6, 3_000: 6, 100_000: 1}


def play_deep(host: str, folder: Path, problems_in: Callable[[Any], list[str]]) -> None:
    """Hands over messages nested deeper than Python recurses, sound ones between them, and calls tools."""
    fuzz = _loaded("fuzz_hosts")
    config = LcmConfig(database=str(folder / "deep.db"), fresh_tail_count=4, leaf_chunk_tokens=400)
    for depth, forms in DEPTHS.items():
        deep, said = fuzz.nested(depth), list[str]()
        with Engine.open(config) as engine:
            driver = fuzz.Checked(fuzz.DRIVERS[host](engine, Random(depth), f"deep-{depth}"), problems_in)
            for number, odd in enumerate(_nested_messages(deep, depth)[:forms]):
                said.append(f"word-{depth}-{number}")
                driver.say(odd)
                driver.say({"role": "user", "content": said[-1]})
            for arguments in (
                {"pattern": deep},
                {"pattern": "word", "roles": deep},
                {"pattern": "[" * depth},
            ):
                answer = driver.tool("lcm_grep", arguments)
                assert json.dumps(answer)
            driver.close()
            engine.compact(driver.session, force=True)
            stored = json.dumps(engine.messages(driver.session))
            assert [word for word in said if stored.count(f'"{word}"') != 1] == []
            assert engine.check().ok


def _nested_messages(deep: Any, depth: int) -> list[dict[str, Any]]:
    function = {"name": "f", "arguments": "[" * depth}
    return [
        {"role": "user", "content": deep},
        {"role": "user", "content": [{"type": "odd", "value": deep}]},
        {"role": "user", "content": "text", "extra": deep},
        {"role": "assistant", "content": "text", "tool_calls": deep},
        {
            "role": "assistant",
            "content": "text",
            "tool_calls": [{"id": "c", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "c", "content": deep},
    ]


def _loaded(name: str) -> ModuleType:
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    return importlib.import_module(name)
