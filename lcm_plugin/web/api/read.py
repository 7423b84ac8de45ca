"""Reads of the JSON API: sessions, messages, summaries, search."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lcm_plugin.store.protocol import iterate_items
from lcm_plugin.web.data import search as searching
from lcm_plugin.web.data import sessions as listing
from lcm_plugin.web.data import talk
from lcm_plugin.web.site import Site, asked, message_number


def sessions(site: Site, request: Request) -> Response:
    """The sessions that fit, a page of them, with facets."""
    return JSONResponse(listing.sessions(site.engine, asked(listing.SessionQuery, request)))


def session(site: Site, request: Request) -> Response:
    """One session."""
    with site.engine.store.read() as reader:
        row = site.conversation(reader, request)
        return JSONResponse(listing.one_session(site.engine, reader, row))


def messages(site: Site, request: Request) -> Response:
    """A stretch of a session's messages, with the leaves that cover them."""
    query = asked(talk.RowQuery, request)
    with site.engine.store.read() as reader:
        return JSONResponse(talk.rows(reader, site.conversation(reader, request), query))


def summaries(site: Site, request: Request) -> Response:
    """A session's summaries, for paging."""
    query = asked(talk.SummaryQuery, request)
    with site.engine.store.read() as reader:
        return JSONResponse(talk.summaries(reader, site.conversation(reader, request), query))


def context(site: Site, request: Request) -> Response:
    """The active context, item by item."""
    with site.engine.store.read() as reader:
        row = site.conversation(reader, request)
        items: list[dict[str, Any]] = [
            {
                "ordinal": one.ordinal,
                "kind": one.kind,
                "id": one.ref,
                "depth": one.depth,
                "tokens": one.tokens,
            }
            for one in iterate_items(reader, row.conversation_id)
        ]
    return JSONResponse({"conversation": row.conversation_id, "tokens": row.context_tokens, "items": items})


def message(site: Site, request: Request) -> Response:
    """One message in full."""
    with site.engine.store.read() as reader:
        number = message_number(request.path_params["ref"])
        return JSONResponse(talk.one_message(site.engine, reader, number))


def summary(site: Site, request: Request) -> Response:
    """One summary with its sources."""
    with site.engine.store.read() as reader:
        return JSONResponse(talk.one_summary(reader, request.path_params["ref"]))


def search(site: Site, request: Request) -> Response:
    """Hits over all sessions, with facets."""
    return JSONResponse(searching.search(site.engine, asked(searching.SearchQuery, request)))
