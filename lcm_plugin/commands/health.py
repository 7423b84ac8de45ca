"""Failing hooks, the time of the newest stored row, waiting messages, and requested checks."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from lcm_plugin.commands.facade import EngineFacade
from lcm_plugin.commands.texts import moment
from lcm_plugin.errors import StoreError
from lcm_plugin.store.failures import HookFailure
from lcm_plugin.store.integrity import IntegrityJob
from lcm_plugin.store.records import Conversation
from lcm_plugin.store.side_file import side_path
from lcm_plugin.store.waiting import WaitingFile
from lcm_plugin.text import plural
from lcm_plugin.types import Session

_MOST_FAILURES = 3

Pairs = list[tuple[str, str]]
Quote = Callable[[str], str]


def health(
    engine: EngineFacade, conversation: Conversation | None, session: Session | None
) -> dict[str, Any]:
    """The state of one session (and conversation), or of the whole database when there is no ``session``."""
    failures = engine.hook_health.failures(session)
    waiting = WaitingFile(side_path(engine.config))
    with engine.store.read() as reader:
        stored_at = conversation.updated_at if conversation else None
        if session is None:
            stored_at = reader.status().last_stored_at
    return {
        "last_stored_at": stored_at,
        "failing": [asdict(one) for one in failures if one.in_a_row],
        "last_failure": asdict(failures[0]) if failures else None,
        "waiting_messages": waiting.total() if session is None else waiting.count(session.name),
        "checks": _checks(engine, conversation, session),
    }


def health_pairs(data: dict[str, Any], zone: str, quote: Quote) -> Pairs:
    """The same in words."""
    stored_at = data["last_stored_at"]
    pairs = [("last stored", moment(stored_at, zone) if stored_at else "never")]
    pairs += failure_pairs([HookFailure(**one) for one in data["failing"]], zone, quote)
    last = data["last_failure"]
    if not data["failing"] and last is not None:
        at = moment(last["at"], zone)
        pairs.append(("last failed hook", f"{last['hook']} at {at}, works again ({quote(last['text'])})"))
    elif not data["failing"]:
        pairs.append(("last failed hook", "none"))
    if data["waiting_messages"]:
        waits = plural(data["waiting_messages"], "message")
        pairs.append(("waiting", f"{waits} could not be stored yet; the next turn tries again"))
    return [*pairs, *_check_pairs(data["checks"], zone)]


def last_stored(engine: EngineFacade) -> str:
    """When something was stored last in the whole database, and who compacts; empty when that cannot be read."""
    try:
        with engine.store.read() as reader:
            at = reader.status().last_stored_at
    except StoreError:
        return ""
    stored = (
        f"Something was stored last at {moment(at, engine.config.timezone)}."
        if at
        else "Nothing is stored yet."
    )
    if engine.config.capture_only:
        return f"{stored} Nothing is compacted here (`captureOnly`): the host does that."
    if engine.config.capture_only_session_patterns:
        return f"{stored} Sessions of `captureOnlySessionPatterns` are compacted by their host."
    return stored


def failure_pairs(failing: Sequence[HookFailure], zone: str, quote: Quote) -> Pairs:
    """A line for each hook that fails at every call now."""
    pairs = [
        (
            "failing",
            f"{quote(str(one))} (since {moment(one.since, zone)}, last at {moment(one.at, zone)})",
        )
        for one in failing[:_MOST_FAILURES]
    ]
    more = len(failing) - len(pairs)
    return [*pairs, *([("failing", f"{more:,} more hooks of other sessions")] if more > 0 else [])]


def _checks(
    engine: EngineFacade, conversation: Conversation | None, session: Session | None
) -> dict[str, Any]:
    jobs: list[IntegrityJob] = []
    if conversation is not None or session is None:
        jobs = engine.integrity_jobs.overview(conversation.conversation_id if conversation else None)
    newest = max(jobs, key=lambda job: job.finished_at, default=None)
    return {
        "waiting": sum(job.state == "pending" for job in jobs),
        "running": sum(job.state == "running" for job in jobs),
        "finished": sum(job.state in ("done", "failed") for job in jobs),
        "newest": None
        if newest is None or not newest.finished_at
        else {
            "conversation_id": newest.conversation_id,
            "state": newest.state,
            "finished_at": newest.finished_at,
            "result": json.loads(newest.result or "{}"),
        },
    }


def _check_pairs(data: dict[str, Any], zone: str) -> Pairs:
    counts = [f"{data[state]:,} {state}" for state in ("waiting", "running", "finished") if data[state]]
    if not counts:
        return []
    text, newest = ", ".join(counts), data["newest"]
    if newest:
        found = ", ".join(f"{count} {code}" for code, count in newest["result"].get("findings", {}).items())
        verdict = newest["result"].get("error") or found or "all is whole"
        text += f"; newest {moment(newest['finished_at'], zone)}: {verdict}"
    return [("integrity checks", text)]
