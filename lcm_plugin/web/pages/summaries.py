"""The page of one summary: its text, earlier ones, what it was made of; and its edits, with ``--write``."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from lcm_plugin.errors import LcmError, NotFound
from lcm_plugin.web.data import sessions as listing
from lcm_plugin.web.data import talk as talking
from lcm_plugin.web.data.steering import SUMMARY_ACTIONS, Steering
from lcm_plugin.web.pages.render import shown
from lcm_plugin.web.site import Site, conversation_of, form_of


def summary(site: Site, request: Request) -> Response:
    """A summary, what it was made of, and what was made from it."""
    return _page(site, request, {})


def change(site: Site, request: Request) -> Response:
    """An edit from a form of the page, which then says what came of it; a text that was refused stays in the form."""
    form = form_of(request)
    action = str(form.pop("action", ""))
    ref = request.path_params["ref"]
    if action not in SUMMARY_ACTIONS:
        raise NotFound(f"there is no action {action[:40]!r} on a summary")
    with site.engine.store.read() as reader:
        found = talking.one_summary(reader, ref)
        row = conversation_of(reader, found["conversation"])
    try:
        lines = Steering(site.engine, row).do(action, form | {"summary": ref})
    except LcmError as error:
        return _page(site, request, {"problem": str(error), "typed": form.get("text")})
    return _page(site, request, {"lines": lines})


def _page(site: Site, request: Request, outcome: dict[str, Any]) -> Response:
    with site.engine.store.read() as reader:
        found = talking.one_summary(reader, request.path_params["ref"])
        session = listing.one_session(site.engine, reader, conversation_of(reader, found["conversation"]))
    return shown(request, "summary.html", outcome | {"summary": found, "session": session})
