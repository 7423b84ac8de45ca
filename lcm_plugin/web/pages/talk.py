"""The pages Talk and one message; and the bytes of files."""

from __future__ import annotations

from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from lcm_plugin.errors import NotFound
from lcm_plugin.sessions.library import place_of
from lcm_plugin.web import markdown
from lcm_plugin.web.data import sessions as listing
from lcm_plugin.web.data import talk as talking
from lcm_plugin.web.pages.render import shown
from lcm_plugin.web.site import Site, asked, conversation_of, message_number


class TalkQuery(BaseModel):
    """Where a talk is opened, and whether with its hidden rows."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    at: str = Field(default="", max_length=64)
    hidden: bool = False


def talk(site: Site, request: Request) -> Response:
    """A conversation; its rows are fetched where they are looked at."""
    query = asked(TalkQuery, request)
    with site.engine.store.read() as reader:
        row = site.conversation(reader, request)
        session = listing.one_session(site.engine, reader, row)
        last = row.next_seq - 1
        at = last
        if query.at:
            place = place_of(reader, query.at)
            if place is None or place[0] != row.conversation_id:
                raise NotFound(f"there is no {query.at} in this conversation")
            at = place[1]
    values = {"session": session, "last": last, "at": at, "query": query, "stripe": talking.STRIPE}
    return shown(request, "talk.html", values)


def rows(site: Site, request: Request) -> Response:
    """The rows of one stripe."""
    query = asked(talking.RowQuery, request)
    with site.engine.store.read() as reader:
        row = site.conversation(reader, request)
        found = talking.rows(reader, row, query)
        before = reader.heads(row.conversation_id, before_seq=query.after + 1, limit=1)
    values = found | {"number": row.conversation_id, "before": before[0].created_at if before else None}
    return shown(request, "rows.html", values)


def at(site: Site, request: Request) -> Response:
    """The talk at a message's place; a summary's page."""
    ref = request.path_params["ref"]
    with site.engine.store.read() as reader:
        place = place_of(reader, ref)
    if place is None:
        raise NotFound(f"there is no {ref[:40]}")
    if ref.startswith("sum_"):
        return RedirectResponse(f"/summary/{ref}", 303)
    return RedirectResponse(f"/talk/{place[0]}?at={ref}", 303)


def message(site: Site, request: Request) -> Response:
    """A message with all its words and as it came in."""
    with site.engine.store.read() as reader:
        found = talking.one_message(site.engine, reader, message_number(request.path_params["ref"]))
        session = listing.one_session(site.engine, reader, conversation_of(reader, found["conversation"]))
    return shown(request, "message.html", {"message": found, "session": session})


def file(site: Site, request: Request) -> Response:
    """A payload: pictures as they are, everything else to be saved."""
    with site.engine.store.read() as reader:
        record, data = talking.file_of(site.engine, reader, request.path_params["ref"])
    if talking.is_picture(record):
        return Response(data, media_type=record.mime_type)
    name = quote(record.name or record.file_id, safe="")
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
    return Response(data, media_type="application/octet-stream", headers=headers)


def code_style(site: Site, request: Request) -> Response:
    """The colours of code."""
    return Response(markdown.code_style(), media_type="text/css")
