"""The page Tree."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lcm_plugin.errors import NotFound
from lcm_plugin.web.data import sessions as listing
from lcm_plugin.web.data import tree as growing
from lcm_plugin.web.pages.render import shown
from lcm_plugin.web.site import Site


def tree(site: Site, request: Request) -> Response:
    """The context and what is below it."""
    with site.engine.store.read() as reader:
        row = site.conversation(reader, request)
        found = growing.tree(reader, row)
        session = listing.one_session(site.engine, reader, row)
    return shown(request, "tree.html", {"session": session, "tree": found})


def tree_data(site: Site, request: Request) -> Response:
    """The same as JSON."""
    with site.engine.store.read() as reader:
        return JSONResponse(growing.tree(reader, site.conversation(reader, request)))


def below(site: Site, request: Request) -> Response:
    """The branches of one summary."""
    ref = request.path_params["ref"]
    with site.engine.store.read() as reader:
        summary = reader.summaries([ref]).get(ref)
        if summary is None:
            raise NotFound(f"there is no summary {ref[:40]}")
        nodes = growing.below(reader, summary)
    return shown(request, "nodes.html", {"nodes": nodes})
