"""Pages from templates: what each may use, and how numbers and times look in them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from jinja2 import Environment, PackageLoader
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from lcm_plugin.interchange.export.views import indented_json
from lcm_plugin.summarize.base import writer_of
from lcm_plugin.text import duration, first_line, harmless, plural, size
from lcm_plugin.version import VERSION
from lcm_plugin.web.markdown import code_style, coloured, rendered, rendered_inline
from lcm_plugin.web.site import Site


class Pages:
    """The templates of one site."""

    def __init__(self, site: Site) -> None:
        self._count_tokens = site.engine.count_tokens
        self._zone = ZoneInfo(site.engine.config.timezone)
        self._templates = Environment(
            loader=PackageLoader("lcm_plugin.web"),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=_shown,
        )
        self._templates.filters |= {
            "moment": self._moment,
            "day": self._day,
            "clock": self._clock,
            "number": _number,
            "size": size,
            "duration": duration,
            "plural": plural,
            "markdown": rendered,
            "inline_markdown": rendered_inline,
            "code": coloured,
            "pretty": indented_json,
            "first_line": first_line,
            "query": _query,
            "dump": _dump,
        }
        self._templates.globals |= {
            "version": VERSION,
            "write": site.write,
            "database": site.engine.store.location,
            "zone": site.engine.config.timezone,
            "writer_of": writer_of,
        }

    def warm(self) -> None:
        """Loads what the first requests would wait for: the encoding of tokens, templates, Markdown and its colours."""
        self._count_tokens("warm")
        for name in self._templates.list_templates(["html"]):
            self._templates.get_template(name)
        rendered("`warm`")
        code_style()

    def show(self, request: Request, name: str, values: Mapping[str, Any], status: int = 200) -> Response:
        """A page, or the fragment of one, as a response."""
        text = self._templates.get_template(name).render(path=request.url.path, **values)
        return HTMLResponse(text.encode("utf-8", "replace"), status)

    def _at(self, milliseconds: int) -> datetime:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).astimezone(self._zone)

    def _moment(self, milliseconds: int) -> str:
        return f"{self._at(milliseconds):%Y-%m-%d %H:%M}"

    def _day(self, milliseconds: int) -> str:
        return f"{self._at(milliseconds):%A, %d %B %Y}"

    def _clock(self, milliseconds: int) -> str:
        return f"{self._at(milliseconds):%H:%M:%S}"


def shown(request: Request, name: str, values: Mapping[str, Any]) -> Response:
    """A page of the application that the request came to."""
    pages: Pages = request.app.state.pages
    return pages.show(request, name, values)


def _shown(value: Any) -> Any:
    """Texts of others without characters that would reorder or hide what stands round them."""
    return harmless(value) if type(value) is str else value


def _number(value: float) -> str:
    return f"{value:,}"


def _query(values: Mapping[str, Any], **changes: Any) -> str:
    """A query string with some values changed; empty ones are left out."""
    kept = {name: value for name, value in {**values, **changes}.items() if value not in ("", None, False)}
    return urlencode({name: "true" if value is True else value for name, value in kept.items()})


def _dump(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
