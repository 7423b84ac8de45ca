"""From an assembled context to what a LangChain model is called with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AnySet
from dataclasses import dataclass
from operator import is_
from typing import Any, TypeVar

from langchain_core.messages import BaseMessage, SystemMessage

from lcm_plugin.hosts.langchain.messages import Converted, from_core
from lcm_plugin.types import Message

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Beside:
    """A message that another middleware put into this call only, and the id of the one after it."""

    message: BaseMessage
    before: str | None


def beside_state(request: Sequence[BaseMessage], state: Sequence[BaseMessage]) -> list[Beside]:
    """What a request holds that the graph's state does not."""
    if len(request) == len(state) and all(map(is_, request, state)):
        return []
    held = {message.id for message in state if message.id}
    nameless = [message for message in state if not message.id]
    found: list[Beside] = []
    following: str | None = None
    for message in reversed(request):
        if message.id in held:
            following = message.id
        elif message.id or message not in nameless:
            found.append(Beside(message, following))
    return found[::-1]


def seen_by_model(
    context: Sequence[Message],
    request: Sequence[BaseMessage],
    state: Sequence[Converted],
    beside: Sequence[Beside],
) -> list[BaseMessage]:
    """The context as messages: the request's own objects where the core shows them whole.

    Another middleware may have changed a message for this call, so its copy counts. What it put in goes
    before the message that it stood before, or to the end.
    """
    shown = {str(message["id"]) for message in context if "id" in message}
    asked = {message.id: message for message in _newest(shown, request, lambda one: one.id)}
    held = {known.core["id"]: known for known in _newest(shown, state, lambda one: one.core.get("id"))}
    seen: list[BaseMessage] = []
    for message in context:
        name = str(message.get("id"))
        known, live = held.get(name), asked.get(name)
        # What had to be converted, or mended for providers, goes out in that form.
        whole = known is not None and known.as_is and known.core == message
        seen += [live] if live is not None and whole else from_core(message)
    for one in beside:
        seen.insert(_position(seen, one.before), one.message)
    return seen


def _newest(names: AnySet[str], listing: Sequence[_T], name_of: Callable[[_T], str | None]) -> Iterator[_T]:
    """What has one of some names, from a list's end until each was found."""
    missing = set(names)
    for one in reversed(listing):
        if not missing:
            return
        if (name := name_of(one)) in missing:
            missing.discard(str(name))
            yield one


def with_note(system: SystemMessage | None, note: str) -> SystemMessage | None:
    """The system message with a note behind it; a list of blocks stays one, so that marks on them count."""
    if not note:
        return system
    if system is None:
        return SystemMessage(content=note)
    content: Any = system.content
    if isinstance(content, str):
        return system.model_copy(update={"content": f"{content}\n\n{note}" if content else note})
    return system.model_copy(update={"content": [*content, {"type": "text", "text": note}]})


def _position(messages: Sequence[BaseMessage], before: str | None) -> int:
    if before is None:
        return len(messages)
    return next((n for n, message in enumerate(messages) if message.id == before), 0)
