"""Which lane of talk a session of the host is.

The host keeps a tape for each workspace and session id (``channel:chat_id``). The workspace is the agent
of our session keys: ``agent:<folder>-<hash of its path>:<channel>:<chat id>``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lcm_plugin.types import Session

_TEMPORARY = "temp/"
_ODD = re.compile(r"[^\w.-]+")


def session_of(state: Mapping[str, Any]) -> Session | None:
    """The lane of a turn, from the host's state of it; None when the state names no session."""
    session_id = state.get("session_id")
    return (
        Session(key_of(workspace_of(state), session_id))
        if isinstance(session_id, str) and session_id
        else None
    )


def workspace_of(state: Mapping[str, Any]) -> Path:
    """The folder in which the turn's agent works."""
    named = state.get("_runtime_workspace")
    return (Path(named).expanduser() if isinstance(named, str) and named.strip() else Path.cwd()).resolve()


def key_of(workspace: Path, session_id: str) -> str:
    """The session key. A sub-agent's session, which the host throws away, is ``agent:…:subagent:<id>``."""
    name = _ODD.sub("-", workspace.name).strip("-") or "root"
    digest = hashlib.blake2b(str(workspace).encode("utf-8", "surrogateescape"), digest_size=4).hexdigest()
    lane = session_id
    if session_id.startswith(_TEMPORARY):
        lane = f"subagent:{session_id.removeprefix(_TEMPORARY)}"
    return f"agent:{name}-{digest}:{lane}"
