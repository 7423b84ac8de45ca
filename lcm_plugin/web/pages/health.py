"""The page Health."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lcm_plugin.web.data import health as looking
from lcm_plugin.web.pages.render import shown
from lcm_plugin.web.site import Site, conversation_of, number_in, session_of

SHORT_SECONDS = 0.2
"""How long a page waits for a check, since small databases are checked at once."""


def health(site: Site, request: Request) -> Response:
    """The state of the whole database."""
    return shown(request, "health.html", looking.health(site.engine))


def health_data(site: Site, request: Request) -> Response:
    """The same as JSON."""
    return JSONResponse(looking.health(site.engine))


def check(site: Site, request: Request) -> Response:
    """Begins a check of one session or of all; the page asks for it by its number until it is done."""
    asked, number = request.query_params.get("check", ""), request.query_params.get("session", "")
    if asked:
        running = site.checks.get(number_in(asked, "check"))
    else:
        session = None
        if number:
            with site.engine.store.read() as reader:
                session = session_of(conversation_of(reader, number_in(number, "conversation")))
        running = site.checks.start(session)
    running.done.wait(SHORT_SECONDS)
    values: dict[str, Any] = {"check": running.number, "began": running.began, "error": running.error}
    if running.report is not None:
        values |= looking.findings(site.engine, running.report)
    return shown(request, "findings.html", values | {"running": not running.done.is_set()})
