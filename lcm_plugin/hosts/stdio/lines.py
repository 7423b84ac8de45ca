"""The protocol of ``lcm serve --stdio``: a line with a call in, a line with its answer out.

    {"id": 1, "method": "hello"}
    {"id": 1, "result": {"protocol": 1, "version": "0.1.0"}}

Calls of one session run in the order in which they came, those of several sessions beside each other; the answer names
the call by its ``id``. A call without an id gets no answer. A line that is no call is answered with ``"id": null`` and an
error that names the line by its number; nothing that a client writes ends the server.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO

from pydantic import ValidationError

from lcm_plugin.config.refusals import refusal
from lcm_plugin.errors import InputError, LcmError, error_code
from lcm_plugin.events import log_failure, logger
from lcm_plugin.forks import FreshLocks, join

Method = Callable[[Mapping[str, Any]], dict[str, Any]]
LONGEST_LINE = 256 * 1024 * 1024
_THREADS = 4


class BadLine(LcmError):
    """A line that is no call."""

    code = "BAD_LINE"


class Lines(FreshLocks):
    """Answers the calls of one client. ``methods`` may raise; the client then gets the error and its code."""

    def __init__(self, methods: Mapping[str, Method], answers: BinaryIO, longest: int = LONGEST_LINE) -> None:
        self._methods = methods
        self._answers = answers
        self._longest = longest
        self._writing = threading.Lock()
        self._queues = _Queues(_THREADS)
        join(self)

    def serve(self, calls: BinaryIO) -> None:
        """Answers every call of a stream until it ends, and then what still runs."""
        number = 0
        while line := calls.readline(self._longest + 1):
            number += 1
            if len(line) > self._longest:
                while line and not line.endswith(b"\n"):
                    line = calls.readline(self._longest)
                self._refuse(None, BadLine(f"line {number} is longer than {self._longest:,} bytes"))
            elif line.strip():
                self._take(number, line)
        self._queues.close()

    def say(self, value: Mapping[str, Any]) -> None:
        """Writes a line; a client that is gone does not matter."""
        # ASCII keeps lone surrogates of stored messages as they are; no line of the text ends the line of the protocol.
        data = json.dumps(value, default=str).encode("ascii") + b"\n"
        with self._writing:
            try:
                self._answers.write(data)
                self._answers.flush()
            except (OSError, ValueError):
                return

    def _take(self, number: int, line: bytes) -> None:
        try:
            call = _call_of(number, line)
        except BadLine as error:
            self._refuse(None, error)
            return
        name, params = call["method"], call["params"]
        session = params.get("session")
        # A session is named by its key alone, or with more beside it.
        key = session.get("key") if isinstance(session, Mapping) else session
        self._queues.put(json.dumps(key, sort_keys=True), lambda: self._answer(call.get("id"), name, params))

    def _answer(self, name: Any, method: str, params: Mapping[str, Any]) -> None:
        try:
            if method not in self._methods:
                raise InputError(
                    f"there is no method {method!r}; the methods are {', '.join(sorted(self._methods))}"
                )
            result = self._methods[method](params)
        except Exception as error:  # noqa: BLE001 - the client must go on
            if not isinstance(error, (LcmError, ValidationError)):
                log_failure(logger, "the method %s failed", method, error=error)
            self._refuse(name, error)
            return
        if name is not None:
            self.say({"id": name, "result": result})

    def _refuse(self, name: Any, error: Exception) -> None:
        if name is not None or isinstance(error, BadLine):
            self.say({"id": name, "error": {"code": _code_of(error), "message": _words_of(error)}})


class _Queues(FreshLocks):
    """Work in threads: that of one name in order, that of several names at once."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, "lcm-stdio")
        self._lock = threading.Lock()
        self._waiting: dict[str, deque[Callable[[], None]]] = {}
        join(self)

    def put(self, name: str, work: Callable[[], None]) -> None:
        """Runs work behind what waits under the same name."""
        with self._lock:
            waiting = self._waiting.get(name)
            if waiting is not None:
                waiting.append(work)
                return
            self._waiting[name] = deque([work])
        self._pool.submit(self._run, name)

    def close(self) -> None:
        """Waits until all is done."""
        while True:
            with self._lock:
                if not self._waiting:
                    break
                last = threading.Event()
                next(iter(self._waiting.values())).append(last.set)
            last.wait()
        self._pool.shutdown()

    def _run(self, name: str) -> None:
        while True:
            with self._lock:
                waiting = self._waiting[name]
                if not waiting:
                    del self._waiting[name]
                    return
                work = waiting.popleft()
            work()


def _call_of(number: int, line: bytes) -> dict[str, Any]:
    """The call on a line; raises `BadLine` saying what is wrong with it."""
    try:
        call = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadLine(f"line {number} is no JSON: {error}") from error
    if not isinstance(call, dict):
        raise BadLine(f"line {number} is no JSON object but {type(call).__name__}")
    if not isinstance(call.get("method"), str):
        raise BadLine(f'line {number} names no method: it needs "method" and may have "id" and "params"')
    params = call.get("params", {})
    if not isinstance(params, dict):
        raise BadLine(f"line {number}: params must be an object, not {type(params).__name__}")
    return {**call, "params": params}


def _code_of(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "INVALID_ARGUMENTS"
    return error_code(error) if isinstance(error, LcmError) else "FAILED"


def _words_of(error: Exception) -> str:
    if isinstance(error, ValidationError):
        wrong = error.errors(include_url=False)
        return "; ".join(f"{'.'.join(map(str, one['loc'])) or 'params'}: {refusal(one)}" for one in wrong)
    return str(error) or type(error).__name__
