"""A home of Bub on a temporary disk, the real programs in it, and a look at what was stored."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fakes.model_server import ModelServer

from lcm_plugin import Engine, LcmConfig
from lcm_plugin.store.records import Conversation
from lcm_plugin.types import HOST_DATA, Message

BIN = Path(sys.prefix) / "bin"
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Outcome:
    """A scenario's result, and what the process wrote to standard error."""

    result: Any
    stderr: str


@dataclass
class BubWorld:
    """One home and one workspace. ``lcm`` are settings of the plugin, ``host`` other keys of config.yml."""

    home: Path
    server: ModelServer
    lcm: Mapping[str, Any] = field(default_factory=dict)
    host: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.workspace.mkdir(parents=True, exist_ok=True)
        config = {
            "model": "openai:fake-model",
            "api_key": "none",
            "api_base": self.server.url,
            "lcm": dict(self.lcm),
            **self.host,
        }
        self.config.parent.mkdir(parents=True, exist_ok=True)
        self.config.write_text(json.dumps(config, indent=1))

    @property
    def config(self) -> Path:
        """The host's settings file; JSON is YAML."""
        return self.home / ".bub" / "config.yml"

    @property
    def workspace(self) -> Path:
        """Where the host is started."""
        return self.home / "work"

    @property
    def database(self) -> Path:
        """Our database in this home."""
        return self.home / ".bub" / "lcm" / "lcm.db"

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of the developer's own settings reaches the host."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("LCM_", "BUB_"))}
        return {
            **kept,
            "HOME": str(self.home),
            "PYTHONPATH": f"{HERE}{os.pathsep}{HERE.parents[3]}",
            "NO_COLOR": "1",
        }

    def bub(self, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Runs the command ``bub``."""
        return self.run(str(BIN / "bub"), *arguments, timeout=timeout)

    def say(self, text: str, *options: str) -> str:
        """One turn by ``bub run``; what it printed as the answer."""
        done = self.bub("run", text, *options)
        assert done.returncode == 0, done.stderr[-6000:]
        return done.stdout.split("]\n", 1)[1].strip()

    def talk(self, *turns: str, session: str = "cli:local") -> list[str]:
        """Turns in one process; the answers."""
        answers: list[str] = self.scenario("talk", turns=turns, session=session)["answers"]
        return answers

    def scenario(self, name: str, timeout: float = 400, **options: Any) -> Any:
        """Runs a function of ``bub_scenarios.py`` in a process of its own; its JSON result comes back."""
        return self.run_scenario(name, timeout, **options).result

    def run_scenario(self, name: str, timeout: float = 400, **options: Any) -> Outcome:
        """The same, with what was written to standard error."""
        (self.home / "options.json").write_text(json.dumps(options))
        done = self.run(sys.executable, "-m", "bub_scenarios", name, "../options.json", timeout=timeout)
        last = done.stdout.strip().splitlines()[-1:] or [""]
        assert last[0].startswith("RESULT "), f"{name} failed\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
        return Outcome(json.loads(last[0].removeprefix("RESULT ")), done.stderr)

    def run(self, *command: str, timeout: float) -> subprocess.CompletedProcess[str]:
        """Runs a program in the workspace."""
        return subprocess.run(
            command,
            env=self.environment,
            cwd=self.workspace,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    # what was stored

    def conversations(self) -> list[Conversation]:
        """All conversations."""
        with Engine.open(LcmConfig(database=str(self.database))) as engine:
            return list(engine.library.conversations())

    def stored(self, lane: str = ":cli:local", active: bool = True) -> list[Message]:
        """The messages of the one conversation whose key ends like that, as they came in."""
        with Engine.open(LcmConfig(database=str(self.database))) as engine:
            library = engine.library
            found = [
                c for c in library.conversations() if c.session_key.endswith(lane) and c.active is active
            ]
            assert len(found) == 1, [c.session_key for c in library.conversations()]
            rows = library.messages(found[0].conversation_id)
            return [_without_host_data(library.whole(row)) for row in rows]

    def problems(self) -> list[str]:
        """What the integrity checker finds."""
        with Engine.open(LcmConfig(database=str(self.database))) as engine:
            return [f"{finding.code}: {finding.message}" for finding in engine.check().findings]

    def tape(self) -> list[dict[str, Any]]:
        """The entries of the host's only tape."""
        tapes = [p for p in (self.home / ".bub" / "tapes").glob("*.jsonl") if "__sidecar__" not in p.name]
        assert len(tapes) == 1, tapes
        return [json.loads(line) for line in tapes[0].read_text().splitlines()]


def _without_host_data(message: Message) -> Message:
    return {key: value for key, value in message.items() if key != HOST_DATA}


_PREFIX = re.compile(r"\A[^\n]*\n---Date: [^\n]*---\n")


def said(messages: Sequence[Mapping[str, Any]], role: str | None = None) -> list[str]:
    """The texts of the messages, of one role or all, without what the host puts before a user's words."""
    texts = [str(m.get("content")) for m in messages if role in (None, m.get("role"))]
    return [_PREFIX.sub("", text) for text in texts]
