"""Answers the hooks of an agent: what to add to the context, in time or not at all.

Hooks run inside a person's turn. None raises, none blocks a prompt, none answers after its deadline: what is not done by
then is done behind the turn, and the host gets nothing to add.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from typing import Any

from lcm_plugin.engine import Engine
from lcm_plugin.events import log_failure, logger
from lcm_plugin.hosts.agents.calls import HookCall
from lcm_plugin.hosts.agents.capture import Capture
from lcm_plugin.hosts.agents.resume import resume_pack
from lcm_plugin.types import Session

DEADLINE_SECONDS = 0.3
OPENING_SECONDS = 0.9
_FLUSH_SECONDS = 0.3
_CLOSING_SECONDS = 0.8
_ENDS_TURN = frozenset({"Stop", "SubagentStop"})
_STORING = frozenset({"PostToolBatch", "PreCompact", "PostCompact"})


class Hooks:
    """The hooks of one session's server. ``open_engine`` opens the database, once."""

    def __init__(self, host: str, open_engine: Callable[[], Engine]) -> None:
        self._host = host
        self._open = open_engine
        self._work = ThreadPoolExecutor(1, "lcm-hook")
        self._opened: Future[Capture] = self._work.submit(self._start)
        self._work.submit(self._warm_up)
        self.warm = False
        self.newest: HookCall | None = None

    def answer(self, call: HookCall) -> dict[str, Any]:
        """What the host reads as the hook's output; empty for nothing to add."""
        # What ends a turn may be the last that a host's process sends: it is worth a wait that no prompt is.
        in_time = self.warm and call.event not in _ENDS_TURN
        allowed = DEADLINE_SECONDS if in_time else OPENING_SECONDS
        deadline = time.monotonic() + allowed
        if call.session:
            self.newest = call
        try:
            work = self._work.submit(self._handle, call)
        except RuntimeError:  # closed
            return {}
        if call.event in _STORING:
            return {}
        try:
            text = work.result(max(0.0, deadline - time.monotonic()))
        except Late:
            return {}
        return _added(call.event, text) if text else {}

    def close(self) -> None:
        """Reads on what waits, for a short time; then the work ends. A second call does nothing."""
        newest, self.newest = self.newest, None
        if newest is not None:
            last = self._work.submit(self._handle, HookCall("PostCompact", transcript=newest.transcript))
            _wait(last, _CLOSING_SECONDS)
        self._work.shutdown(wait=False, cancel_futures=True)

    def _start(self) -> Capture:
        return Capture(self._open(), self._host)

    def _warm_up(self) -> None:
        """What the first turn would wait for: the token counter's tables, and logs that an earlier session left."""
        try:
            capture = self._opened.result()
            capture.warm_up()
            self.warm = True
            capture.finish()
        except Exception as error:  # noqa: BLE001 - the first hook tries again
            log_failure(logger, "the start was not whole", error=error)

    def _handle(self, call: HookCall) -> str:
        try:
            return self._handled(call)
        except Exception as error:  # noqa: BLE001 - the host's turn goes on
            log_failure(logger, "the hook %s failed", call.event, error=error)
            return ""

    def _handled(self, call: HookCall) -> str:
        capture = self._opened.result()
        seconds = _FLUSH_SECONDS if call.event in _ENDS_TURN else 0.0
        capture.store(call.logs, call.last, seconds)
        if call.event == "SessionStart" and call.source == "compact":
            return resume_pack(self._open(), Session(f"agent:{self._host}:{call.session}"))
        return ""


def _added(event: str, text: str) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}


def _wait(work: Future[Any], seconds: float) -> None:
    try:
        work.result(seconds)
    except Late:
        return
