"""The page Context."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lcm_plugin.errors import NotFound
from lcm_plugin.web.data import sessions as listing
from lcm_plugin.web.data.context import NextCall
from lcm_plugin.web.pages.render import shown
from lcm_plugin.web.site import Site, asked


class ContextQuery(BaseModel):
    """What is asked about a context: why something is not in view."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    why: str = Field(default="", max_length=64)


def context(site: Site, request: Request) -> Response:
    """What the next call would see."""
    data, session = _found(site, request)
    return shown(request, "context.html", {"session": session, "call": data})


def context_data(site: Site, request: Request) -> Response:
    """The same as JSON."""
    return JSONResponse(_found(site, request)[0])


def _found(site: Site, request: Request) -> tuple[dict[str, Any], dict[str, Any]]:
    query = asked(ContextQuery, request)
    with site.engine.store.read() as reader:
        row = site.conversation(reader, request)
        session = listing.one_session(site.engine, reader, row)
    if not row.active:
        return {"archived": True, "why": None}, session
    call = NextCall(site.engine, row)
    with site.engine.store.read() as reader:
        data = call.data(reader) | {"archived": False, "why": None}
        if query.why:
            try:
                data["why"] = call.why(reader, query.why.strip())
            except NotFound as error:
                data["why"] = {"id": query.why, "in_view": False, "way": [], "why": str(error)}
    return data, session
