"""What a search asks for, as SQL that an index answers.

Filters and conditions are written so that the planner may use an index and its order: one conversation is an
equation, several are a list; messages are joined only where the filter asks for more than their parts hold; and a
substring is looked for with the very condition of the partial trigram index (`schema.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import prod
from typing import Any

from lcm_plugin.store.search import (
    AllOf,
    AnyOf,
    Clause,
    Condition,
    Filter,
    RowKind,
    Substring,
    WordQuery,
)
from lcm_plugin.store.tables.search import SEARCH_ID

MOST_CHOICES = 64
MOST_JOINED = 3
# More words than these, all of them in one message, are looked for in one part of it, and in all its parts together among
# the newest ids.
MOST_ACROSS, NEWEST_ACROSS = 4, 2_000
_SEARCHABLE = "s.type NOT IN ('reasoning', 'compaction') AND s.text NOT LIKE 'data:%;base64,%'"
_SAME_MESSAGE = "m.conversation_id = {0}.conversation_id AND m.message_id = {0}.message_id"


class WordSearch:
    """A word query as SQL: ``found`` is everything from FROM to GROUP BY ``row_id``; in ``weighed`` all that is ranked.

    ``phrases``: how the index writes each text of the query.
    """

    def __init__(self, kind: RowKind, query: WordQuery, rows: Filter, phrases: Mapping[str, str]) -> None:
        self._phrases = phrases
        self.values: dict[str, Any] = {}
        pieces = [self._clause(number, clause) for number, clause in enumerate(query.clauses)]
        self.is_empty = not pieces
        self.any_of = f"({' || '.join(pieces)})"
        if kind == "summary":
            self.row_id, self.vector, source = SEARCH_ID[kind], "m.words", "summaries m"
            where, values = conditions(kind, rows)
        elif all(one is None for one in (rows.roles, rows.senders, rows.since, rows.before, rows.spans)):
            self.row_id, self.vector, source = "w.message_id", "w.words", "message_parts w"
            where, values = conditions(kind, rows, table="w")
        else:
            self.row_id, self.vector = "w.message_id", "w.words"
            source = f"message_parts w JOIN messages m ON {_SAME_MESSAGE.format('w')}"
            where, values = conditions(kind, rows)
        self.values |= values
        held = [self._held(piece, n < MOST_JOINED) for n, piece in enumerate(pieces)] if query.all else []
        first = f"{self.vector} @@ {pieces[0] if query.all and pieces else self.any_of}"
        grouped = f"GROUP BY {self.row_id}"
        self.weighed = f"FROM {source} WHERE {self.vector} @@ {self.any_of} {where}{''.join(held)} {grouped}"
        self.found = f"FROM {source} WHERE {first} {where}{''.join(held[1:])} {grouped}"
        self.found_in_newest = self.found
        if len(held) > MOST_ACROSS and self.vector == "w.words":
            # When each of them is frequent, no order of looking for one after the other is fast. The newest are read one by
            # one: to look for the first word by the index costs as much as all rows that hold it.
            newest = (
                f"SELECT w.message_id FROM (SELECT w.message_id, w.conversation_id, w.words FROM {source} WHERE true "
                f"{where} AND w.message_id > (SELECT max(n.message_id) FROM messages n) - {NEWEST_ACROSS} OFFSET 0) w "
                f"WHERE {first}{''.join(held[1:])}"
            )
            in_one_part = (
                f"SELECT w.message_id FROM {source} WHERE w.words @@ ({' && '.join(pieces)}) {where}"
            )
            self.found = f"FROM ({in_one_part} UNION {newest}) w {grouped}"
            self.found_in_newest = f"FROM ({newest}) w {grouped}"
        # The planner's guess at how many parts or summaries hold the words, wherever they are.
        table = source.split(" JOIN ")[0]
        self.guessed = f"EXPLAIN (FORMAT JSON) SELECT FROM {table} WHERE {first}"
        self.may_be_rare = not query.all or len(pieces) < 2
        # Looked for by the words themselves, whatever the order or the number that is wanted.
        by_words = f"SELECT {self.row_id} FROM {source} WHERE {first} {where}"
        # For one of them, no more is read than that; the planner would take the index for dearer than reading on.
        self.any_by_words = f"FROM (WITH held AS MATERIALIZED ({by_words}) SELECT FROM held) {table[-1]}"
        self.found_by_words = f"FROM ({by_words} OFFSET 0) {table[-1]} {grouped}"

    def _held(self, piece: str, may_lead: bool) -> str:
        """That a row has one piece; of a message another part may hold it.

        The planner weighs every order of those that ``may_lead``, which takes it long for many.
        """
        if self.vector == "m.words":
            return f" AND m.words @@ {piece}"
        return (
            " AND EXISTS (SELECT FROM message_parts e WHERE e.conversation_id = w.conversation_id "
            f"AND e.message_id = w.message_id AND e.words @@ {piece}{'' if may_lead else ' OFFSET 0'})"
        )

    def _clause(self, number: int, clause: Clause) -> str:
        texts = (clause.text, *clause.forms)
        names = [f"word_{number}_{place}" for place in range(len(texts))]
        self.values |= {name: self._phrases[text] for name, text in zip(names, texts, strict=True)}
        return f"({' || '.join(f':{name}::tsquery' for name in names)})"


def conditions(kind: RowKind, rows: Filter, *, table: str = "m") -> tuple[str, dict[str, Any]]:
    """A filter as conditions on ``table`` (rows, or for ids and tools alone the parts of messages)."""
    row_id = SEARCH_ID[kind].replace("m.", f"{table}.")
    where = ""
    values: dict[str, Any] = {}
    first, last = ("m.created_at", "m.created_at") if kind == "message" else ("m.earliest_at", "m.latest_at")
    if rows.conversation_ids is not None and len(rows.conversation_ids) == 1:
        where += f" AND {table}.conversation_id = :conversation"
        values["conversation"] = rows.conversation_ids[0]
    elif rows.conversation_ids is not None:
        where += f" AND {table}.conversation_id = ANY(:conversations)"
        values["conversations"] = list(rows.conversation_ids)
    if rows.since is not None:
        where += f" AND {last} >= :since"
        values["since"] = rows.since
    if rows.before is not None:
        where += f" AND {first} < :before"
        values["before"] = rows.before
    if rows.spans is not None:
        within = [f"({last} >= :start_{n} AND {first} < :end_{n})" for n in range(len(rows.spans))]
        where += f" AND ({' OR '.join(within) or 'false'})"
        for n, (start, end) in enumerate(rows.spans):
            values |= {f"start_{n}": start, f"end_{n}": end}
    if rows.up_to_id is not None:
        where += f" AND {row_id} <= :up_to"
        values["up_to"] = rows.up_to_id
    if kind == "message" and rows.roles is not None:
        where += " AND m.role = ANY(:roles)"
        values["roles"] = list(rows.roles)
    if kind == "message" and rows.senders is not None:
        where += " AND m.sender = ANY(:senders)"
        values["senders"] = list(rows.senders)
    if kind == "message" and rows.tool_name is not None:
        where += (
            f" AND EXISTS (SELECT FROM message_parts t WHERE t.conversation_id = {table}.conversation_id "
            f"AND t.message_id = {table}.message_id AND t.tool_name = :tool)"
        )
        values["tool"] = rows.tool_name
    return where, values


def newest_first(kind: RowKind, rows: Filter) -> str:
    """What to order by so that an index has the order: one conversation has its own, several that of the table."""
    single = rows.conversation_ids is not None and len(rows.conversation_ids) == 1
    return "m.seq DESC" if kind == "message" and single else f"{SEARCH_ID[kind]} DESC"


def holds(kind: RowKind, condition: Condition, values: dict[str, Any]) -> str:
    """A condition over substrings as SQL; adds to the ``values``.

    It is turned into choices that must all be met, each by one part of the message: the index looks for all texts
    of a choice at once.
    """
    met = ""
    for choice in _choices(condition):
        names = [f"part_{len(values) + number}" for number in range(len(choice))]
        values |= {name: f"%{_escape(text)}%" for name, text in zip(names, choice, strict=True)}
        if kind == "summary":
            met += f" AND ({' OR '.join(f'm.content ILIKE :{name}' for name in names)})"
        else:
            texts = " OR ".join(f"s.text ILIKE :{name}" for name in names)
            met += (
                f" AND EXISTS (SELECT FROM message_parts s WHERE {_SAME_MESSAGE.format('s')} "
                f"AND {_SEARCHABLE} AND ({texts}))"
            )
    return met


def _choices(condition: Condition) -> list[tuple[str, ...]]:
    """Its conjunctive normal form. One that would grow too long is weakened: it rules out fewer rows."""
    if isinstance(condition, Substring):
        return [(condition.text,)]
    parts = [_choices(term) for term in condition.terms]
    if isinstance(condition, AllOf):
        return list(dict.fromkeys(choice for part in parts for choice in part))
    assert isinstance(condition, AnyOf)
    while prod(map(len, parts)) > MOST_CHOICES:
        longest = max(parts, key=len)
        del longest[len(longest) // 2 :]
    joined = (tuple(dict.fromkeys(text for choice in one for text in choice)) for one in product(*parts))
    return list(dict.fromkeys(joined))


def _escape(text: str) -> str:
    cleaned = text.replace("\x00", "").replace("\\", "\\\\")
    return cleaned.replace("%", "\\%").replace("_", "\\_")
