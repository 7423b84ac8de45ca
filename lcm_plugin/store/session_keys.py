"""What a session's key says of its kind: a scheduled job, a single run, or neither."""

from __future__ import annotations

import re

_CRON = re.compile(r"agent:[^:]+:cron:.+", re.DOTALL)
_SINGLE_RUN_SEGMENTS = frozenset({"subagent", "run"})


def is_cron(session_key: str) -> bool:
    """Whether the key is one of scheduled jobs, ``agent:<id>:cron:…``, of which each run stands for itself."""
    return _CRON.fullmatch(session_key) is not None


def is_single_run(session_key: str) -> bool:
    """Whether the key is one of a sub-agent or a single run. Segments are compared whole: ``runs`` is no run."""
    return not _SINGLE_RUN_SEGMENTS.isdisjoint(session_key.split(":"))
