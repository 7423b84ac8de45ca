"""The page Steer, and the actions over HTTP. Only a server that was started with ``--write`` has them."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lcm_plugin.errors import LcmError, NotFound
from lcm_plugin.web.api.tools import body_of
from lcm_plugin.web.data import sessions as listing
from lcm_plugin.web.data.steering import Steering, overview
from lcm_plugin.web.pages.render import shown
from lcm_plugin.web.site import Site, form_of, given


def steer(site: Site, request: Request) -> Response:
    """What can be changed of one session, and what was."""
    if not site.write:
        raise NotFound("this server only reads: start it with --write to change anything")
    return _page(site, request, ())


def act(site: Site, request: Request) -> Response:
    """An action from a form; the page then says what came of it."""
    try:
        lines = _done(site, request, form_of(request))
    except LcmError as error:
        return _page(site, request, (), str(error))
    return _page(site, request, lines)


def act_json(site: Site, request: Request) -> Response:
    """The same for programs."""
    return JSONResponse({"lines": _done(site, request, dict(body_of(request)))})


def actions(site: Site, request: Request) -> Response:
    """Pins, and what people did lately."""
    with site.engine.store.read() as reader:
        row = site.conversation(reader, request)
    return JSONResponse(overview(site.engine, row))


def _done(site: Site, request: Request, arguments: dict[str, object]) -> Sequence[str]:
    with site.engine.store.read() as reader:
        row = site.conversation(reader, request)
    return Steering(site.engine, row).do(request.path_params["action"], given(arguments))


def _page(site: Site, request: Request, lines: Sequence[str], problem: str = "") -> Response:
    with site.engine.store.read() as reader:
        row = site.conversation(reader, request)
        session = listing.one_session(site.engine, reader, row)
    found = overview(site.engine, row)
    return shown(request, "steer.html", found | {"session": session, "lines": lines, "problem": problem})
