"""OpenClaw's gateway: one process for many sessions and clients, as its users run it."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fake_models import FakeModels
from real_agents import Openclaw

# A busy machine is no fault of an agent.
_SECONDS = 300
_TOKEN = "test"


class Gateway:
    """A gateway that runs."""

    def __init__(self, agent: Openclaw, port: int) -> None:
        self.agent = agent
        self._url = f"http://127.0.0.1:{port}/v1"

    @property
    def models(self) -> FakeModels:
        return self.agent.models

    @property
    def database(self) -> Path:
        return self.agent.database

    @staticmethod
    def session() -> str:
        """The key of a session that nobody has."""
        return f"agent:main:{uuid.uuid4().hex[:8]}"

    def say(self, prompt: str, session: str) -> str:
        """A turn; the answer."""
        body = {"model": "openclaw/main", "messages": [{"role": "user", "content": prompt}]}
        answer = json.loads(self._ask("chat/completions", json.dumps(body), session))
        return str(answer["choices"][0]["message"]["content"])

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """What a client with a window, as OpenClaw's Control UI, has the gateway do."""
        output = self.agent.run("gateway", "call", method, "--json", "--params", json.dumps(params))
        return dict(json.loads(output[output.index("{") :]))

    def talk(self, session: str) -> list[dict[str, Any]]:
        """The messages of a session as the gateway has them."""
        return list(self.call("sessions.get", key=session)["messages"])

    def command(self, text: str, session: str) -> str:
        """What the gateway answers to a line that begins with a slash."""
        number = uuid.uuid4().hex
        self.call("chat.send", sessionKey=session, message=text, idempotencyKey=number)
        deadline = time.monotonic() + _SECONDS
        while True:
            talk = self.talk(session)
            found = [place for place, one in enumerate(talk) if one.get("idempotencyKey") == number]
            if found:
                return str(talk[found[0]]["content"][0]["text"])
            assert time.monotonic() < deadline, talk[-2:]

    def wait(self) -> None:
        """Until it answers."""
        deadline = time.monotonic() + _SECONDS
        while True:
            try:
                self._ask("models")
                return
            except (urllib.error.URLError, OSError, http.client.HTTPException):
                assert time.monotonic() < deadline, "the gateway does not start"
                time.sleep(0.2)

    def _ask(self, path: str, body: str | None = None, session: str = "") -> bytes:
        headers = {"authorization": f"Bearer {_TOKEN}", "content-type": "application/json"}
        if session:
            headers["x-openclaw-session-key"] = session
        data = body.encode() if body is not None else None
        request = urllib.request.Request(f"{self._url}/{path}", data, headers)
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
            return bytes(answer.read())


@contextmanager
def opened(agent: Openclaw) -> Iterator[Gateway]:
    """A gateway on a port of its own, which is ended with the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    written = agent.home / "state" / "openclaw.json"
    settings = json.loads(written.read_text())
    settings["gateway"] = {
        "mode": "local",
        "port": port,
        "bind": "loopback",
        "auth": {"mode": "token", "token": _TOKEN},
        "http": {"endpoints": {"chatCompletions": {"enabled": True}}},
    }
    written.write_text(json.dumps(settings))
    process = agent.start("gateway", "run", "--allow-unconfigured")
    reading = threading.Thread(target=process.communicate, daemon=True)
    reading.start()
    try:
        running = Gateway(agent, port)
        running.wait()
        yield running
    finally:
        process.terminate()
        try:
            process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
        reading.join(_SECONDS)
