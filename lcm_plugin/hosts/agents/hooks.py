"""Answers the hooks of an agent: what to add to the context, in time or not at all.

Hooks run inside a person's turn. None raises, none blocks a prompt, none answers after its deadline: what is not done by
then is done behind the turn, and the host gets nothing to add.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from typing import Any

from lcm_plugin.engine import Engine
from lcm_plugin.events import log_failure, logger
from lcm_plugin.hosts.agents.calls import HookCall
from lcm_plugin.hosts.agents.capture import Capture
from lcm_plugin.hosts.agents.names import TIMEOUT_VARIABLE
from lcm_plugin.hosts.agents.passages import Passages, pack_is_due
from lcm_plugin.hosts.agents.resume import resume_pack
from lcm_plugin.messages.merging import COUNTS
from lcm_plugin.types import Session

DEADLINE_SECONDS = 0.3
OPENING_SECONDS = 0.9
WORTH_WAITING_SECONDS = 3.0
_FLUSH_SECONDS = 0.3
_CLOSING_SECONDS = 0.8
_PROMPTS = frozenset({"UserPromptSubmit", "BeforeAgent"})
_ENDS_TURN = frozenset({"Stop", "SubagentStop", "AfterAgent"})
_STORING = frozenset({"PostToolBatch", "PreCompact", "PostCompact"})


class Hooks:
    """The hooks of one session's server. ``open_engine`` opens the database, once."""

    def __init__(self, host: str, open_engine: Callable[[], Engine]) -> None:
        self._host = host
        self._open = open_engine
        self._capture: Capture | None = None
        self._passages = Passages(host, open_engine)
        self._newest: HookCall | None = None
        self._closed = False
        self._opened = False
        self._given = float(os.environ.get(TIMEOUT_VARIABLE) or 0) / 1_000
        # A prompt must not wait behind a log that is being read.
        self._quotes = ThreadPoolExecutor(1, "lcm-quotes")
        self._work = ThreadPoolExecutor(1, "lcm-hook")
        self._work.submit(self._warm_up)

    def answer(self, call: HookCall, waited: float = 0.0) -> dict[str, Any]:
        """What the host reads as the hook's output; empty for nothing to add. The hook ``waited`` so many seconds."""
        if self._closed:
            return {}
        if call.session:
            self._newest = call
        # Gemini CLI has no event after it compressed a chat.
        packs = call.event == "BeforeAgent" and pack_is_due(call.transcript)
        if call.event in _PROMPTS:
            work = self._quotes.submit(
                self._handle, call, self._packed if packs else self._passages.for_prompt
            )
            work.add_done_callback(lambda _: self._store_later(call))
        else:
            work = self._work.submit(self._handle, call, self._stored)
        if call.event in _STORING:
            return {}
        try:
            allowed = max(self._allowed(call), WORTH_WAITING_SECONDS if packs else 0.0)
            text = work.result(max(0.0, allowed - waited))
        except Late:
            return {}
        self._passages.delivered(call.session, text)
        return added(call.event, text) if text else {}

    def answered(self, answer: Mapping[str, Any]) -> None:
        """A recall tool's answer stands in the context from now on."""
        self._passages.answered(json.dumps(answer))

    @property
    def warm(self) -> bool:
        """Whether all that a hook needs is in memory; after a rest the token counter is not."""
        return self._opened and COUNTS.is_ready

    def close(self) -> None:
        """Reads on what waits, for a short time; then the work ends. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        newest = self._newest
        if newest is not None:
            last = HookCall("PostCompact", transcript=newest.transcript)
            _wait(self._work.submit(self._handle, last, self._stored), _CLOSING_SECONDS)
        self._quotes.shutdown(wait=False, cancel_futures=True)
        self._work.shutdown(wait=False, cancel_futures=True)

    def _allowed(self, call: HookCall) -> float:
        """How long a hook may take, in seconds.

        What ends a turn may be the last that a host's process sends, and a compaction takes long itself: they are worth
        a wait that no prompt is.
        """
        if self._given:
            return self._given
        if call.event == "SessionStart" or call.event in _ENDS_TURN:
            return WORTH_WAITING_SECONDS
        return DEADLINE_SECONDS if self.warm else OPENING_SECONDS

    def _captures(self) -> Capture:
        """The reader of logs; a database that could not be opened is tried again. Only for the working thread."""
        if self._capture is None:
            self._capture = Capture(self._open(), self._host)
        return self._capture

    def _warm_up(self) -> None:
        """What the first turn would wait for: the token counter's tables, and logs that an earlier session left."""
        try:
            capture = self._captures()
            capture.warm_up()
            self._opened = True
            capture.finish()
        except Exception as error:  # noqa: BLE001 - the first hook tries again
            log_failure(logger, "the start was not whole", error=error)

    def _handle(self, call: HookCall, work: Callable[[HookCall], str]) -> str:
        try:
            return work(call)
        except Exception as error:  # noqa: BLE001 - the host's turn goes on
            log_failure(logger, "the hook %s failed", call.event, error=error)
            return ""

    def _store_later(self, call: HookCall) -> None:
        """What the log gained since the last turn is read when the prompt has its answer."""
        if not self._closed:
            self._work.submit(self._handle, call, self._stored)

    def _packed(self, call: HookCall) -> str:
        """The resume pack before the quotes that fit the prompt."""
        self._passages.begin_anew(call.session)
        quotes = self._passages.for_prompt(call)
        # The prompt may be in the log already, and would be found as the best answer to itself.
        self._work.submit(self._handle, call, self._stored).result()
        pack = resume_pack(self._open(), Session(f"agent:{self._host}:{call.session}"))
        return "\n\n".join(filter(None, (pack, quotes)))

    def _stored(self, call: HookCall) -> str:
        seconds = _FLUSH_SECONDS if call.event in _ENDS_TURN else 0.0
        self._captures().store(call.logs, call.last, seconds, project=call.cwd)
        if call.event != "SessionStart" or call.source != "compact":
            return ""
        self._passages.compacted(call.session)
        return resume_pack(self._open(), Session(f"agent:{self._host}:{call.session}"))


def added(event: str, text: str) -> dict[str, Any]:
    """The output of a hook that adds a text to the context."""
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}


def _wait(work: Future[Any], seconds: float) -> None:
    try:
        work.result(seconds)
    except Late:
        return
