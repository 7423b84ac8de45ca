"""Which stored conversations belong to a project: those whose agents worked in the same folder or repository."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from lcm_plugin.hosts.agents.install import KITS
from lcm_plugin.store.protocol import Reader

_LOOK_AT = 8
_CWD = re.compile(r'"cwd":\s*("(?:[^"\\]|\\.)*")')


class Projects:
    """Knows the project of every conversation that it was once asked about; a conversation never changes it."""

    def __init__(self) -> None:
        self._roots: dict[int, str] = {}

    def conversations(
        self,
        reader: Reader,
        cwd: str,
        is_hidden: Callable[[str], bool],
        seconds: float | None = None,
    ) -> tuple[int, ...]:
        """The conversations of all agents in the project of a folder, but for those that are hidden.

        The newest are looked at first; what is not known when the time is over is left out.
        """
        if not cwd:
            return ()
        root, found = project_root(cwd), []
        deadline = None if seconds is None else time.monotonic() + seconds
        keys = {
            number: key
            for kit in KITS.values()
            for number, key in reader.session_keys(f"agent:{kit.log}:").items()
        }
        for number in sorted(keys, reverse=True):
            if number not in self._roots:
                if deadline is not None and time.monotonic() > deadline:
                    continue
                self._roots[number] = _root_of(reader, number)
            if self._roots[number] == root and not is_hidden(keys[number]):
                found.append(number)
        return tuple(sorted(found))


def project_root(cwd: str) -> str:
    """The repository that a folder lies in, or the folder itself."""
    folder = Path(os.path.normpath(cwd))
    root = next((one for one in (folder, *folder.parents) if (one / ".git").exists()), folder)
    return os.path.normcase(root)


def _root_of(reader: Reader, conversation_id: int) -> str:
    """The project of a conversation, by the folder that its first records name; empty when none does."""
    for message in reader.messages(conversation_id, limit=_LOOK_AT):
        for part in message.parts:
            data = part.metadata if part.type != "agent" else f"{part.text} {part.metadata}"
            if data and (named := _CWD.search(data)) is not None:
                return project_root(str(json.loads(named.group(1))))
    return ""
