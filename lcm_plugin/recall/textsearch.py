"""Full-text search: gathering the rows that hold a query's units, and putting them in order.

The store proposes rows (by its word index, by substrings, and what its index does not hold yet); each
is checked here against its text, so that all stores agree on what a match is.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate

from lcm_plugin.recall.match import Matcher, Matches
from lcm_plugin.recall.query import WORD, ParsedQuery, Unit
from lcm_plugin.recall.rank import (
    EXPANDED,
    Candidate,
    Corpus,
    Ranked,
    by_recency_too,
    rank,
    spread,
    unit_weights,
)
from lcm_plugin.recall.scope import LeftOut
from lcm_plugin.recall.semantic.meaning import Meaning, Semantics
from lcm_plugin.recall.times import DAY_MS, NO_TIMES, AskedTimes
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.search import (
    Clause,
    Filter,
    IndexUnusable,
    Order,
    RowKind,
    SearchRow,
    Stretch,
    Substring,
    WordQuery,
)
from lcm_plugin.store.transaction import read_ahead

# Of so many times the rows that the index may weigh, a word is frequent: found in at least that share.
COUNTED, FREQUENT = 1.2, 0.2
MAX_POOL, UNINDEXED_POOL = 3_000, 500
# Rows that hold the one thing looked for differ by how often they do and how long they are, which the index weighs, too.
POOL_OF_ONE = 100
# How many rows are proposed by their meaning alone.
NEAREST = 50
COUNT_CAP = 1_000
SCAN_SECONDS = 5.0
# How long all attempts of one search may read what no index holds yet; each takes half of what is left.
UNINDEXED_SECONDS = 0.6
MIN_SUBSTRING = 3


@dataclass(frozen=True, slots=True)
class Effort:
    """What a search may cost.

    ``pool`` rows of each source are ranked against each other, the neighbours of the ``expanded`` best ones with them.
    ``proposed``: how many rows the index may weigh: those of the rarest words, or the newest ones with all words where
    even the rarest holds more. None for as many as there are. ``seconds`` bounds scans. With ``pages``, somebody
    reads on: the newest rows with any of the words follow those that were weighed, and what is found is counted.
    """

    pool: int = 300
    expanded: int = EXPANDED
    proposed: int | None = None
    seconds: float = SCAN_SECONDS
    pages: bool = True


class Patience:
    """The time for rows that no index holds yet, over all attempts of one search; each takes half of what is left."""

    def __init__(self) -> None:
        self._until = time.monotonic() + UNINDEXED_SECONDS

    def deadline(self) -> float:
        """Until when (monotonic seconds) the attempt that begins now may read."""
        now = time.monotonic()
        return now + max(0.0, self._until - now) / 2


THOROUGH = Effort()
# For pages that a person waits for: words that very many rows hold are looked for in the newest of them.
PROMPT = Effort(proposed=20_000)


@dataclass(slots=True)
class Found:
    """Ranked rows, best first. ``scanned``: no index answered. ``stopped_at``: where a scan ran out of time.

    ``unread``: before it stand rows that are neither indexed nor were read. ``weights``: what each unit weighs.
    """

    rows: list[Ranked]
    total: int
    exact_total: bool
    scanned: bool = False
    stopped_at: SearchRow | None = None
    weights: Sequence[float] = ()
    unread: SearchRow | None = None


@dataclass(slots=True)
class _Gathered:
    """The first rows of each source, which are ranked against each other, and those that follow them."""

    candidates: dict[int, Candidate] = field(default_factory=dict)
    late: dict[int, Candidate] = field(default_factory=dict)
    exhausted: bool = True
    scanned: bool = False
    stopped_at: SearchRow | None = None
    unread: SearchRow | None = None


class TextSearch:
    """One full-text search over one kind of row.

    ``times``: those that the query names, whose rows come first. ``left_out``: messages that are no hits.
    """

    def __init__(
        self,
        reader: Reader,
        kind: RowKind,
        query: ParsedQuery,
        rows: Filter,
        semantics: Semantics | None = None,
        times: AskedTimes = NO_TIMES,
        left_out: LeftOut = LeftOut(recall_answers=False),  # noqa: B008 - frozen
        effort: Effort = THOROUGH,
        patience: Patience | None = None,
    ) -> None:
        self._effort = effort
        self._patience = patience or Patience()
        self._reader = reader
        self._times = times
        self._left_out = left_out
        self._semantics = semantics if kind == "message" and query.is_prose else None
        self._kind: RowKind = kind
        self._query = query
        self._rows = rows
        self._matcher = Matcher(query)
        self._deadline = time.monotonic() + effort.seconds
        indexed = [unit for unit in query.units if is_indexed(unit)]
        self._asked = self._words = WordQuery(tuple(map(_clause, indexed)), query.all_of)
        self._counts: dict[WordQuery, int] = {}
        self._are_frequent = False
        if effort.proposed is not None:
            self._words = self._proposing(effort.proposed)
        self._substrings = [unit for unit in query.units if unit.kind == "exact" and not is_indexed(unit)]
        self._senders = [unit for unit in query.units if unit.kind == "sender"]

    def by_relevance(self, wanted: int, hybrid: bool = False) -> Found:
        """The best rows, at least ``wanted`` when there are as many."""
        if len(self._query.units) == 1 and not hybrid:
            self._effort = replace(self._effort, pool=min(self._effort.pool, POOL_OF_ONE))
        self._read_ahead(wanted)
        gathered = self._gather("relevance", wanted)
        meaning = self._meaning(gathered)
        best = list(gathered.candidates.values())
        ranked: list[Ranked] = []
        weights: list[float] = []
        if best:
            corpus = self._corpus(best)
            weights = unit_weights(self._query, corpus)
            closeness = meaning.of if meaning else None
            ranked = rank(
                self._query,
                best,
                corpus,
                self._neighbours,
                self._find,
                closeness,
                self._effort.expanded,
                wanted if self._effort.pages and not hybrid else None,
            )
        if self._effort.pages and self._query.is_question:
            ranked = spread(ranked, wanted)
        ranked = by_recency_too(ranked) if hybrid else ranked
        # Past the pool the store's own order holds, so that a later page never reorders an earlier one.
        shown = {one.row.row_id for one in ranked}
        late = (c for row_id, c in gathered.late.items() if row_id not in shown)
        ranked += [Ranked(c.row, c.matches, 0.0) for c in late]
        return self._found(ranked, gathered, weights)

    def by_recency(self, wanted: int) -> Found:
        """The newest rows, at least ``wanted`` when there are as many."""
        gathered = self._gather("recency", wanted)
        both = gathered.late | gathered.candidates
        newest = sorted(both.values(), key=lambda c: -c.row.row_id)
        return self._found([Ranked(c.row, c.matches, 0.0) for c in newest], gathered)

    def _read_ahead(self, wanted: int) -> None:
        """Says what the first look and the ranking ask for, so that a server is waited for once."""
        clauses = [_clause(unit) for unit in self._query.units if unit.kind in ("word", "cjk")]
        if len(self._query.units) < 2 or self._are_frequent or not self._words.clauses:
            return
        target = max(self._effort.pool, wanted + 1)
        reader, kind, rows = self._reader, self._kind, self._rows
        shares = partial(reader.document_shares, kind, clauses, rows)
        read_ahead(
            reader,
            partial(reader.find_words, kind, self._words, rows, order="relevance", limit=target),
            partial(reader.row_count, kind, rows),
            *([shares] if self._effort.proposed is None else []),
            self._known_senders,
        )

    def _gather(self, order: Order, wanted: int) -> _Gathered:
        target = max(self._effort.pool if order == "relevance" else 0, wanted + 1)
        gathered = _Gathered()
        try:
            gathered.unread = self._from_unindexed(gathered)
            self._from_index(gathered, order, target)
            self._from_named_times(gathered, order, target)
            for unit in self._senders:
                self._from_sender(gathered, unit, order, target)
            for unit in self._substrings:
                condition = Substring(unit.text) if len(unit.text) >= MIN_SUBSTRING else None
                self._scan(gathered, target, self._reader.scan(self._kind, self._rows, condition))
        except IndexUnusable:
            gathered.scanned = True
            self._scan(gathered, max(target, COUNT_CAP), self._reader.scan(self._kind, self._rows))
        return gathered

    def _from_named_times(self, gathered: _Gathered, order: Order, target: int) -> None:
        """Rows of the times that the query names, and of the day after each, when much is told."""
        least, most = self._rows.since, self._rows.before
        spans = ((start, end + DAY_MS) for start, end in self._times.spans)
        kept = tuple((a, b) for a, b in spans if (most is None or a < most) and (least is None or b > least))
        if kept:
            self._from_index(gathered, order, target, replace(self._rows, spans=kept))

    def _from_sender(self, gathered: _Gathered, unit: Unit, order: Order, target: int) -> None:
        """What a sender wrote: with the query's other words, then the newest."""
        rows = replace(self._rows, senders=unit.forms)
        self._from_index(gathered, order, target, rows)
        self._scan(gathered, target, self._reader.scan(self._kind, rows))

    def _from_index(self, gathered: _Gathered, order: Order, target: int, rows: Filter | None = None) -> None:
        """The best or newest rows of the index, as far as it may weigh them, then the newest others."""
        if order == "recency":
            self._from_words(gathered, self._asked, order, target, rows)
            return
        before = len(gathered.candidates) + len(gathered.late)
        # To weigh frequent words the index would count every row that holds one.
        self._from_words(gathered, self._words, "recency" if self._are_frequent else order, target, rows)
        missing = target - (len(gathered.candidates) + len(gathered.late) - before)
        if self._effort.pages and self._words != self._asked and missing > 0:
            self._from_words(gathered, self._asked, "recency", target, rows)

    def _from_words(
        self, gathered: _Gathered, words: WordQuery, order: Order, target: int, rows: Filter | None
    ) -> None:
        """Pages through the index until enough rows passed the check, since some may not."""
        if not words.clauses:
            return
        kept = offset = 0
        while kept < target and offset < max(MAX_POOL, target):
            page = self._reader.find_words(
                self._kind, words, rows or self._rows, order=order, limit=target, offset=offset
            )
            for row in self._in_order([scored.row_id for scored in page]):
                kept += self._keep(gathered, row, kept < self._effort.pool)
            offset += target
            if len(page) < target:
                return
        gathered.exhausted = False

    def _scan(self, gathered: _Gathered, target: int, rows: Iterable[SearchRow]) -> None:
        stopped, enough = self._from_rows(gathered, target, rows, self._effort.pool, self._deadline)
        gathered.stopped_at = gathered.stopped_at if enough else stopped or gathered.stopped_at

    def _from_unindexed(self, gathered: _Gathered) -> SearchRow | None:
        """Takes the newest rows that no index holds yet; returns the one before which others were not read."""
        rows = iter(self._reader.unindexed_rows(self._kind, self._rows))
        deadline = min(self._deadline, self._patience.deadline())
        stopped, enough = self._from_rows(gathered, MAX_POOL, rows, UNINDEXED_POOL, deadline)
        return stopped if stopped is None or not enough or next(rows, None) else None

    def _from_rows(
        self, gathered: _Gathered, target: int, rows: Iterable[SearchRow], pool: int, deadline: float
    ) -> tuple[SearchRow | None, bool]:
        """Takes rows newest first until enough passed the check or the time is over.

        Returns the row that it stopped at, and whether that was enough.
        """
        kept = 0
        for seen, row in enumerate(rows, 1):
            kept += self._keep(gathered, row, kept < pool)
            if kept >= target or (seen % 64 == 0 and time.monotonic() > deadline):
                gathered.exhausted = False
                return row, kept >= target
        return None, False

    def _shares(self, clauses: Sequence[Clause], total: int) -> list[float]:
        if self._effort.proposed is None:
            return self._reader.document_shares(self._kind, clauses, self._rows)
        counts = [self._count(WordQuery((clause,))) for clause in clauses]
        return [min(1.0, max(FREQUENT if n >= self._most_counted else 0.0, n / total)) for n in counts]

    def _proposing(self, most: int) -> WordQuery:
        """The rarest words, as many as hold ``most`` rows; all words together where even the rarest holds more."""
        if self._asked.all:
            self._are_frequent = self._count(self._asked) > most
            return self._asked
        self._count_each([WordQuery((clause,)) for clause in self._asked.clauses])
        counts = {clause: self._count(WordQuery((clause,))) for clause in self._asked.clauses}
        clauses = sorted(filter(counts.__getitem__, counts), key=counts.__getitem__)
        rows = list(accumulate(map(counts.__getitem__, clauses)))
        taken = [clause for clause, upto in zip(clauses, rows, strict=True) if upto <= most]
        self._are_frequent = not taken
        return WordQuery(tuple(taken)) if taken else WordQuery(tuple(clauses), all=True)

    @property
    def _most_counted(self) -> int:
        return int(COUNTED * (self._effort.proposed or 0))

    def _count(self, query: WordQuery) -> int:
        """How many rows hold some words; `_most_counted` where more do, wherever these are."""
        if query not in self._counts:
            self._count_each([query])
        return self._counts[query]

    def _count_each(self, queries: Sequence[WordQuery]) -> None:
        """Counts for `_count`, all at once."""
        self._counts |= dict.fromkeys(queries, 0)
        everywhere = Filter(None, up_to_id=self._rows.up_to_id)
        most, count = self._most_counted, self._reader.count_each
        with suppress(IndexUnusable):
            self._counts |= zip(queries, count(self._kind, queries, everywhere, most), strict=True)
            if self._rows.conversation_ids is not None:
                some = [query for query in queries if 0 < self._counts[query] < most]
                self._counts |= zip(some, count(self._kind, some, self._rows, most), strict=True)

    def _find(self, row: SearchRow) -> Matches:
        return self._matcher.find(row.text, row.sender)

    def _keep(self, gathered: _Gathered, row: SearchRow, is_ranked: bool) -> bool:
        """Keeps a row that passes the check."""
        matches = self._find(row)
        if not self._matcher.accepts(matches) or row in self._left_out:
            return False
        kept = gathered.candidates if is_ranked else gathered.late
        kept[row.row_id] = Candidate(row, matches)
        return True

    def _in_order(self, row_ids: Sequence[int]) -> Iterator[SearchRow]:
        rows = self._reader.search_rows(self._kind, row_ids)
        return (rows[row_id] for row_id in row_ids if row_id in rows)

    def _corpus(self, candidates: Sequence[Candidate]) -> Corpus:
        """How frequent each unit is in the conversations searched: asked of the index, or counted here."""
        units = self._query.units
        here = [sum(bool(c.matches.spans[i]) for c in candidates) for i in range(len(units))]
        total = max(self._reader.row_count(self._kind, self._rows), len(candidates), 1)
        shares = [count / total for count in here]
        if len(units) > 1:
            asked = [index for index, unit in enumerate(units) if unit.kind in ("word", "cjk")]
            with suppress(IndexUnusable):
                told = self._shares([_clause(units[index]) for index in asked], total)
                for index, share in zip(asked, told, strict=True):
                    shares[index] = max(share, shares[index])
        return Corpus(total, shares, self._known_senders(), self._times)

    def _known_senders(self) -> list[str]:
        if self._kind != "message" or not self._query.is_phrase_like:
            return []
        return self._reader.message_senders(self._rows.conversation_ids)

    def _meaning(self, gathered: _Gathered) -> Meaning | None:
        """How close rows come to what is asked; the closest become candidates."""
        if self._semantics is None:
            return None
        scope = self._rows.conversation_ids
        meaning = self._semantics.meaning(self._reader, self._question, scope, list(gathered.candidates))
        if meaning is not None:
            known = gathered.candidates.keys() | gathered.late.keys()
            near = [row_id for row_id in meaning.nearest(NEAREST) if row_id not in known]
            for row in filter(self._passes, self._in_order(near)):
                gathered.candidates[row.row_id] = Candidate(row, self._find(row))
        return meaning

    @property
    def _question(self) -> str:
        return " ".join(self._query.words)

    def _found(self, ranked: list[Ranked], gathered: _Gathered, weights: Sequence[float] = ()) -> Found:
        matching = sum(not one.nearby for one in ranked)
        total, exact = matching, gathered.exhausted
        if (
            not exact
            and self._effort.pages
            and not gathered.scanned
            and not self._substrings
            and all(unit.kind in ("word", "cjk") for unit in self._query.units)
        ):
            counted = self._reader.count_words(self._kind, self._asked, self._rows, COUNT_CAP + 1)
            total = max(min(counted, COUNT_CAP), matching)
            exact = counted <= COUNT_CAP and gathered.unread is None
        return Found(ranked, total, exact, gathered.scanned, gathered.stopped_at, weights, gathered.unread)

    def _neighbours(self, stretches: Sequence[Stretch]) -> Iterator[SearchRow]:
        """Neighbours obey the filter too, else a role or time that was excluded would come back."""
        rows = self._rows
        if self._kind != "message" or rows.tool_name is not None:
            return
        for row in self._reader.rows_within(stretches) if stretches else ():
            if self._passes(row):
                yield row

    def _passes(self, row: SearchRow) -> bool:
        rows = self._rows
        return row not in self._left_out and (
            (rows.roles is None or row.role in rows.roles)
            and (rows.senders is None or row.sender in rows.senders)
            and (rows.since is None or row.at >= rows.since)
            and (rows.before is None or row.at < rows.before)
            and (rows.up_to_id is None or row.row_id <= rows.up_to_id)
        )


def is_indexed(unit: Unit) -> bool:
    """Whether the word index can propose rows for a unit; signs and short pieces need substrings."""
    if unit.kind != "exact":
        return unit.kind != "sender"
    if unit.inside:
        return False
    if " " not in unit.text and unit.text.isascii() and "'" not in unit.text:
        return False
    return any(len(word) > 1 for word in WORD.findall(unit.text))


def _clause(unit: Unit) -> Clause:
    return Clause("cjk" if unit.kind == "cjk" else "word", unit.text, unit.forms)
