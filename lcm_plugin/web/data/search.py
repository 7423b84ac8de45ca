"""Search of all sessions: the hits of `lcm_grep` in its order, and facets that narrow them down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from lcm_plugin.errors import InputError, NotFound
from lcm_plugin.recall.highlight import pieces
from lcm_plugin.recall.textsearch import PROMPT
from lcm_plugin.sessions.names import named
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.search import SearchRow
from lcm_plugin.types import Session

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine

HITS = 100
"""Hits of one page; facets count these."""
_ASKER = Session("lcm:web")
_MOST_VALUES = 10


class SearchQuery(BaseModel):
    """What is searched for, and what narrows it down."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    q: str = Field(default="", max_length=4_000)
    regex: bool = False
    scope: Literal["both", "messages", "summaries", "files"] = "both"
    sort: Literal["relevance", "recency", "hybrid"] = "relevance"
    session: int | None = Field(default=None, ge=1)
    role: str = Field(default="", max_length=40)
    tool: str = Field(default="", max_length=200)
    month: str = Field(default="", pattern=r"^(\d{4}-\d{2})?$")
    cursor: str | None = Field(default=None, max_length=2_000)


def search(engine: Engine, query: SearchQuery) -> dict[str, Any]:
    """Hits in pieces, the facets of this page, the totals, and the cursor of the next page."""
    if not query.q.strip():
        return nothing()
    asker, arguments = _asker(engine, query), _arguments(query)
    answer = engine.recall.call(asker, "lcm_grep", arguments, effort=PROMPT)
    raise_for(answer)
    with engine.store.read() as reader:
        rows = _rows(reader, answer["hits"])
        texts = _texts(reader, answer["hits"], rows)
        titles = _titles(reader, answer["hits"])
    hits = [_hit(hit, rows.get(hit["id"]), texts, titles) for hit in answer["hits"]]
    return {
        "hits": hits,
        "facets": _facets(hits, titles),
        "total": answer["total"],
        "notices": answer.get("notices", []),
        "next": answer.get("next_cursor"),
    }


def nothing() -> dict[str, Any]:
    """The answer to no question."""
    return {"hits": [], "facets": {}, "total": 0, "notices": [], "next": None}


def raise_for(answer: Mapping[str, Any]) -> None:
    """Raises what a tool's answer says went wrong."""
    if "error" in answer:
        kind = NotFound if answer.get("error_code") == "NOT_FOUND" else InputError
        raise kind(str(answer["error"]))


def _arguments(query: SearchQuery) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "pattern": query.q,
        "mode": "regex" if query.regex else "full_text",
        "scope": query.scope,
        "sort": query.sort,
        "limit": HITS,
        "context": 0,
        "cursor": query.cursor,
        "roles": [query.role] if query.role else None,
        "tool_name": query.tool or None,
    }
    if query.month:
        first, last = _month(query.month)
        arguments |= {"since": first, "before": last}
    if query.session is not None:
        return arguments | {"conversation_id": query.session}
    return arguments | {"all_conversations": True}


def _asker(engine: Engine, query: SearchQuery) -> Session:
    """Who searches: one conversation is searched in its own session's name."""
    if query.session is None:
        return _ASKER
    with engine.store.read() as reader:
        row = reader.conversation(query.session)
    return Session(row.session_key, row.session_id) if row and row.session_key else _ASKER


def _month(text: str) -> tuple[str, str]:
    """The days on which a month begins and ends."""
    year, month = map(int, text.split("-"))
    if not 1 <= month <= 12 or not 1 <= year <= 9998:
        raise InputError(f"month = {text!r}: there is no such month")
    following = (year + 1, 1) if month == 12 else (year, month + 1)
    return f"{year:04d}-{month:02d}-01", f"{following[0]:04d}-{following[1]:02d}-01"


def _rows(reader: Reader, hits: Sequence[Mapping[str, Any]]) -> dict[str, SearchRow]:
    """The messages behind hits, for what a hit does not say."""
    numbers = [int(hit["id"][4:]) for hit in hits if hit["kind"] == "message"]
    return {row.ref: row for row in reader.search_rows("message", numbers).values()}


def _texts(
    reader: Reader, hits: Sequence[Mapping[str, Any]], rows: Mapping[str, SearchRow]
) -> dict[str, str]:
    """The whole texts of hits."""
    summaries = reader.summaries([hit["id"] for hit in hits if hit["kind"] == "summary"])
    return {ref: row.text for ref, row in rows.items()} | {ref: one.content for ref, one in summaries.items()}


def _titles(reader: Reader, hits: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    numbers = sorted({int(hit["conversation_id"]) for hit in hits if hit.get("conversation_id")})
    found = [row for number in numbers if (row := reader.conversation(number)) is not None]
    return {
        one.row.conversation_id: one.title or one.row.session_key or f"conversation {one.row.conversation_id}"
        for one in named(reader, found)
    }


def _hit(
    hit: Mapping[str, Any], row: SearchRow | None, texts: Mapping[str, str], titles: Mapping[int, str]
) -> dict[str, Any]:
    number = hit.get("conversation_id")
    return {
        "id": hit["id"],
        "kind": hit["kind"],
        "conversation": number,
        "title": titles.get(number, "") if number else "",
        "key": hit.get("session_key", ""),
        "role": hit.get("role", ""),
        "sender": hit.get("sender", ""),
        "tool": (row.tool_name or "") if row else "",
        "time": hit["time"],
        "line": hit.get("line"),
        "name": hit.get("name", ""),
        "taken_back": bool(hit.get("taken_back")),
        "pieces": pieces(hit["snippet"], texts.get(hit["id"])),
    }


def _facets(hits: Sequence[Mapping[str, Any]], titles: Mapping[int, str]) -> dict[str, list[dict[str, Any]]]:
    """The values of each facet among the hits, the most frequent first."""
    counted = {
        "session": Counter(hit["conversation"] for hit in hits if hit["conversation"]),
        "role": Counter(hit["role"] for hit in hits if hit["kind"] == "message" and hit["role"]),
        "tool": Counter(hit["tool"] for hit in hits if hit["tool"]),
        "month": Counter(str(hit["time"])[:7] for hit in hits),
    }
    return {
        name: [
            {
                "value": value,
                "label": titles.get(value, str(value)) if name == "session" else str(value),
                "count": n,
            }
            for value, n in counts.most_common(_MOST_VALUES)
        ]
        for name, counts in counted.items()
    }
