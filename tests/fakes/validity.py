"""What every chat-completion provider demands of a message list.

The strictest reading of the providers together: what passes here is accepted by all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Messages = Sequence[Mapping[str, Any]]


def text_of(content: object) -> str:
    """The text of a message's content, its parts joined by a line break."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))


def problems_of(messages: Messages, *, model_must_answer: bool = True) -> list[str]:
    """Every rule the list breaks, as sentences with the index of the message; none when it is valid."""
    return [
        *_shape(messages),
        *_content(messages),
        *_pairing(messages),
        *_order(messages, model_must_answer),
    ]


def _shape(messages: Messages) -> list[str]:
    if not messages:
        return ["the list is empty"]
    known = {"system", "developer", "user", "assistant", "tool"}
    return [
        f"[{i}] has the role {m.get('role')!r}" for i, m in enumerate(messages) if m.get("role") not in known
    ]


def _content(messages: Messages) -> list[str]:
    return [
        f"[{i}] {m.get('role')} has no content"
        for i, m in enumerate(messages)
        if not m.get("tool_calls") and _blank(m.get("content"))
    ]


def _blank(content: object) -> bool:
    if isinstance(content, list):
        return not content or any(_blank_part(part) for part in content)
    return not isinstance(content, str) or not content.strip()


def _blank_part(part: object) -> bool:
    if not isinstance(part, Mapping):
        return True
    return part.get("type") == "text" and not str(part.get("text") or "").strip()


def _pairing(messages: Messages) -> list[str]:
    found: list[str] = []
    seen: set[str] = set()
    open_calls: dict[str, int] = {}
    for i, message in enumerate(messages):
        if message.get("role") == "tool":
            call_id = str(message.get("tool_call_id"))
            if open_calls.pop(call_id, None) is None:
                found.append(f"[{i}] answers {call_id!r}, which no call directly before it asked for")
            continue
        found += [f"[{at}] calls {call_id!r} without an answer" for call_id, at in open_calls.items()]
        open_calls = {}
        for call in message.get("tool_calls") or ():
            call_id = str(call.get("id"))
            if call_id in seen:
                found.append(f"[{i}] uses the call id {call_id!r} again")
            seen.add(call_id)
            open_calls[call_id] = i
    return found + [f"[{at}] calls {call_id!r} without an answer" for call_id, at in open_calls.items()]


def _order(messages: Messages, model_must_answer: bool) -> list[str]:
    found = []
    talk = [m.get("role") for m in messages if m.get("role") not in ("system", "developer")]
    if not talk:
        found.append("there is nothing but system messages")
    elif talk[0] != "user":
        found.append(f"the first message after the system's is from the {talk[0]}, not from the user")
    if model_must_answer and talk and talk[-1] == "assistant":
        found.append("the last message is the assistant's")
    return found
