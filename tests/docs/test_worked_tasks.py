"""The skill's worked tasks, on a history in which each question has its answer: the calls bring what the page says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from clock import Clock
from messages import assistant, call, result, user

from lcm_plugin import Engine, Session
from lcm_plugin.recall.tools import TOOL_NAMES

PAGE = Path(__file__).resolve().parents[2] / "skills" / "lcm" / "references" / "worked-tasks.md"
HERE, ELSEWHERE = Session("agent:main:main", "run-1"), Session("agent:main:phone", "run-2")
MARCH_MS, DAY_MS = 1_773_000_000_000, 86_400_000
SAID: list[list[dict[str, Any]]] = [
    [user("The payment fails, which error code is it?"), assistant("error code PAY-1187: gateway closed the connection")],
    [call("c1", "bash", '{"command": "alembic upgrade head"}'), result("c1", "migration 0042_add_refunds applied")],
    [{**user("I want the export as a spreadsheet"), "name": "Ann"}, {**user("an export? as text"), "name": "Ben"}],
    [user("So we decided: a queue instead of cron.")],
    [user("It listens on port 8080."), user("Correction: it listens on port 8443.")],
    [user("See TICKET-381 and what came before."), assistant("And never roll back on Friday.")],
    [user("on Friday we roll it back")],
]  # fmt: skip


@dataclass(frozen=True)
class Task:
    """A question's calls, in order, and the words that the last one brings."""

    title: str
    calls: list[dict[str, Any]]
    answer: str


def tasks() -> Iterator[Task]:
    for part in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        calls = [
            json.loads(text) for text in re.findall(r"^```json\n(.*?)^```", part, re.MULTILINE | re.DOTALL)
        ]
        (answer,) = re.findall(r"^Answer: `(.+)`$", part, re.MULTILINE)
        yield Task(part.splitlines()[0], calls, answer)


@pytest.fixture
def engine(open_engine: Callable[..., Engine], clock: Clock) -> Engine:
    """The history: what was said in March and after, watering of beds that is summarised, and another session."""
    opened = open_engine(fresh_tail_count=4, leaf_chunk_tokens=800, leaf_target_tokens=150)
    clock.now = MARCH_MS
    for messages in SAID:
        opened.ingest(HERE, messages, "append")
        clock.forward(DAY_MS)
    clock.forward(60 * DAY_MS)
    beds = [
        f"bed {number}: water the lilies at dusk, with {'care and ' * 20}patience" for number in range(60)
    ]
    opened.ingest(HERE, [user("We decided nothing more."), *map(user, beds)], "append")
    opened.ingest(HERE, [user("and so on"), assistant("yes")] * 6, "append")
    opened.ingest(ELSEWHERE, [user("the wifi password is heron-blue-42")], "append")
    assert opened.compact(HERE, force=True).compacted
    return opened


@pytest.mark.parametrize("task", list(tasks()), ids=lambda task: task.title)
def test_a_task_is_answered_by_its_calls(engine: Engine, task: Task) -> None:
    found: dict[str, str] = {}
    for asked in task.calls:
        words = json.dumps(asked["arguments"])
        for name, known in found.items():
            words = words.replace(name, known)
        answer = json.dumps(engine.call_tool(HERE, asked["tool"], json.loads(words)), ensure_ascii=False)
        assert '"error"' not in answer, answer
        for name, kind in (("MESSAGE", "msg"), ("SUMMARY", "sum")):
            ids = re.findall(rf"\b{kind}_\w+", answer)
            if ids and name not in found:
                found[name] = ids[0]
    assert task.answer in answer.replace("**", "")


def test_there_are_ten_and_each_tool_is_shown() -> None:
    shown = list(tasks())
    assert len(shown) == 10
    assert {asked["tool"] for task in shown for asked in task.calls} == set(TOOL_NAMES)


def test_every_argument_that_narrows_a_search_is_shown() -> None:
    used = {name for task in tasks() for asked in task.calls for name in asked["arguments"]}
    assert {
        "roles",
        "since",
        "before",
        "tool_name",
        "sender",
        "sort",
        "mode",
        "scope",
        "all_conversations",
    } <= used
