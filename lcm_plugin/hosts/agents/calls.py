"""What a hook of an agent says: one call, with the fields that the hosts' JSON has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FIELDS = {
    "event": "hook_event_name",
    "session": "session_id",
    "transcript": "transcript_path",
    "cwd": "cwd",
    "prompt": "prompt",
    "last": "last_assistant_message",
    "source": "source",
    "agent": "agent_id",
    "agent_transcript": "agent_transcript_path",
}
"""The arguments of the hook tool, and the host's field that each is filled from."""


@dataclass(frozen=True, slots=True)
class HookCall:
    """One event of a session; a field that the host did not fill is empty.

    ``transcript`` is the session's live log, ``last`` the answer that ends the turn, ``source`` why a session
    starts, and ``agent`` the id of the sub-agent that the event is about.
    """

    event: str
    session: str = ""
    transcript: str = ""
    cwd: str = ""
    prompt: str = ""
    last: str = ""
    source: str = ""
    agent: str = ""
    agent_transcript: str = ""

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> HookCall:
        """A call from the hook tool's arguments. A placeholder that the host left as it is counts as empty."""
        return cls(**{name: _filled(arguments.get(name)) for name in FIELDS})

    @classmethod
    def of_host(cls, said: Mapping[str, Any]) -> HookCall:
        """A call from the JSON that a host gives to a command."""
        return cls.of({name: said.get(field) for name, field in FIELDS.items()})

    @property
    def logs(self) -> tuple[Path, ...]:
        """The logs that the event names."""
        return tuple(Path(name) for name in (self.transcript, self.agent_transcript) if name)


def _filled(value: Any) -> str:
    return value if isinstance(value, str) and not value.startswith("${") else ""
