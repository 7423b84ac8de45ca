"""The page Context: the next call, and the calls of the newest turns."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lcm_plugin.commands import calls
from lcm_plugin.web.data import sessions as listing
from lcm_plugin.web.pages.render import shown
from lcm_plugin.web.site import Site, asked, number_in

_TURNS = 50


class ContextQuery(BaseModel):
    """Which call is looked at, the next one without a turn; and why something is not in view."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    turn: int | None = Field(default=None, ge=1)
    against: int | None = Field(default=None, ge=1)
    why: str = Field(default="", max_length=64)


class TurnQuery(BaseModel):
    """What is asked about a turn on record."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    against: int | None = Field(default=None, ge=1)
    why: str = Field(default="", max_length=64)


class TurnsQuery(BaseModel):
    """How many turns are listed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: int = Field(default=_TURNS, ge=1, le=1_000)


class NextQuery(BaseModel):
    """What is asked about the next call."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    why: str = Field(default="", max_length=64)


def context(site: Site, request: Request) -> Response:
    """What the next call would see, or what a turn's newest call saw."""
    query = asked(ContextQuery, request)
    with site.engine.store.read() as reader:
        row = site.conversation(reader, request)
        session = listing.one_session(site.engine, reader, row)
        listed = calls.turn_list(reader, row, _TURNS)
        call: dict[str, Any] = (
            calls.past_call(site.engine, reader, row, query.turn, query.against, query.why)
            if query.turn
            else {}
        )
    call = call or calls.next_call(site.engine, row, query.why)
    values = {"session": session, "call": call, "turns": listed, "query": query}
    return shown(request, "context.html", values)


def context_data(site: Site, request: Request) -> Response:
    """The next call as JSON."""
    query = asked(NextQuery, request)
    with site.engine.store.read() as reader:
        row = site.conversation(reader, request)
    return JSONResponse(calls.next_call(site.engine, row, query.why))


def turns_data(site: Site, request: Request) -> Response:
    """The newest turns on record, as JSON."""
    query = asked(TurnsQuery, request)
    with site.engine.store.read() as reader:
        return JSONResponse(
            {"turns": calls.turn_list(reader, site.conversation(reader, request), query.limit)}
        )


def turn_data(site: Site, request: Request) -> Response:
    """One of them as JSON."""
    query = asked(TurnQuery, request)
    turn = number_in(request.path_params["turn"], "turn")
    with site.engine.store.read() as reader:
        row = site.conversation(reader, request)
        return JSONResponse(calls.past_call(site.engine, reader, row, turn, query.against, query.why))
