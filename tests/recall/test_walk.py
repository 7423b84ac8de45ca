"""An agent can read every stored word, beginning with the ids that its context shows."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from messages import call, result, user

from lcm_plugin import Engine, Session

pytestmark = pytest.mark.both_stores_under_ci

INCIDENT = Path(__file__).parents[2] / "examples" / "incident.jsonl"
REFERENCE = re.compile(r"\[LCM File: (file_[0-9a-f]{16}) [^\]]*\](?s:.*?)Read it with lcm_describe, id \1\.")
ID = re.compile(r"(?:sum_[0-9a-f]{16}|msg_\d+-msg_\d+|msg_\d+)")


class Agent:
    """Reads with the tools alone and remembers what it read."""

    def __init__(self, engine: Engine, session: Session) -> None:
        self._engine = engine
        self._session = session
        self.texts: dict[str, list[str]] = {}
        self._opened: set[str] = set()

    def explore(self, visible: str) -> None:
        """Opens every summary and reads every message that a text names, and what these name in turn."""
        todo = ID.findall(visible)
        while todo:
            ref = todo.pop()
            if ref.startswith("sum_") and ref not in self._opened:
                self._opened.add(ref)
                todo += self._expand(ref)
            elif ref.startswith("msg_") and ref not in self.texts:
                self._read(ref)

    def _expand(self, ref: str) -> list[str]:
        below: list[str] = []
        offset = 0
        while True:
            answer = self._tool("lcm_expand", summary_ids=[ref], offset=offset)
            for item in answer["items"]:
                if item["kind"] == "message":
                    self._note(item)
                    if "read_on" in item:
                        self._read_on(item["read_on"]["id"], item["read_on"]["offset"])
            below += answer.get("continue_with", [])
            if not answer["truncated"]:
                return below
            offset = answer["next_offset"]

    def _read(self, ref: str) -> None:
        answer = self._tool("lcm_describe", id=ref)
        for item in answer.get("items", [answer]):
            self._note(item)
            if "next_offset" in item:
                self._read_on(item["id"], item["next_offset"])
        for rest in answer.get("continue_with", ()):
            self._read(rest)

    def _read_on(self, ref: str, offset: int | None) -> None:
        while offset is not None:
            page = self._tool("lcm_describe", id=ref, offset=offset)
            self._note(page, goes_on=True)
            offset = page.get("next_offset")

    def _note(self, item: dict[str, Any], goes_on: bool = False) -> None:
        pieces = [item] if "content" in item else item["parts"]
        known = self.texts.setdefault(item["id"], [])
        if not goes_on:
            known.clear()
        for piece in pieces:
            text = piece["content"] if "content" in piece else piece["text"]
            if known and piece.get("from_char"):
                known[-1] += text
            else:
                known.append(text)

    def file(self, ref: str) -> str:
        """A file's text, or its bytes as base64."""
        text, offset = "", 0
        while True:
            page = self._tool("lcm_describe", id=ref, offset=offset)
            if "content" not in page:
                return self._bytes(ref)
            text += page["content"]
            if "next_offset" not in page:
                return text
            offset = page["next_offset"]

    def _bytes(self, ref: str) -> str:
        data, start = b"", 0
        while True:
            page = self._tool("lcm_describe", id=ref, start_byte=start)
            data += base64.b64decode(page["base64"])
            if "next_byte" not in page:
                return base64.b64encode(data).decode()
            start = page["next_byte"]

    def _tool(self, name: str, **arguments: Any) -> dict[str, Any]:
        answer = self._engine.call_tool(self._session, name, arguments)
        assert "error" not in answer, answer
        return answer


def texts_of(message: dict[str, Any]) -> list[str]:
    content = message.get("content")
    blocks = content if isinstance(content, list) else [content] if content is not None else []
    texts = [
        block if isinstance(block, str) else block.get("text") or block["image_url"]["url"]
        for block in blocks
    ]
    return texts + [one["function"]["arguments"] for one in message.get("tool_calls") or ()]


def with_files(agent: Agent, text: str) -> str:
    """The text with every reference to a file replaced by what the file holds."""
    return REFERENCE.sub(lambda found: agent.file(found[1]), text)


def made_up() -> list[dict[str, Any]]:
    messages = []
    for n in range(60):
        messages += [
            user(f"On day {n} look at pond {n}."),
            call(f"c{n}"),
            result(f"c{n}", f"heron {n} caught {n} fish"),
        ]
    messages[30] = user("A long one. " * 3_000)
    return messages


def incident() -> list[dict[str, Any]]:
    return [json.loads(line) for line in INCIDENT.read_text(encoding="utf-8").splitlines()]


@pytest.mark.long
@pytest.mark.parametrize("make", [made_up, incident], ids=["made up", "incident"])
def test_every_message_is_reached_word_for_word(
    open_engine: Callable[..., Engine], session: Session, make: Callable[[], list[dict[str, Any]]]
) -> None:
    engine = open_engine(
        leaf_chunk_tokens=3_000, fresh_tail_count=8, leaf_target_tokens=300, condensed_target_tokens=300
    )
    messages = make()
    engine.ingest(session, messages)
    assert engine.compact(session, force=True).compacted
    agent = Agent(engine, session)
    agent.explore(json.dumps(engine.assemble(session, 60_000).messages))
    for item in engine.context_items(session):
        agent.explore(item.id)
    stored = engine.messages(session)
    assert len(stored) == len(messages)
    for number, message in enumerate(stored, 1):
        reached = agent.texts.get(f"msg_{number}", [])
        assert [with_files(agent, text) for text in reached] == texts_of(message), number
