"""Writes logs of coding agents, record by record, as these programs write them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LONG = "the tide tables of the harbour " * 30


class Log:
    """A file of JSON lines; each line is a second later than the one before."""

    def __init__(self, path: Path, start: int = 0) -> None:
        self.path = path
        self.second = start
        path.parent.mkdir(parents=True, exist_ok=True)

    def add(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Adds a record with the next time; returns it as it was written."""
        self.second += 1
        full = {"timestamp": self.now(), **record}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(full) + "\n")
        return full

    def now(self) -> str:
        """The time of the newest record."""
        return (
            f"2026-11-02T{self.second // 3600:02d}:{self.second // 60 % 60:02d}:{self.second % 60:02d}.000Z"
        )


class ClaudeLog(Log):
    """A session of Claude Code: each record names the one before it."""

    def __init__(self, path: Path, start: int = 0) -> None:
        super().__init__(path, start)
        self.last: str | None = None
        self._count = 0

    def record(self, kind: str, **rest: Any) -> dict[str, Any]:
        """A record with an id of its own."""
        self._count += 1
        uuid = f"{self.path.stem}-{self._count}"
        full = self.add(
            {"type": kind, "uuid": uuid, "parentUuid": self.last, "sessionId": self.path.stem, **rest}
        )
        self.last = full["uuid"]
        return full

    def user(self, content: Any, **rest: Any) -> dict[str, Any]:
        return self.record("user", message={"role": "user", "content": content}, **rest)

    def assistant(self, *blocks: Any) -> dict[str, Any]:
        content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
        return self.record("assistant", message={"role": "assistant", "content": content})

    def call(self, call_id: str) -> dict[str, Any]:
        return self.assistant({"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": "ls"}})

    def result(self, call_id: str) -> dict[str, Any]:
        return self.user([{"type": "tool_result", "tool_use_id": call_id, "content": "done"}])

    def queue(self, operation: str, content: str, **rest: Any) -> None:
        self.add(
            {
                "type": "queue-operation",
                "operation": operation,
                "content": content,
                "sessionId": self.path.stem,
                **rest,
            }
        )

    def queued(self, prompt: Any, **about: Any) -> None:
        attached = {"type": "queued_command", "prompt": prompt, "commandMode": "prompt", **about}
        self.record("attachment", attachment=attached)


class CodexLog(Log):
    """A rollout of Codex."""

    def line(self, kind: str, **payload: Any) -> dict[str, Any]:
        return self.add({"type": kind, "payload": payload})

    def meta(self, thread: str, **rest: Any) -> dict[str, Any]:
        return self.line("session_meta", id=thread, timestamp=self.now(), cwd="/work/app", **rest)

    def item(self, role: str, text: str, **rest: Any) -> dict[str, Any]:
        kind = "output_text" if role == "assistant" else "input_text"
        return self.line(
            "response_item", type="message", role=role, content=[{"type": kind, "text": text}], **rest
        )

    def turn(self, words: str, answer: str) -> None:
        """A user's message, its event, and the answer."""
        self.item("user", words)
        self.line("event_msg", type="user_message", message=words)
        self.item("assistant", answer)
        self.line("event_msg", type="agent_message", message=answer)

    def roll_back(self, turns: int = 1) -> None:
        self.line("event_msg", type="thread_rolled_back", num_turns=turns)
