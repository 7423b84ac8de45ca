"""The application: its addresses, and errors as people and programs read them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from importlib.resources import files

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from lcm_plugin.errors import LcmError
from lcm_plugin.web.api import read, tools
from lcm_plugin.web.guard import Guard
from lcm_plugin.web.live import events
from lcm_plugin.web.pages import context as context_pages
from lcm_plugin.web.pages import health as health_pages
from lcm_plugin.web.pages import sessions as session_pages
from lcm_plugin.web.pages import steer as steer_pages
from lcm_plugin.web.pages import summaries as summary_pages
from lcm_plugin.web.pages import talk as talk_pages
from lcm_plugin.web.pages import tree as tree_pages
from lcm_plugin.web.pages.render import Pages
from lcm_plugin.web.site import Endpoint, Site, status_of

logger = logging.getLogger("lcm_plugin.web")
_READS: tuple[tuple[str, Endpoint], ...] = (
    ("/api/sessions", read.sessions),
    ("/api/sessions/{number}", read.session),
    ("/api/sessions/{number}/messages", read.messages),
    ("/api/sessions/{number}/summaries", read.summaries),
    ("/api/sessions/{number}/context", read.context),
    ("/api/messages/{ref}", read.message),
    ("/api/summaries/{ref}", read.summary),
    ("/api/search", read.search),
    ("/", session_pages.sessions),
    ("/search", session_pages.search),
    ("/talk/{number}", talk_pages.talk),
    ("/talk/{number}/rows", talk_pages.rows),
    ("/at/{ref}", talk_pages.at),
    ("/message/{ref}", talk_pages.message),
    ("/summary/{ref}", summary_pages.summary),
    ("/file/{ref}", talk_pages.file),
    ("/code.css", talk_pages.code_style),
    ("/steer/{number}", steer_pages.steer),
    ("/api/sessions/{number}/actions", steer_pages.actions),
    ("/context/{number}", context_pages.context),
    ("/api/sessions/{number}/next-call", context_pages.context_data),
    ("/api/sessions/{number}/turns", context_pages.turns_data),
    ("/api/sessions/{number}/turns/{turn}", context_pages.turn_data),
    ("/tree/{number}", tree_pages.tree),
    ("/tree/below/{ref}", tree_pages.below),
    ("/api/sessions/{number}/tree", tree_pages.tree_data),
    ("/health", health_pages.health),
    ("/health/check", health_pages.check),
    ("/api/health", health_pages.health_data),
    ("/api/integrity/{number}", tools.integrity),
)
_POSTS: tuple[tuple[str, Endpoint], ...] = (
    ("/api/grep", tools.tool("lcm_grep")),
    ("/api/describe", tools.tool("lcm_describe")),
    ("/api/expand", tools.tool("lcm_expand")),
    ("/api/compact", tools.compact),
    ("/api/sessions/{number}/actions/{action}", steer_pages.act_json),
    ("/steer/{number}/{action}", steer_pages.act),
    ("/summary/{ref}", summary_pages.change),
    ("/api/integrity/run", tools.run_integrity),
)


_STATIC = (
    files("lcm_plugin.web").joinpath("static"),
    # What the exported page has in common with these.
    files("lcm_plugin.interchange.export").joinpath("shared"),
)


def create_app(site: Site, hosts: Sequence[str]) -> Starlette:
    """The application for one database, which answers under the given names (``127.0.0.1:8765``)."""
    routes = [
        *(Route(path, _on_a_thread(site, endpoint)) for path, endpoint in _READS),
        *(Route(path, _on_a_thread(site, endpoint), methods=["POST"]) for path, endpoint in _POSTS),
        Route("/api/events", partial(events, site)),
        *(Mount(f"/{path.name}", StaticFiles(directory=str(path))) for path in _STATIC),
    ]
    app = Starlette(
        routes=routes,
        middleware=[
            Middleware(Guard, token=site.token, hosts=hosts, write=site.write),
            Middleware(GZipMiddleware, minimum_size=2_000, compresslevel=4),
        ],
        exception_handlers={LcmError: _said, HTTPException: _said, Exception: _broken},
    )
    app.state.site = site
    app.state.pages = Pages(site)
    return app


def _on_a_thread(site: Site, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint for Starlette: the body is read here, everything else happens on a worker thread."""

    async def handle(request: Request) -> Response:
        if request.method == "POST":
            request.state.body = await request.body()
        return await run_in_threadpool(endpoint, site, request)

    return handle


def _said(request: Request, error: Exception) -> Response:
    """An error of this package, or an address that is not there."""
    if isinstance(error, LcmError):
        return _answer(request, str(error), status_of(error))
    assert isinstance(error, HTTPException)
    text = "there is no such page" if error.status_code == 404 else error.detail
    return _answer(request, text, error.status_code)


def _broken(request: Request, error: Exception) -> Response:
    logger.error("a page failed", exc_info=error)
    return _answer(request, f"internal error: {type(error).__name__}", 500)


def _answer(request: Request, text: str, status: int) -> Response:
    if request.url.path.startswith("/api/"):
        return JSONResponse({"error": text}, status)
    pages: Pages = request.app.state.pages
    return pages.show(request, "error.html", {"text": text, "status": status}, status)
