"""Sessions: which conversations there are, by what people know them, how large they are and how they fare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from lcm_plugin.sessions.names import NamedConversation, named
from lcm_plugin.store.protocol import Reader, iterate_conversations
from lcm_plugin.store.records import Conversation, Debt

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine

PAGE = 50
_MOST_DEBTS = 10_000
_ANY_TIME = 1 << 62
_MOST_FACETS = 12
HealthWord = Literal["fine", "owed", "compacting", "failing"]


class SessionQuery(BaseModel):
    """Which sessions are asked for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str = Field(default="", max_length=500)
    project: str = Field(default="", max_length=1_000)
    source: str = Field(default="", max_length=1_000)
    state: Literal["", "active", "archived"] = ""
    health: Literal["", "fine", "owed", "compacting", "failing"] = ""
    sort: Literal["used", "title", "messages", "context", "created"] = "used"
    page: int = Field(default=1, ge=1, le=1_000_000)


@dataclass(frozen=True, slots=True)
class _Health:
    word: HealthWord
    why: str = ""


def sessions(engine: Engine, query: SessionQuery) -> dict[str, Any]:
    """A page of sessions, how many there are in all, and how many each choice of a facet would leave."""
    with engine.store.read() as reader:
        rows = list(iterate_conversations(reader))
        health = _healths(engine, reader)
        names = _Names(reader, rows)
        found = [row for row in rows if _fits(row, query, health, names)]
        found.sort(key=_order(query, names), reverse=query.sort != "title")
        first = (query.page - 1) * PAGE
        shown = names.of(found[first : first + PAGE])
    return {
        "sessions": [session_data(one, health(one.row)) for one in shown],
        "total": len(found),
        "page": query.page,
        "pages": max(1, -(-len(found) // PAGE)),
        "facets": _facets(rows, health),
    }


def session_data(one: NamedConversation, health: _Health | None = None) -> dict[str, Any]:
    """A conversation for pages and programs; times are in milliseconds."""
    row = one.row
    values: dict[str, Any] = {
        "number": row.conversation_id,
        "key": row.session_key,
        "title": one.title or row.session_key or f"conversation {row.conversation_id}",
        "project": row.project,
        "source": row.source,
        "active": row.active,
        "ended": row.archive_cause,
        "messages": one.messages,
        "context_tokens": row.context_tokens,
        "summaries_in_context": row.summary_items,
        "created": row.created_at,
        "used": row.updated_at,
    }
    return values | ({"health": health.word, "why": health.why} if health else {})


def one_session(engine: Engine, reader: Reader, row: Conversation) -> dict[str, Any]:
    """The same for one conversation."""
    return session_data(named(reader, [row])[0], _healths(engine, reader)(row))


class _Names:
    """Names of conversations, read when they are needed."""

    def __init__(self, reader: Reader, rows: Sequence[Conversation]) -> None:
        self._reader = reader
        self._rows = rows
        self._all: dict[int, NamedConversation] | None = None

    def of(self, rows: Sequence[Conversation]) -> list[NamedConversation]:
        """Some conversations with their names."""
        if self._all is not None:
            return [self._all[row.conversation_id] for row in rows]
        return named(self._reader, rows) if rows else []

    def __getitem__(self, row: Conversation) -> NamedConversation:
        if self._all is None:
            self._all = {one.row.conversation_id: one for one in named(self._reader, self._rows)}
        return self._all[row.conversation_id]


def _healths(engine: Engine, reader: Reader) -> Callable[[Conversation], _Health]:
    """How each conversation fares: its hooks first, then what is due."""
    failing = {one.lane: str(one) for one in engine.hook_health.failures() if one.in_a_row}
    debts: Mapping[int, Debt] = {
        debt.conversation_id: debt
        for debt in (*reader.due_debts(_ANY_TIME, limit=_MOST_DEBTS), *reader.held_debts(limit=_MOST_DEBTS))
    }

    def of(row: Conversation) -> _Health:
        name = row.session_key or row.session_id or ""
        if row.active and (why := failing.get(name)):
            return _Health("failing", why)
        debt = debts.get(row.conversation_id)
        if debt is None or not row.active:
            return _Health("fine")
        if debt.state == "failed":
            return _Health("failing", f"compaction failed: {debt.last_error}")
        if debt.owner:
            return _Health("compacting", debt.reason.replace("_", " "))
        return _Health("owed", f"compaction is owed: {debt.reason.replace('_', ' ')}")

    return of


def _fits(
    row: Conversation, query: SessionQuery, health: Callable[[Conversation], _Health], names: _Names
) -> bool:
    if query.state and row.active != (query.state == "active"):
        return False
    if (query.project and row.project != query.project) or (query.source and row.source != query.source):
        return False
    if query.health and health(row).word != query.health:
        return False
    words = query.text.casefold().split()
    if not words:
        return True
    told = f"{row.session_key}\n{row.title}\n{row.project}\n{row.source}".casefold()
    if all(word in told for word in words):
        return True
    told += f"\n{names[row].begins.casefold()}"
    return all(word in told for word in words)


def _order(query: SessionQuery, names: _Names) -> Callable[[Conversation], Any]:
    match query.sort:
        case "title":
            return lambda row: (names[row].title or row.session_key).casefold()
        case "messages":
            return lambda row: (row.message_count, row.conversation_id)
        case "context":
            return lambda row: (row.context_tokens, row.conversation_id)
        case "created":
            return lambda row: (row.created_at, row.conversation_id)
        case _:
            return lambda row: (row.updated_at, row.conversation_id)


def _facets(
    rows: Sequence[Conversation], health: Callable[[Conversation], _Health]
) -> dict[str, list[dict[str, Any]]]:
    counted: dict[str, Counter[str]] = {
        "project": Counter(row.project for row in rows if row.project),
        "source": Counter(row.source for row in rows if row.source),
        "state": Counter("active" if row.active else "archived" for row in rows),
        "health": Counter(health(row).word for row in rows),
    }
    return {
        name: [{"value": value, "count": count} for value, count in counts.most_common(_MOST_FACETS)]
        for name, counts in counted.items()
    }
