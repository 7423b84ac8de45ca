"""What a session's key says of its kind: a scheduled job, a single run, or neither."""

from __future__ import annotations

import re

_CRON = re.compile(r"agent:[^:]+:cron:.+", re.DOTALL)
_SINGLE_RUN_SEGMENTS = frozenset({"subagent", "run"})
# Hermes' names for a home that is no named profile.
_NO_PROFILE = frozenset({"", "default", "custom"})


def is_cron(session_key: str) -> bool:
    """Whether the key is one of scheduled jobs, ``agent:<id>:cron:…``, of which each run stands for itself."""
    return _CRON.fullmatch(session_key) is not None


def is_single_run(session_key: str) -> bool:
    """Whether the key is one of a sub-agent or a single run. Segments are compared whole: ``runs`` is no run."""
    return not _SINGLE_RUN_SEGMENTS.isdisjoint(session_key.split(":"))


def hermes_key(profile: str, platform: str, session_id: str) -> str:
    """``agent:<profile>:<platform>:<session id>``, as the Hermes host keeps a session and importers bring it in.

    A home that is no named profile is ``main``. A colon within a part is escaped.
    """
    parts = ("main" if profile in _NO_PROFILE else profile, platform or "cli", session_id)
    return ":".join(["agent", *(part.replace("%", "%25").replace(":", "%3A") for part in parts)])
