"""Logs as Claude Code and Codex write them, line by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SESSION = "5b0f5f0e-6c3e-4c57-9f3b-1d2c3b4a5f60"
KEY = f"agent:claude-code:{SESSION}"
CODEX_KEY = f"agent:codex:{SESSION}"


def stamp(count: int) -> str:
    return f"2026-11-28T1{count // 3600}:{count // 60 % 60:02}:{count % 60:02}.000Z"


class Log:
    """A log of Claude Code. ``newest`` is the record that the next one names as its parent."""

    def __init__(self, folder: Path, session: str = SESSION) -> None:
        self.path = folder / f"{session}.jsonl"
        self.newest: str | None = None
        self.ids: list[str] = []
        self._session = session

    def add(self, role: str, content: Any, **more: Any) -> str:
        """Writes a record; its id."""
        self.write(self.line(role, content, **more))
        return self.ids[-1]

    def write(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)

    def line(self, role: str, content: Any, **more: Any) -> bytes:
        record = {
            "parentUuid": self.newest,
            "isSidechain": False,
            "type": role,
            "message": {"role": role, "content": content},
            "uuid": f"00000000-0000-4000-8000-{len(self.ids) + 1:012}",
            "timestamp": stamp(len(self.ids)),
            "sessionId": self._session,
            "cwd": "/home/ann/pump",
            **more,
        }
        self.newest = str(record["uuid"])
        self.ids.append(self.newest)
        return json.dumps(record).encode() + b"\n"

    def turn(self, asked: str, answered: str) -> None:
        self.write(b"".join(self.turn_lines(asked, answered)))

    def turn_lines(self, asked: str, answered: str) -> list[bytes]:
        return [self.line("user", asked), self.line("assistant", [{"type": "text", "text": answered}])]

    def calls_lines(self, number: int, count: int) -> list[bytes]:
        """Calls made at once: each a line of one answer, each result with its call as its parent."""
        lines, made = [], []
        for index in range(count):
            block = {
                "type": "tool_use",
                "id": f"t{number}.{index}",
                "name": "Bash",
                "input": {"command": "ls"},
            }
            message = {"id": f"answer-{number}", "role": "assistant", "content": [block]}
            lines.append(self.line("assistant", [], message=message))
            made.append(self.ids[-1])
        for index, parent in enumerate(made):
            result = {
                "type": "tool_result",
                "tool_use_id": f"t{number}.{index}",
                "content": f"result {number}.{index}",
            }
            lines.append(self.line("user", [result], parentUuid=parent))
        return lines

    def compaction_lines(self, number: int) -> list[bytes]:
        about = {"subtype": "compact_boundary", "logicalParentUuid": self.newest, "parentUuid": None}
        boundary = self.line("system", "", type="system", message=None, **about)
        return [boundary, self.line("user", f"Summary {number}.", isCompactSummary=True)]


class Rollout:
    """A log of Codex."""

    def __init__(self, folder: Path, session: str = SESSION, **meta: Any) -> None:
        self.path = folder / f"rollout-2026-11-28T10-00-00-{session}.jsonl"
        self._count = 0
        about = {"id": session, "cwd": "/home/ann/pump", "cli_version": "0.171.0", **meta}
        self.write(self._line("session_meta", about))

    def write(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)

    def turn_lines(self, asked: str, answered: str) -> list[bytes]:
        return [
            self._message("user", "input_text", asked),
            self._message("assistant", "output_text", answered),
        ]

    def calls_lines(self, number: int, count: int) -> list[bytes]:
        calls = [
            {
                "type": "function_call",
                "call_id": f"t{number}.{index}",
                "name": "exec_command",
                "arguments": "{}",
            }
            for index in range(count)
        ]
        results = [
            {
                "type": "function_call_output",
                "call_id": f"t{number}.{index}",
                "output": f"result {number}.{index}",
            }
            for index in range(count)
        ]
        return [self._line("response_item", item) for item in (*calls, *results)]

    def compaction_lines(self, number: int) -> list[bytes]:
        return [self._line("compacted", {"message": f"Summary {number}.", "replacement_history": []})]

    def rolled_back_lines(self, turns: int) -> list[bytes]:
        return [self._line("event_msg", {"type": "thread_rolled_back", "num_turns": turns})]

    def _message(self, role: str, kind: str, text: str) -> bytes:
        return self._line(
            "response_item", {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
        )

    def _line(self, kind: str, payload: dict[str, Any]) -> bytes:
        self._count += 1
        record = {
            "timestamp": stamp(self._count),
            "ordinal": self._count - 1,
            "type": kind,
            "payload": payload,
        }
        return json.dumps(record).encode() + b"\n"
