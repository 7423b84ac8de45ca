"""The HTTP adapter of the LCM specification: ``describe``, ``grep``, ``expand``, ``compact``, ``integrity/run``.

Each takes the arguments of the engine's own call as a JSON object. ``session`` names the session in whose name it is
asked: a key, an id, or a conversation's number; without it the whole database is searched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lcm_plugin.errors import InputError, StoreError
from lcm_plugin.messages.sendable import parse_json
from lcm_plugin.recall.tools import check
from lcm_plugin.store.records import Conversation
from lcm_plugin.types import Session
from lcm_plugin.web.checks import Check
from lcm_plugin.web.data.search import raise_for
from lcm_plugin.web.site import Endpoint, Site, number_in, session_of

_WHOLE = Session("lcm:web")


class CompactArguments(BaseModel):
    """What ``compact`` takes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    session: str = Field(min_length=1, max_length=2_000)
    force: bool = False
    budget: int | None = Field(default=None, ge=1_000)
    focus: str = Field(default="", max_length=2_000)


class IntegrityArguments(BaseModel):
    """What ``integrity/run`` takes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    session: str = Field(default="", max_length=2_000)
    mode: Literal["scan", "scan_and_plan"] = "scan"
    wait: bool = True


def tool(name: str) -> Endpoint:
    """The endpoint of one of the recall tools."""

    def call(site: Site, request: Request) -> Response:
        arguments = dict(body_of(request))
        selector = arguments.pop("session", None)
        scope: dict[str, Any] = {"all_conversations": True}
        session = _WHOLE
        if selector is not None:
            chosen = _chosen(site, str(selector))
            session = Session(chosen.session_key or _WHOLE.key, chosen.session_id)
            scope = {"conversation_id": chosen.conversation_id}
        answer = site.engine.call_tool(session, name, scope | arguments)
        raise_for(answer)
        return JSONResponse(answer)

    return call


def compact(site: Site, request: Request) -> Response:
    """Compacts a session now."""
    asked = check(CompactArguments, "compact", body_of(request))
    session = session_of(_chosen(site, asked.session))
    result = site.engine.compact(session, force=asked.force, budget=asked.budget, focus=asked.focus)
    return JSONResponse(asdict(result))


def run_integrity(site: Site, request: Request) -> Response:
    """Checks one session or the whole database; with ``scan_and_plan`` also what a repair would do."""
    asked = check(IntegrityArguments, "integrity/run", body_of(request))
    running = site.checks.start(session_of(_chosen(site, asked.session)) if asked.session else None)
    if asked.wait:
        running.done.wait()
    return _checked(site, running, asked.mode == "scan_and_plan")


def integrity(site: Site, request: Request) -> Response:
    """A check that was begun without waiting for it, by its number."""
    running = site.checks.get(number_in(request.path_params["number"], "check"))
    return _checked(site, running, request.query_params.get("mode") == "scan_and_plan")


def _checked(site: Site, running: Check, with_plan: bool) -> Response:
    answer: dict[str, Any] = {"check": running.number, "began": running.began}
    if not running.done.is_set():
        return JSONResponse(answer | {"state": "running"}, 202)
    report = running.report
    if report is None:
        raise StoreError(running.error)
    answer |= {
        "state": "done",
        "ok": report.ok,
        "complete": report.complete,
        "checked": dict(report.checked),
        "findings": [asdict(one) for one in report.findings],
    }
    if with_plan:
        plan = site.engine.plan_repairs(report)
        answer["plan"] = [asdict(step) for step in plan.steps]
        answer["refused"] = [one.code for one in plan.refused]
    return JSONResponse(answer)


def body_of(request: Request) -> Mapping[str, Any]:
    """The JSON object that a request carries; raises `InputError` for anything else."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/json":
        raise InputError("the body must be JSON: Content-Type: application/json")
    try:
        value = parse_json(request.state.body.decode())
    except ValueError as error:
        raise InputError(f"the body is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise InputError("the body must be a JSON object")
    return value


def _chosen(site: Site, selector: str) -> Conversation:
    return site.engine.library.conversation(selector)
