"""Standing texts of a host: notes that it adds for itself, and control messages that it repeats.

Both are named by the settings as RE2 expressions. A *note* is removed before messages are compared, and
a message of nothing but notes is not stored. A *control message* is a user message whose whole text
matches; it is stored, and leaves the context once it is clear that nothing was done about it. Neither rule
ever touches an answer with content, a tool call or a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lcm_plugin.characters import encodable
from lcm_plugin.ingest.heartbeat import is_idle_answer
from lcm_plugin.messages.blocks import only_text
from lcm_plugin.types import Message

_NOTE_ROLES = ("user", "system", "developer")


class StandingTexts:
    """Applies ``hostNotePatterns`` and ``controlMessagePatterns``. Immutable and thread-safe."""

    def __init__(self, notes: Sequence[str], controls: Sequence[str]) -> None:
        self._notes = _compiled(notes)
        self._controls = _compiled(controls)

    @property
    def has_controls(self) -> bool:
        """Whether any control message is named."""
        return bool(self._controls)

    def is_only_notes(self, message: Message) -> bool:
        """Whether a message holds text, and nothing besides notes."""
        if not self._notes or message["role"] not in _NOTE_ROLES:
            return False
        text = only_text(message)
        return text is not None and bool(text.strip()) and not self._without_notes(text).strip()

    def compared(self, message: Message) -> Message:
        """The message as it is compared with stored ones: without notes."""
        if not self._notes or message["role"] not in _NOTE_ROLES:
            return message
        content = message.get("content")
        if isinstance(content, str):
            return {**message, "content": self._without_notes(content)}
        if isinstance(content, list):
            return {**message, "content": [self._block(block) for block in content]}
        return message

    def idle_rows(self, messages: Sequence[Message]) -> list[int]:
        """Indices of control messages about which nothing was done, with the bare answers they got.

        Nothing was done when the user's next message follows directly, or after a bare ``HEARTBEAT_OK``.
        The newest message is never idle: its answer may still come.
        """
        rows: list[int] = []
        for index, message in enumerate(messages[:-1]):
            if not self._is_control(message):
                continue
            if messages[index + 1]["role"] == "user":
                rows.append(index)
            elif is_idle_answer(messages[index + 1]):
                rows += [index, index + 1]
        return rows

    def _is_control(self, message: Message) -> bool:
        text = only_text(message) if message["role"] == "user" else None
        return text is not None and any(rule.fullmatch(encodable(text).strip()) for rule in self._controls)

    def _without_notes(self, text: str) -> str:
        for rule in self._notes:
            text = rule.sub("", encodable(text))
        return text

    def _block(self, block: Any) -> Any:
        if isinstance(block, str):
            return self._without_notes(block)
        if isinstance(block, dict) and isinstance(block.get("text"), str):
            return {**block, "text": self._without_notes(block["text"])}
        return block


def _compiled(expressions: Sequence[str]) -> list[Any]:
    if not expressions:
        return []
    import re2

    options = re2.Options()
    options.log_errors = False
    return [re2.compile(expression, options) for expression in expressions]
