"""The real agents as programs: one user's machine with an agent on it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fake_models import FakeModels

LCM = [sys.executable, "-P", "-c", "from lcm_plugin.cli import main; main()"]
PACKAGE = str(Path(__file__).parents[4])
SMALL_CONTEXT = {"LCM_MAX_ASSEMBLY_TOKEN_BUDGET": "8000"}
"""With it what a test plants does not fit into a context that is made here."""
# A busy machine is no fault of an agent.
_SECONDS = 300


@dataclass
class Agent:
    """One user's machine with an agent on it: a home, a project, a database."""

    name: str
    home: Path
    models: FakeModels
    environment: dict[str, str] = field(default_factory=dict)
    server = "lcm_plugin.hosts.agents"

    @property
    def project(self) -> Path:
        return self.home / "proj"

    @property
    def database(self) -> Path:
        return self.home / "lcm.db"

    @property
    def program(self) -> str:
        place = Path(os.environ["LCM_TEST_AGENTS"]) / self.name / "node_modules" / ".bin"
        return str(place / {"claude-code": "claude"}.get(self.name, self.name))

    def env(self) -> dict[str, str]:
        own = {"HOME": str(self.home), "LCM_DATABASE": str(self.database), "PYTHONPATH": PACKAGE}
        path = f"{Path(self.program).parent}{os.pathsep}{os.environ['PATH']}"
        kept = {name: os.environ[name] for name in ("LANG", "TERM", "TMPDIR") if name in os.environ}
        return {**kept, **own, "PATH": path, **self.environment}

    def start(
        self, *arguments: str, cwd: Path | None = None, stdin: int = subprocess.DEVNULL
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.program, *arguments],
            cwd=cwd or self.project,
            env=self.env(),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str, cwd: Path | None = None) -> str:
        """Runs the agent to its end; its output."""
        running = self.start(*arguments, cwd=cwd)
        try:
            output, _ = running.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            running.kill()
            raise AssertionError(f"{self.name} hangs: {running.communicate()[0]}") from None
        assert running.returncode == 0, output
        return output

    def kill_server(self, by: signal.Signals = signal.SIGKILL) -> None:
        """Kills the server of the running session, or stops it, as soon as a turn runs that calls a tool."""
        deadline = time.monotonic() + _SECONDS
        while not (found := self.servers()) or not self.models.talk("Wait."):
            assert time.monotonic() < deadline, "no server runs"
            time.sleep(0.05)
        for process in found:
            os.kill(process, by)

    def end_servers(self) -> None:
        """Kills the servers that their agent left behind, since they were stopped."""
        for process in self.servers():
            os.kill(process, signal.SIGKILL)

    def servers(self) -> list[int]:
        """The processes of lcm that serve this agent."""
        named = {"gemini": "gemini-cli"}.get(self.name, self.name)
        wanted = [self.server.encode(), named.encode(), b"--database", str(self.database).encode()]
        found = []
        for place in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = place.read_bytes().split(b"\0")
            except OSError:
                continue
            if words[3:7] == wanted:
                found.append(int(place.parent.name))
        return found

    def lcm(self, *arguments: str, check: bool = True) -> str:
        """Runs an lcm command as its user would; its output."""
        ended = subprocess.run(
            [*LCM, *arguments],
            cwd=self.project,
            env=self.env(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        assert not check or ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout + ended.stderr


class ClaudeCode(Agent):
    """Claude Code, headless: every prompt a process, as with ``claude -p``."""

    def say(self, prompt: str, session: str = "", *options: str) -> str:
        """A turn in a session that this begins or goes on with; its id."""
        named = session or str(uuid.uuid4())
        self.run(*self.turn(prompt, named, *options, new=not session))
        return named

    def turn(self, prompt: str, session: str, *options: str, new: bool = False) -> list[str]:
        which = ["--session-id", session] if new else ["--resume", session]
        common = ["--model", "claude-opus-5-5", "--dangerously-skip-permissions"]
        return ["-p", prompt, *which, *common, *options]

    def log(self, session: str) -> list[dict[str, Any]]:
        found = next((self.home / ".claude/projects").rglob(f"{session}.jsonl"))
        return [json.loads(line) for line in found.read_text().splitlines()]

    @staticmethod
    def key(session: str) -> str:
        return f"agent:claude-code:{session}"


class Codex(Agent):
    """Codex, headless: every prompt a process, as with ``codex exec``."""

    def say(self, prompt: str, session: str = "", *options: str) -> str:
        """A turn in a session that this begins or goes on with; its id."""
        which = ["exec", "resume", session] if session else ["exec"]
        common = ["--dangerously-bypass-hook-trust", "--skip-git-repo-check"]
        output = self.run(*which, *common, *options, prompt)
        return session or output.split("session id:")[1].split()[0]

    @staticmethod
    def key(session: str) -> str:
        return f"agent:codex:{session}"


class Gemini(Agent):
    """Gemini CLI, headless: every prompt a process."""

    def say(self, prompt: str, session: str = "") -> str:
        """A turn in a new session, or in the newest; its id."""
        named = session or str(uuid.uuid4())
        self.run(*self.turn(prompt, named, new=not session))
        return named

    @staticmethod
    def turn(prompt: str, session: str, *, new: bool = False) -> list[str]:
        return ["-y", *(["--session-id", session] if new else ["-r", "latest"]), "-p", prompt]

    @staticmethod
    def key(session: str) -> str:
        return f"agent:gemini-cli:{session}"


class Opencode(Agent):
    """opencode, headless: every prompt a process."""

    server = "lcm_plugin.hosts.stdio"

    def say(self, prompt: str, session: str = "", *options: str) -> str:
        """A turn in a new session, or in one that is named; its id."""
        which = ["--session", session] if session else []
        output = self.run(*self.turn(prompt, *which, *options))
        return self.session_of(output)

    @staticmethod
    def turn(prompt: str, *options: str) -> list[str]:
        # It puts an argument that has spaces in it between quotes, and those into the prompt.
        return ["run", *options, "--format", "json", *prompt.split(" ")]

    @staticmethod
    def session_of(output: str) -> str:
        lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        return next(one["sessionID"] for one in lines if "sessionID" in one)

    @staticmethod
    def key(session: str) -> str:
        return f"agent:opencode:{session}"


class Openclaw(Agent):
    """OpenClaw without a gateway: every prompt a process, as with ``openclaw agent --local``."""

    server = "lcm_plugin.hosts.stdio"

    def say(self, prompt: str, session: str = "agent:main:main") -> str:
        """A turn in a session; its key."""
        where = ["--agent", "main", "--session-key", session]
        self.run("agent", "--local", *where, "--message", prompt)
        return session

    @staticmethod
    def key(session: str) -> str:
        return session
