"""What calls returned, and what a result says of itself: whether its call failed, with which state a program ended."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lcm_plugin.messages.blocks import (
    answers_another,
    at,
    blocks_of,
    body_path,
    call_id,
    id_text,
    kind_of,
    text_of,
)
from lcm_plugin.messages.sendable import parse_json
from lcm_plugin.messages.table import RESULT_ROLES, Kind

_ERROR_FLAGS = ("is_error", "isError")
_CODES = ("exit_code", "exitCode", "exit_status", "returncode", "return_code")
_LOOKED_AT = 400
_FAILED = re.compile(
    r"\s*(?:<tool_use_error>|traceback \(most recent call last\)|fatal:|panic:|"
    r"(?:\w+(?:error|exception)|error|exception|failed|failure)\b\s*[:!(\n])",
    re.IGNORECASE,
)
_STATE = re.compile(
    r"(?:exit(?:ed with)?|return|returned)[ _]?(?:code|status)[\"']?[ :=]{1,3}(-?\d{1,10})", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Result:
    """What one call returned; ``holder`` is the message or block that says so, ``is_text`` that it is words alone."""

    call: str
    holder: Mapping[str, Any]
    text: str
    is_text: bool

    @property
    def failed(self) -> bool:
        """Whether its call failed, by flags or by what it says."""
        return says_failure(self.holder, self.text)


def results_of(message: Mapping[str, Any]) -> Iterator[Result]:
    """The results that a message hands over, in order."""
    if message.get("role") in RESULT_ROLES:
        call = id_text(message.get("tool_call_id"))
        yield Result(call, message, text_of(message), _is_words(message.get("content")))
        return
    for block in blocks_of(message):
        if answers_another(block):
            body = at(block, body_path(block) or ())
            yield Result(call_id(block), block, text_of({"content": body}), _is_words(body))


def exit_state(text: str) -> str | None:
    """The words with which a result gives the state that a program ended with, near its beginning or its end."""
    found = _STATE.search(text[-_LOOKED_AT:]) or _STATE.search(text[:_LOOKED_AT])
    return found.group() if found else None


def says_failure(holder: Mapping[str, Any], text: str) -> bool:
    """Whether a result is one of a call that failed, by the flags of the message or block that holds it or by its text."""
    if any(holder.get(flag) is True for flag in _ERROR_FLAGS) or holder.get("status") == "error":
        return True
    if _FAILED.match(text):
        return True
    state = exit_state(text)
    if state is not None and not state.endswith((" 0", ":0", "=0")):
        return True
    return _failed_object(text)


def _is_words(body: Any) -> bool:
    if isinstance(body, list):
        return all(kind_of(block) is Kind.TEXT for block in body)
    return isinstance(body, str)


def _failed_object(text: str) -> bool:
    """Whether a text is a JSON object that names an error or an exit code other than 0."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        value = parse_json(text)
    except ValueError:
        return False
    if not isinstance(value, Mapping):
        return False
    failed = bool(value.get("error")) or value.get("success") is False or value.get("ok") is False
    return failed or any(value.get(code) not in (None, 0) for code in _CODES)
