"""What every request needs: the engine and how it is served; and how arguments are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from lcm_plugin.errors import (
    ConfigError,
    EngineClosed,
    InputError,
    LcmError,
    ModelError,
    NotFound,
    StoreConflict,
    StoreError,
)
from lcm_plugin.recall.tools import check
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import Conversation
from lcm_plugin.types import Session
from lcm_plugin.web.checks import Checks

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine

_Model = TypeVar("_Model", bound=BaseModel)
_STATUS: tuple[tuple[type[LcmError], int], ...] = (
    (InputError, 400),
    (ConfigError, 400),
    (NotFound, 404),
    (StoreConflict, 409),
    (StoreError, 503),
    (EngineClosed, 503),
    (ModelError, 502),
)


class Endpoint(Protocol):
    """Answers a request; runs on a worker thread."""

    def __call__(self, site: Site, request: Request) -> Response: ...


@dataclass(frozen=True, slots=True)
class Site:
    """One database as it is served. ``write`` allows what changes it."""

    engine: Engine
    token: str
    write: bool = False
    checks: Checks = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "checks", Checks(self.engine))

    def conversation(self, reader: Reader, request: Request) -> Conversation:
        """The conversation that a path names; raises `NotFound`."""
        return conversation_of(reader, number_in(request.path_params["number"], "conversation"))


def conversation_of(reader: Reader, number: int) -> Conversation:
    """One conversation; raises `NotFound`."""
    found = reader.conversation(number)
    if found is None:
        raise NotFound(f"there is no conversation {number}")
    return found


def session_of(conversation: Conversation) -> Session:
    """A conversation as the engine's calls name it."""
    return Session(conversation.session_key, conversation.session_id)


def number_in(text: str, what: str) -> int:
    """A positive whole number; raises `NotFound` for what cannot be one."""
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise NotFound(f"there is no {what} {text[:40]!r}")
    return int(text)


def message_number(ref: str) -> int:
    """The number of ``msg_42``; raises `NotFound`."""
    return (
        number_in(ref.removeprefix("msg_"), "message") if ref.startswith("msg_") else number_in("", "message")
    )


def form_of(request: Request) -> dict[str, Any]:
    """The fields of a posted form."""
    return dict(parse_qsl(request.state.body.decode("utf-8", "replace"), keep_blank_values=True))


def asked(model: type[_Model], request: Request) -> _Model:
    """The query of a request, checked; empty values are as if they were not there. Raises `InputError`."""
    return check(model, request.url.path, given(request.query_params))


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are not empty, as forms send them."""
    return {name: value for name, value in values.items() if value != ""}


def status_of(error: LcmError) -> int:
    """The HTTP status of an error of this package."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
