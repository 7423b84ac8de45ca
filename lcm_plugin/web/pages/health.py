"""The page Health."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lcm_plugin.web.data import health as looking
from lcm_plugin.web.pages.render import shown
from lcm_plugin.web.site import Site, conversation_of, number_in, session_of


def health(site: Site, request: Request) -> Response:
    """The state of the whole database."""
    return shown(request, "health.html", looking.health(site.engine))


def health_data(site: Site, request: Request) -> Response:
    """The same as JSON."""
    return JSONResponse(looking.health(site.engine))


def check(site: Site, request: Request) -> Response:
    """What the doctor finds now, in one session or in all."""
    session, number = None, request.query_params.get("session", "")
    if number:
        with site.engine.store.read() as reader:
            session = session_of(conversation_of(reader, number_in(number, "conversation")))
    return shown(request, "findings.html", looking.findings(site.engine, session) | {"number": number})
