"""A home of Hermes Agent on a temporary disk, the real programs in it, and a look at what was stored."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fakes.model_server import ModelServer

from lcm_plugin import Engine, LcmConfig
from lcm_plugin.store.records import Conversation, Summary
from lcm_plugin.types import Message

BIN = Path(sys.prefix) / "bin"
HERE = Path(__file__).parent


@dataclass
class World:
    """One home. ``lcm`` are settings of the plugin, ``host`` sections of the host's config.yaml."""

    home: Path
    server: ModelServer
    window: int = 64_000
    lcm: Mapping[str, Any] = field(default_factory=dict)
    host: Mapping[str, Any] = field(default_factory=dict)
    enabled: tuple[str, ...] = ("lcm",)
    selected: str = "lcm"
    variables: Mapping[str, str] = field(default_factory=dict)
    shadows: tuple[Path, ...] = ()
    """Folders whose packages stand in front of the installed ones."""

    def __post_init__(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        self.configure()

    def configure(self) -> None:
        """Writes config.yaml (JSON is YAML)."""
        config: dict[str, Any] = {
            "model": {
                "default": "fake-model",
                "provider": "custom",
                "base_url": self.server.url,
                "api_key": "sk-fake",
                "context_length": self.window,
            },
            "compression": {"enabled": True},
            "context": {"engine": self.selected},
            "plugins": {"enabled": list(self.enabled), "entries": {"lcm": dict(self.lcm)}},
            "security": {"allow_lazy_installs": False, "tirith_enabled": False},
            "agent": {"environment_probe": False},
        }
        for name, section in self.host.items():
            config[name] = {**config.get(name, {}), **section} if isinstance(section, dict) else section
        (self.home / "config.yaml").write_text(json.dumps(config, indent=1))

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of the developer's own settings reaches the host."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("LCM_", "HERMES_"))}
        folders = (*self.shadows, HERE, HERE.parents[2], HERE.parents[3])
        here = os.pathsep.join(str(folder) for folder in folders)
        home = str(self.home)
        return {
            **kept,
            "HERMES_HOME": home,
            "HOME": home,
            "PYTHONPATH": here,
            "NO_COLOR": "1",
            **self.variables,
        }

    def hermes(self, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Runs the command ``hermes``."""
        return self.run(str(BIN / "hermes"), *arguments, timeout=timeout)

    def scenario(self, name: str, timeout: float = 300, **options: Any) -> Any:
        """Runs a function of ``scenarios.py`` in a process of its own; its JSON result comes back."""
        done = self.run(*self._command(name, options), timeout=timeout)
        last = done.stdout.strip().splitlines()[-1:] or [""]
        assert last[0].startswith("RESULT "), f"{name} failed\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
        return json.loads(last[0].removeprefix("RESULT "))

    def start(self, name: str, **options: Any) -> subprocess.Popen[bytes]:
        """Begins a scenario and does not wait for it."""
        return subprocess.Popen(
            self._command(name, options),
            env=self.environment,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _command(self, name: str, options: Mapping[str, Any]) -> list[str]:
        path = self.home / f"options-{len(list(self.home.glob('options-*')))}.json"
        path.write_text(json.dumps({"url": self.server.url, **options}))
        return [sys.executable, "-m", "scenarios", name, str(path)]

    def run(self, *command: str, timeout: float) -> subprocess.CompletedProcess[str]:
        """Runs a program in the home."""
        return subprocess.run(
            command,
            env=self.environment,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    # what was stored

    @property
    def database(self) -> Path:
        """Our database in this home."""
        return self.home / "lcm" / "lcm.db"

    def conversations(self) -> list[Conversation]:
        """All conversations."""
        with Engine.open(LcmConfig(database=str(self.database))) as engine:
            return list(engine.library.conversations())

    def stored(self, key: str | None = None) -> list[Message]:
        """The rows of the only conversation, or of the one with this session key, as they came in."""
        with Engine.open(LcmConfig(database=str(self.database))) as engine:
            library = engine.library
            found = [c for c in library.conversations() if key is None or c.session_key == key]
            assert len(found) == 1, [c.session_key for c in library.conversations()]
            return [library.whole(row) for row in library.messages(found[0].conversation_id)]

    def problems(self, besides: str = "") -> list[str]:
        """What the integrity checker finds, one kind of finding left out."""
        with Engine.open(LcmConfig(database=str(self.database))) as engine:
            found = engine.check().findings
        return [f"{finding.code}: {finding.message}" for finding in found if finding.code != besides]

    def summaries(self) -> list[Summary]:
        """Every summary, in the context or not, that no extraction wrote."""
        with Engine.open(LcmConfig(database=str(self.database))) as engine:
            library = engine.library
            made = [s for c in library.conversations() for s in library.summaries(c.conversation_id)]
        return [summary for summary in made if summary.level != "extractive"]

    def host_rows(self, session_id: str | None = None) -> list[tuple[str, str]]:
        """Role and content of every message the host itself has on disk, undone ones included."""
        with sqlite3.connect(self.home / "state.db") as state:
            rows = state.execute("SELECT role, content, session_id FROM messages ORDER BY id").fetchall()
        return [(role, content) for role, content, of in rows if session_id in (None, of)]

    def host_sessions(self) -> list[str]:
        """The host's session ids, oldest first."""
        with sqlite3.connect(self.home / "state.db") as state:
            return [row[0] for row in state.execute("SELECT id FROM sessions ORDER BY started_at")]

    @property
    def log(self) -> str:
        """The host's log files."""
        return "\n".join(path.read_text(errors="replace") for path in sorted(self.home.glob("logs/*.log")))


def texts(messages: Sequence[Mapping[str, Any]], role: str | None = None) -> list[str]:
    """The string contents of the messages, of one role or all."""
    return [str(m.get("content")) for m in messages if role in (None, m.get("role"))]
