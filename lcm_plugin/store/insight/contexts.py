"""What model calls were given: one row a turn, of its newest call. Ids, amounts and reasons; never any text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lcm_plugin.store.transaction import Transaction

# Types that both databases know.
SENT_CONTEXTS_SCHEMA = """
CREATE TABLE sent_contexts (
    conversation_id bigint NOT NULL REFERENCES conversations ON DELETE CASCADE,
    turn bigint NOT NULL,
    request_id bigint NOT NULL,
    calls bigint NOT NULL,
    sent_at bigint NOT NULL,
    tokens bigint NOT NULL,
    budget bigint NOT NULL,
    overhead bigint NOT NULL,
    room bigint NOT NULL,
    made_ms bigint NOT NULL,
    over_budget boolean NOT NULL,
    model text NOT NULL,
    policy text NOT NULL,
    items text NOT NULL,
    quotes text NOT NULL,
    no_quotes text NOT NULL,
    notices text NOT NULL,
    PRIMARY KEY (conversation_id, turn)
);
"""
LAYERS = ("instructions", "pins", "summaries", "messages", "recalled", "notes")
"""The layers of a context in their order; ``notes`` are this package's own lines, such as the one on what is left out."""
CLEARED = -1
_COLUMNS = (
    *("conversation_id", "turn", "request_id", "calls", "sent_at", "tokens", "budget", "overhead", "room"),
    *("made_ms", "over_budget", "model", "policy", "items", "quotes", "no_quotes", "notices"),
)
_LISTED = ", ".join(_COLUMNS)
# A turn that is known keeps its number; a new one gets the next.
_TURN = (
    "coalesce((SELECT s.turn FROM sent_contexts s WHERE s.conversation_id = :conversation_id "
    "AND s.request_id = :request_id), "
    "(SELECT max(s.turn) + 1 FROM sent_contexts s WHERE s.conversation_id = :conversation_id), 1)"
)
_GIVEN = ", ".join(_TURN if name == "turn" else f":{name}" for name in _COLUMNS)
_UPDATES = ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS[4:])
_KEEP = (
    f"INSERT INTO sent_contexts ({_LISTED}) VALUES ({_GIVEN}) ON CONFLICT (conversation_id, turn) DO UPDATE SET "
    f"calls = sent_contexts.calls + excluded.calls, {_UPDATES} RETURNING turn, calls"
)
# Old turns are forgotten by the eight, which saves most turns a statement.
_FORGET_EVERY = 8


class SentItem(NamedTuple):
    """What stood in a context: a summary, a pin, or a message and those that follow it by number up to ``last``.

    ``layer`` is its part of the context, ``tokens`` what all of it cost, ``cuts`` in how many places it was shortened.
    ``cleared`` are the numbers of those messages whose result was cleared.
    """

    layer: str
    ref: str
    tokens: int
    last: int = 0
    cuts: int = 0
    cleared: tuple[int, ...] = ()

    @property
    def refs(self) -> Sequence[str]:
        """The ids of all that it stands for, in order."""
        if not self.last:
            return (self.ref,)
        return [f"msg_{number}" for number in range(int(self.ref[4:]), self.last + 1)]

    @property
    def forms(self) -> Iterator[tuple[str, int]]:
        """The ids with their cuts, `CLEARED` for a result that was cleared."""
        gone = {f"msg_{number}" for number in self.cleared}
        return ((ref, CLEARED if ref in gone else self.cuts) for ref in self.refs)


@dataclass(frozen=True, slots=True)
class SentContext:
    """The context of a turn's newest call. Amounts are tokens.

    ``request_id`` is the message that the turn answers, 0 when there is none. ``room`` is what the context might have
    taken, ``made_ms`` how long it took to make. ``quotes`` are the ids of quoted messages, ``no_quotes`` says why
    nothing was quoted, ``notices`` are its sentences for a person.
    """

    conversation_id: int
    request_id: int
    sent_at: int
    tokens: int
    budget: int
    overhead: int
    room: int
    made_ms: int = 0
    over_budget: bool = False
    model: str = ""
    policy: str = ""
    items: tuple[SentItem, ...] = ()
    quotes: tuple[str, ...] = ()
    no_quotes: str = ""
    notices: tuple[str, ...] = ()
    turn: int = 0
    calls: int = field(default=1, compare=False)

    @property
    def refs(self) -> list[str]:
        """The ids of all that stood in it, in order, without what was only quoted."""
        return [ref for item in self.items for ref in item.refs]

    @property
    def layers(self) -> Mapping[str, int]:
        """The tokens of each layer that has any, in the order of `LAYERS`."""
        layers = dict.fromkeys(LAYERS, 0)
        for item in self.items:
            layers[item.layer] += item.tokens
        layers["recalled" if self.quotes else "notes"] += max(0, self.tokens - sum(layers.values()))
        return {name: tokens for name, tokens in layers.items() if tokens}


class SentContextTable(Transaction):
    """Keeps and reads what calls were given."""

    def sent_contexts(
        self, conversation_id: int, *, turn: int | None = None, limit: int
    ) -> list[SentContext]:
        chosen = "" if turn is None else "AND turn = :turn "
        rows = self.all(
            f"SELECT {_LISTED} FROM sent_contexts WHERE conversation_id = :here {chosen}ORDER BY turn DESC LIMIT :limit",
            here=conversation_id,
            turn=turn,
            limit=limit,
        )
        return [_context_of(row) for row in rows]

    def newest_making_ms(self, *, conversations: int) -> list[int]:
        newest = "(SELECT conversation_id FROM conversations ORDER BY updated_at DESC, conversation_id DESC LIMIT :most)"
        rows = self.all(
            f"SELECT made_ms FROM sent_contexts WHERE conversation_id IN {newest}", most=conversations
        )
        return [int(one) for (one,) in rows]

    def keep_sent_context(self, context: SentContext, keep: int) -> None:
        turn, calls = self.one(
            _KEEP,
            conversation_id=context.conversation_id,
            request_id=context.request_id,
            calls=context.calls,
            sent_at=context.sent_at,
            tokens=context.tokens,
            budget=context.budget,
            overhead=context.overhead,
            room=context.room,
            made_ms=context.made_ms,
            over_budget=context.over_budget,
            model=context.model,
            policy=context.policy,
            items=_items_text(context.items),
            quotes=_text(context.quotes),
            no_quotes=context.no_quotes,
            notices=_text(context.notices),
        )
        if calls == context.calls and turn % min(keep, _FORGET_EVERY) == 0:
            self.run(
                "DELETE FROM sent_contexts WHERE conversation_id = :here AND turn <= :last",
                here=context.conversation_id,
                last=turn - keep,
            )


def with_other_ids(items: str, quotes: str, new: Callable[[str], str]) -> tuple[str, str]:
    """The two columns under other ids: ``new`` gives that of an old one, empty for what is left out."""

    def numbers(old: Iterable[int]) -> tuple[int, ...]:
        return tuple(int(ref[4:]) for number in old if (ref := new(f"msg_{number}")))

    found = [
        one._replace(
            ref=new(one.ref),
            last=max(numbers([one.last]), default=0) if one.last else 0,
            cleared=numbers(one.cleared),
        )
        for one in _items_of(items)
    ]
    moved = [new(quoted) for quoted in json.loads(quotes)]
    return _items_text([one for one in found if one.ref]), _text(list(filter(None, moved)))


def _items_text(items: Iterable[SentItem]) -> str:
    """The items as JSON; what an item has none of is left out at its end."""
    return _text(
        [one if one.cleared else one[:5] if one.cuts else one[:4] if one.last else one[:3] for one in items]
    )


def _items_of(text: str) -> tuple[SentItem, ...]:
    rows: list[list[Any]] = json.loads(text)
    return tuple(SentItem(*row[:5], *map(tuple, row[5:])) for row in rows)


def _text(value: Sequence[Any]) -> str:
    return json.dumps(value, separators=(",", ":"))


def _context_of(row: Sequence[Any]) -> SentContext:
    values = dict(zip(_COLUMNS, row, strict=True))
    values["over_budget"] = bool(values["over_budget"])
    values["items"] = _items_of(values["items"])
    for name in ("quotes", "notices"):
        values[name] = tuple(json.loads(values[name]))
    return SentContext(**values)
