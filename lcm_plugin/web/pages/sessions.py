"""The pages Sessions and Search."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from lcm_plugin.errors import InputError
from lcm_plugin.sessions.library import place_of
from lcm_plugin.web.data import search as searching
from lcm_plugin.web.data import sessions as listing
from lcm_plugin.web.pages.render import shown
from lcm_plugin.web.site import Site, asked

_SORTS = {
    "used": "last used",
    "created": "begun",
    "title": "title",
    "messages": "messages",
    "context": "context tokens",
}


def sessions(site: Site, request: Request) -> Response:
    """All sessions, filtered and sorted."""
    query = asked(listing.SessionQuery, request)
    found = listing.sessions(site.engine, query)
    chosen = query.model_dump(exclude_defaults=True)
    return shown(request, "sessions.html", found | {"query": query, "chosen": chosen, "sorts": _SORTS})


def search(site: Site, request: Request) -> Response:
    """Hits over all sessions; an id leads to what it names."""
    query = asked(searching.SearchQuery, request)
    if query.q.strip().startswith(("msg_", "sum_")):
        with site.engine.store.read() as reader:
            if place_of(reader, query.q.strip()) is not None:
                return RedirectResponse(f"/at/{query.q.strip()}", 303)
    problem = ""
    try:
        found = searching.search(site.engine, query)
    except InputError as error:
        found, problem = searching.nothing(), str(error)
    chosen = query.model_dump(exclude_defaults=True, exclude={"cursor"})
    return shown(request, "search.html", found | {"query": query, "chosen": chosen, "problem": problem})
