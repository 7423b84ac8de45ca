"""What model calls were given: the newest turns as they are on record, and what the next call would be given."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice, zip_longest
from typing import Any

from lcm_plugin.commands.facade import EngineFacade
from lcm_plugin.commands.in_view import Contents, difference, same_beginning, tokens_of
from lcm_plugin.errors import NotFound, StoreError
from lcm_plugin.sessions.context_log import items_of
from lcm_plugin.store.insight.contexts import CLEARED, SentContext, SentItem
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import Conversation, StoredMessage, Summary, message_ref
from lcm_plugin.text import first_line
from lcm_plugin.types import Context, Session

_LINE = 110
_MOST_TURNS = 10_000


class NextCall:
    """What the next call of a session would be given, under the budget of its last one."""

    def __init__(self, engine: EngineFacade, conversation: Conversation) -> None:
        with engine.store.read() as reader:
            self._limits = engine.compaction.known_limits(reader, conversation)
            call = engine.compaction.known_call(reader, conversation)
        session = Session(conversation.session_key, conversation.session_id)
        self._context = context = _ahead(engine, session, call.budget, call.overhead, call.model)
        self.sent = SentContext(
            conversation_id=conversation.conversation_id,
            request_id=0,
            sent_at=engine.clock(),
            tokens=context.tokens,
            budget=engine.config.budget(call.budget),
            overhead=call.overhead,
            room=engine.calibration.room(
                engine.budgets.total(call.budget, call.model),
                call.overhead,
                call.model,
                conversation.conversation_id,
            ),
            over_budget=context.over_budget,
            model=call.model or "",
            policy=engine.config.context_policy,
            items=items_of(context.shown),
            quotes=context.recalled,
            notices=context.notices,
        )

    def data(self, reader: Reader) -> dict[str, Any]:
        """As `call_data`, with the bytes that go out, and those a provider could keep cached."""
        sizes = [len(json.dumps(one, ensure_ascii=False).encode()) for one in self._context.messages]
        hint = self._context.cache_hint
        return call_data(reader, self.sent) | {
            "soft": self._limits.soft,
            "hard": self._limits.hard,
            "owed_at": self._limits.call.overhead + self._limits.soft,
            "bytes": sum(sizes),
            "cacheable": 0 if hint is None else sum(sizes[: hint + 1]),
        }


def next_call(engine: EngineFacade, conversation: Conversation, why: str = "") -> dict[str, Any]:
    """What the next call would be given; of an archived conversation there is none."""
    if not conversation.active:
        return {"archived": True, "why": None}
    call = NextCall(engine, conversation)
    with engine.store.read() as reader:
        found = _why(Contents(reader, conversation, call.sent), why)
        return call.data(reader) | {"archived": False, "why": found}


def past_call(
    engine: EngineFacade,
    reader: Reader,
    conversation: Conversation,
    turn: int,
    against: int | None = None,
    why: str = "",
) -> dict[str, Any]:
    """What a turn's newest call was given, and how that differs from an earlier turn, by default the one before."""
    sent = turn_of(reader, conversation, turn)
    data = call_data(reader, sent) | {"archived": not conversation.active, "difference": None}
    earlier = reader.sent_contexts(conversation.conversation_id, turn=turn - 1, limit=1)
    older = turn_of(reader, conversation, against) if against is not None else next(iter(earlier), None)
    if older is not None:
        data["difference"] = difference(reader, conversation, older, sent, engine.bytes_of)
    return data | {"why": _why(Contents(reader, conversation, sent, sent.sent_at), why)}


def _why(contents: Contents, ref: str) -> dict[str, Any] | None:
    if not ref:
        return None
    try:
        found = contents.why(ref.strip())
    except NotFound as error:
        return {"id": ref, "in_view": False, "way": [], "why": str(error)}
    return {"id": ref.strip(), "in_view": found.in_view, "way": list(found.way), "why": found.why}


def turn_of(reader: Reader, conversation: Conversation, turn: int) -> SentContext:
    """What the newest call of a turn was given; raises `NotFound` when that is not on record."""
    found = reader.sent_contexts(conversation.conversation_id, turn=turn, limit=1)
    if found:
        return found[0]
    newest = reader.sent_contexts(conversation.conversation_id, limit=_MOST_TURNS)
    if not newest:
        raise NotFound("no call of this conversation is on record yet")
    raise NotFound(f"turn {turn} is not on record; there are {newest[-1].turn} to {newest[0].turn}")


def turn_list(reader: Reader, conversation: Conversation, limit: int) -> list[dict[str, Any]]:
    """The newest turns on record, newest first; ``same`` are the tokens with which the one before began too."""
    found = reader.sent_contexts(conversation.conversation_id, limit=limit + 1)
    asked = reader.messages_by_id([one.request_id for one in found if one.request_id])
    return [
        _head(one)
        | {
            "text": first_line(_text(asked[one.request_id]), _LINE) if one.request_id in asked else "",
            "same": same_beginning(reader, before, one, None)["tokens"] if before else None,
        }
        for one, before in islice(zip_longest(found, found[1:]), limit)
    ]


def call_data(reader: Reader, sent: SentContext) -> dict[str, Any]:
    """What a call was given: its layers with their tokens, every item in order, and what was quoted."""
    return _head(sent) | {
        "recalled": list(sent.quotes),
        "no_quotes": sent.no_quotes,
        "notices": list(sent.notices),
        "items": _lines(reader, sent),
    }


def _head(sent: SentContext) -> dict[str, Any]:
    return {
        "turn": sent.turn or None,
        "calls": sent.calls,
        "at": sent.sent_at,
        "request": message_ref(sent.request_id) if sent.request_id else "",
        "model": sent.model,
        "policy": sent.policy,
        "budget": sent.budget,
        "overhead": sent.overhead,
        "tokens": sent.tokens,
        "free": max(0, sent.room - sent.tokens),
        "made_ms": sent.made_ms,
        "over_budget": sent.over_budget,
        "layers": [{"name": name, "tokens": tokens} for name, tokens in sent.layers.items()],
    }


def _ahead(
    engine: EngineFacade, session: Session, budget: int | None, overhead: int, model: str | None
) -> Context:
    try:
        return engine.look_ahead(session, budget, overhead, model, True)
    except StoreError:
        # What is not indexed yet cannot be indexed by a reader; then nothing is quoted.
        return engine.look_ahead(session, budget, overhead, model, False)


def _lines(reader: Reader, sent: SentContext) -> list[dict[str, Any]]:
    """The items one by one; of messages that are on record together each with the tokens that it was stored with."""
    refs = sent.refs
    stored = reader.messages_by_id([int(ref[4:]) for ref in refs if ref.startswith("msg_")])
    rows: Mapping[str, StoredMessage] = {row.head.ref: row for row in stored.values()}
    summaries = reader.summaries([ref for ref in refs if ref.startswith("sum_")])
    return [
        _line(item, ref, cuts, rows.get(ref), summaries.get(ref))
        for item in sent.items
        for ref, cuts in item.forms
    ]


def _line(
    item: SentItem, ref: str, cuts: int, row: StoredMessage | None, summary: Summary | None
) -> dict[str, Any]:
    what, text = "not stored any more", ""
    if summary is not None:
        what, text = f"depth {summary.depth}", summary.content
    elif row is not None:
        what, text = row.head.sender or row.head.role, _text(row)
    return {
        "id": ref,
        "layer": item.layer,
        "what": "pin" if item.layer == "pins" else what,
        "tokens": item.tokens if not item.last else tokens_of(row.head, cuts) if row else 0,
        "shortened": bool(cuts),
        "cleared": cuts == CLEARED,
        "messages": summary.message_count if summary else 1,
        "text": first_line(text, _LINE),
    }


def _text(row: StoredMessage) -> str:
    return next((part.text for part in row.parts if part.text.strip()), "")
