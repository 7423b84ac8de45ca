"""The context as the next model call would get it: its layers, its items, and why something is not in it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lcm_plugin.errors import NotFound, StoreError
from lcm_plugin.interchange.export.views import first_line
from lcm_plugin.messages.blocks import is_assistant
from lcm_plugin.recall.scope import family
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import Conversation, Item, MessageHead
from lcm_plugin.types import Context, InContext, Session
from lcm_plugin.web.data.talk import place_of

if TYPE_CHECKING:
    from lcm_plugin.engine import Engine

LAYERS = ("instructions", "pins", "summaries", "messages", "recalled", "notes")
"""The layers of a context in their order; ``notes`` are this package's own lines, such as the one on what is left out."""
_LINE = 110


class NextCall:
    """What the next call of a session would be given, under the budget of its last one."""

    def __init__(self, engine: Engine, conversation: Conversation) -> None:
        self.conversation = conversation
        with engine.store.read() as reader:
            limits = engine.compaction.known_limits(reader, conversation)
        call = limits.call
        self.budget = engine.config.budget(call.budget)
        self.overhead = call.overhead
        self.room = limits.room
        self.soft, self.hard = limits.soft, limits.hard
        session = Session(conversation.session_key, conversation.session_id)
        self.context = _assembled(engine, session, call.budget, call.overhead, call.model)
        self.items = {one.ref: one for one in self.context.shown}

    def data(self, reader: Reader) -> dict[str, Any]:
        """The layers with their tokens, every item in order, and how much of it a provider could keep cached."""
        layers = dict.fromkeys(LAYERS, 0)
        for one in self.context.shown:
            layers[layer_of(one)] += one.tokens
        rest = self.context.tokens - sum(layers.values())
        layers["recalled" if self.context.recalled else "notes"] += max(0, rest)
        sizes = [len(json.dumps(message, ensure_ascii=False).encode()) for message in self.context.messages]
        hint = self.context.cache_hint
        return {
            "budget": self.budget,
            "overhead": self.overhead,
            "tokens": self.context.tokens,
            "free": max(0, self.room - self.context.tokens),
            "soft": self.soft,
            "hard": self.hard,
            "over_budget": self.context.over_budget,
            "notices": list(self.context.notices),
            "recalled": list(self.context.recalled),
            "layers": [{"name": name, "tokens": tokens} for name, tokens in layers.items() if tokens],
            "bytes": sum(sizes),
            "cacheable": 0 if hint is None else sum(sizes[: hint + 1]),
            "items": _lines(reader, self.context.shown),
        }

    def why(self, reader: Reader, ref: str) -> dict[str, Any]:
        """Whether something stands in the context, and if not, what stands for it or why it is gone."""
        place = place_of(reader, ref)
        if place is None:
            raise NotFound(f"there is no {ref[:40]}")
        answer: dict[str, Any] = {"id": ref, "in_view": False, "way": []}
        own = family(reader, Session(self.conversation.session_key, self.conversation.session_id))
        if place[0] not in {row.conversation_id for row in own}:
            return answer | {"why": "it belongs to another session, or to this one before its last reset"}
        if (shown := self.items.get(ref)) is not None:
            cut = ", cleared" if shown.cleared else ", shortened" if shown.cuts else ""
            return answer | {
                "in_view": True,
                "why": f"it stands in the context{cut}: {shown.tokens:,} tokens",
            }
        if ref in self.context.recalled:
            return answer | {
                "in_view": True,
                "why": "it is quoted before the newest request, since it fits it",
            }
        return answer | self._missing(reader, ref)

    def _missing(self, reader: Reader, ref: str) -> dict[str, Any]:
        head = _head(reader, ref)
        if head is not None and head.withdrawn_at is not None:
            return {"why": "the host took it back"}
        if head is not None and head.hidden:
            return {"why": "it is a record beside the talk, or was never sent: no model is shown it"}
        way = _way_up(reader, ref)
        standing = next((one for one in way if one in self.items), None)
        if standing is not None:
            return {
                "why": f"it was summarised; {standing} stands for it",
                "way": way[: way.index(standing) + 1],
            }
        if way:
            return {"why": "it was summarised, and that summary is not in the context either", "way": way}
        if head is not None and head.conversation_id != self.conversation.conversation_id:
            return {"why": "its run of the session has ended; only what was carried over is in the context"}
        if head is not None and _item_of(reader, head) is None:
            return {"why": "/new took it out of the context"}
        if head is not None and is_assistant(head.role) and head.seq == self.conversation.next_seq - 1:
            return {"why": "it is the newest answer; the next message brings it along"}
        return {"why": "it stands in the active context, and there is no room for it in this call"}


def layer_of(one: InContext) -> str:
    """The layer that an item of a context belongs to."""
    if one.kind == "standing":
        return "pins"
    return {"instruction": "instructions", "summary": "summaries"}.get(one.kind, "messages")


def _assembled(
    engine: Engine, session: Session, budget: int | None, overhead: int, model: str | None
) -> Context:
    try:
        return engine.assemble(session, budget, overhead, model=model)
    except StoreError:
        # What is not indexed yet cannot be indexed by a reader; then nothing is quoted.
        return engine.assemble(session, budget, overhead, model=model, recall=False)


def _lines(reader: Reader, shown: Sequence[InContext]) -> list[dict[str, Any]]:
    numbers = [int(one.ref[4:]) for one in shown if one.ref.startswith("msg_")]
    stored = reader.messages_by_id(numbers)
    texts: Mapping[str, str] = {
        row.head.ref: next((part.text for part in row.parts if part.text.strip()), "")
        for row in stored.values()
    }
    roles = {row.head.ref: row.head.sender or row.head.role for row in stored.values()}
    summaries = reader.summaries([one.ref for one in shown if one.kind == "summary"])
    texts = {**texts, **{key: one.content for key, one in summaries.items()}}
    return [
        {
            "id": one.ref,
            "layer": layer_of(one),
            "what": f"depth {summaries[one.ref].depth}"
            if one.ref in summaries
            else roles.get(one.ref, one.kind),
            "tokens": one.tokens,
            "shortened": bool(one.cuts),
            "cleared": one.cleared,
            "text": first_line(texts.get(one.ref, ""), _LINE),
        }
        for one in shown
    ]


def _head(reader: Reader, ref: str) -> MessageHead | None:
    if not ref.startswith("msg_"):
        return None
    number = int(ref[4:])
    return reader.messages_by_id([number])[number].head


def _way_up(reader: Reader, ref: str) -> list[str]:
    """The summaries over something, from the leaf upwards."""
    way: list[str] = []
    if ref.startswith("msg_"):
        leaf = reader.covering_leaf([int(ref[4:])]).get(int(ref[4:]))
        above = [leaf] if leaf else []
    else:
        above = reader.derived_from(ref)
    while above:
        way.append(above[0])
        above = reader.derived_from(above[0])
    return way


def _item_of(reader: Reader, head: MessageHead) -> Item | None:
    found = reader.oldest_items(head.conversation_id, after=head.seq - 1, limit=1)
    return found[0] if found and found[0].ordinal == head.seq else None
