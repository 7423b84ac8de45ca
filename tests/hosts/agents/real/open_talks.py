"""A session of a real agent that stays open: one process for many turns, as an editor or another program drives it."""

from __future__ import annotations

import json
import subprocess
import threading
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, Queue
from typing import Any

from real_agents import ClaudeCode, Codex, Opencode

# A busy machine is no fault of an agent.
_SECONDS = 300


class _Lines:
    """A process that speaks JSON, an object a line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process, self._stdin, self._stdout = process, process.stdin, process.stdout
        self._read: Queue[dict[str, Any]] = Queue()
        self._pumping = threading.Thread(target=self._pump, daemon=True)
        self._pumping.start()

    def send(self, value: dict[str, Any]) -> None:
        self._stdin.write(json.dumps(value) + "\n")
        self._stdin.flush()

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The next object that is wanted; those before it are dropped."""
        while True:
            try:
                found = self._read.get(timeout=_SECONDS)
            except Empty:
                raise AssertionError("the agent hangs") from None
            if wanted(found):
                return found
            assert found, "the agent ended"

    def close(self) -> None:
        """Ends the input, as a user who leaves does, and waits for the process."""
        self._stdin.close()
        self.process.wait(_SECONDS)

    def end(self) -> None:
        """Kills a process that still runs, and closes its files, also behind a test that failed."""
        self.process.kill()
        self.process.wait()
        self._pumping.join(_SECONDS)
        with suppress(BrokenPipeError):
            self._stdin.close()
        self._stdout.close()

    def _pump(self) -> None:
        for line in self._stdout:
            if line.startswith("{"):
                self._read.put(json.loads(line))
        self._read.put({})


class ClaudeTalk:
    """A session of Claude Code that reads prompts as they come."""

    def __init__(self, lines: _Lines, session: str) -> None:
        self._lines, self.session = lines, session

    def say(self, prompt: str) -> None:
        """A turn, to its end."""
        content = [{"type": "text", "text": prompt}]
        self._lines.send({"type": "user", "message": {"role": "user", "content": content}})
        ended = self._lines.until(lambda line: line.get("type") == "result")
        assert ended["subtype"] == "success", ended


class CodexTalk:
    """A thread of Codex behind its app server, which editors use."""

    def __init__(self, lines: _Lines, session: str, calls: Iterator[int]) -> None:
        self._lines, self.session, self._calls = lines, session, calls
        self.turns: list[str] = []

    def say(self, prompt: str) -> None:
        """A turn, to its end."""
        given = [{"type": "text", "text": prompt}]
        begun = self._ask("turn/start", input=given)
        self.turns.append(begun["turn"]["id"])
        self._lines.until(lambda line: line.get("method") == "turn/completed")

    def take_back(self, turn: str) -> None:
        """Takes a turn back, and all behind it."""
        self._ask("thread/revert", beforeTurnId=turn)

    def fork(self) -> CodexTalk:
        """A second thread that goes on from here."""
        found = self._ask("thread/fork")
        return CodexTalk(self._lines, found["thread"]["id"], self._calls)

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        return asked(self._lines, next(self._calls), method, threadId=self.session, **params)


class OpencodeTalk:
    """A session of opencode behind its server, which editors and its desktop application use."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.session = str(self.ask("session", {})["id"])

    def say(self, prompt: str) -> None:
        """A turn, to its end."""
        parts = [{"type": "text", "text": prompt}]
        answer = self.ask(f"session/{self.session}/message", {"parts": parts})
        assert not answer["info"].get("error"), answer

    def ask(self, path: str, body: dict[str, Any]) -> Any:
        """What the server answers."""
        kind = {"content-type": "application/json"}
        request = urllib.request.Request(f"{self._url}/{path}", json.dumps(body).encode(), kind)
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
            return json.loads(answer.read())


@contextmanager
def opencode_talk(agent: Opencode) -> Iterator[OpencodeTalk]:
    """A session that is open for a while."""
    process = agent.start("serve", "--port", "0")
    assert process.stdout is not None
    try:
        line = next((line for line in process.stdout if "listening on" in line), "")
        yield OpencodeTalk(line.split()[-1])
    finally:
        process.terminate()
        process.communicate(timeout=_SECONDS)


def asked(lines: _Lines, number: int, method: str, **params: Any) -> dict[str, Any]:
    """The result of a call of Codex's app server."""
    lines.send({"id": number, "method": method, "params": params})
    answer = lines.until(lambda line: line.get("id") == number and "method" not in line)
    assert "result" in answer, answer
    return dict(answer["result"])


@contextmanager
def claude_talk(agent: ClaudeCode) -> Iterator[ClaudeTalk]:
    """A session that is open for a while."""
    session = str(uuid.uuid4())
    streamed = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
    _, _, *options = agent.turn("", session, new=True)
    with _opened(agent.start("-p", *streamed, *options, stdin=subprocess.PIPE)) as lines:
        yield ClaudeTalk(lines, session)


@contextmanager
def codex_talk(agent: Codex, *, hooked: bool = True) -> Iterator[CodexTalk]:
    """A thread that is open for a while; where there are hooks they are trusted first, as a user trusts them."""
    with _opened(agent.start("app-server", stdin=subprocess.PIPE)) as lines:
        calls = iter(range(1, 1_000_000))
        asked(lines, next(calls), "initialize", clientInfo={"name": "test", "title": "Test", "version": "1"})
        lines.send({"method": "initialized"})
        if hooked:
            trust(lines, calls, str(agent.project))
        begun = asked(
            lines,
            next(calls),
            "thread/start",
            cwd=str(agent.project),
            approvalPolicy="never",
            sandbox="danger-full-access",
        )
        yield CodexTalk(lines, begun["thread"]["id"], calls)


def trust(lines: _Lines, calls: Iterator[int], folder: str) -> None:
    """Trusts all hooks, as a user does with /hooks."""
    listed = asked(lines, next(calls), "hooks/list", cwds=[folder])
    hooks = [hook for place in listed["data"] for hook in place["hooks"]]
    assert hooks, listed
    state = {hook["key"]: {"trusted_hash": hook["currentHash"]} for hook in hooks}
    edit = {"keyPath": "hooks.state", "value": state, "mergeStrategy": "upsert"}
    asked(lines, next(calls), "config/batchWrite", edits=[edit], reloadUserConfig=True)


@contextmanager
def _opened(process: subprocess.Popen[str]) -> Iterator[_Lines]:
    lines = _Lines(process)
    try:
        yield lines
        lines.close()
    finally:
        lines.end()
