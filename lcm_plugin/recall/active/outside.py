"""Which of the messages that fit a request the model cannot read yet, or would read in the wrong order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from lcm_plugin.assembly.recalled import InView, Quote
from lcm_plugin.recall.active.fit import Later, asks_the_same, place_of
from lcm_plugin.recall.match import Matcher
from lcm_plugin.recall.query import ParsedQuery
from lcm_plugin.recall.rank import Ranked

# Of the best messages outside the view, so many are looked at for how much of the request they hold.
BEST = 3
MOST_LINES = 60
# How many messages in view, the best ones, are looked at for what they say again.
MOST_LATER = 8


class Outside:
    """Messages that fit and are not in view, best first, and those to show with them (``again``).

    Not among them is what was said again later with another value, which the view holds: read behind it, the old value
    would pass for the newest. Whether a message is such a one is found out when it is asked for.
    """

    def __init__(self, rows: Sequence[Ranked], later: Later, best: float) -> None:
        self.best_answer = best
        self.rows = rows
        self.again: list[Ranked] = []
        self._later = later
        self._held: dict[int, bool] = {}

    def __iter__(self) -> Iterator[Ranked]:
        return filter(self.holds, self.rows)

    def holds(self, one: Ranked) -> bool:
        """Whether a row is not said again later; what is shown again is not asked that."""
        known = self._held.get(one.row.row_id)
        if known is None:
            known = self._held[one.row.row_id] = not self._later.says_again(one)
        return known

    def show_again(self, rows: Sequence[Ranked]) -> None:
        """Shows rows of the view with them."""
        self.again = list(rows)
        self._held |= dict.fromkeys((one.row.row_id for one in rows), True)

    @property
    def best(self) -> float:
        """The highest score of them."""
        return next((one.score for one in sorted(self.rows, key=by_score) if self.holds(one)), 0.0)


def by_score(one: Ranked) -> float:
    """An order of messages, best first."""
    return -one.score


def outside_of(ranked: Iterable[Ranked], view: InView, query: ParsedQuery) -> Outside:
    """The messages that the view does not hold, as many as could be shown, with the best answer's score.

    The best ones are shown again where they stand as quotes beside earlier requests only: those follow the order of the
    requests, so that an old value may stand behind the one that replaced it. Where the view says how its quotes stand,
    only those are shown again that lack a word of the request, or behind which an older one stands; and with an older
    one that is shown now, those that it would stand behind.
    One that stands in the view before an answer of a recall tool that shows an older one is shown again, too.
    Where it cannot be told that an older one was said again with another value, as with a value of many words, the newer
    one that stands in the view is shown again behind the older: it holds every word of the request that the older holds.
    """
    rest, matcher = iter(ranked), Matcher(query)
    leading = list(islice(rest, BEST))
    rows, inside, misread = list[Ranked](), list[Ranked](), list[Ranked]()
    for one in leading:
        shown = view.holds(one.row.ref, one.row.text) or _is_quoted(one, view.quotes, matcher)
        misread += [one] if shown and _is_misread(one, leading, view) else []
        (inside if shown else rows).append(one)
    leading_in, leading_out = [one for one in inside if one not in misread], rows[:]
    rows += misread
    for one in rest:
        if len(rows) == MOST_LINES:
            break
        quoted = one.row.ref in view.quoted_before or one.row.ref in view.quotes
        (inside if quoted or view.holds(one.row.ref, one.row.text) else rows).append(one)
    # A part of what was quoted can be read already: what cannot be read at all goes before it.
    rows.sort(key=lambda one: by_score(one) / (2 if one.row.ref in view.quotes else 1))
    # The request as it was asked before fits best of all, and answers nothing.
    best = next((one.score for one in leading if not asks_the_same(one, query)), 0.0)
    outside = Outside(rows, Later(inside[:MOST_LATER]), best)
    older = [one for one in leading_out if not one.row.hidden and outside.holds(one)] if leading_in else []
    outside.show_again(
        [
            one
            for one in leading_in
            if any(_is_read_before(one, old, one.row.ref in view.quotes) for old in older)
        ]
    )
    return outside


def _is_read_before(newer: Ranked, old: Ranked, quoted: bool) -> bool:
    """Whether a message of the view says the newer of two things about one, and a quote of the older would follow it.

    Of one that is only quoted in the view not every word of the request may be there.
    """
    if place_of(newer) <= place_of(old):
        return False
    pairs = zip(newer.matches.spans, old.matches.spans, strict=True)
    return quoted or all(bool(now) or not before for now, before in pairs)


def _is_misread(one: Ranked, leading: Iterable[Ranked], view: InView) -> bool:
    """Whether an older message that fits stands in the view behind a newer one, as a quote or in a tool's answer."""
    quoted, at = one.row.ref in view.quotes, view.read_last(one.row.ref)
    return any(view.read_last(old.row.ref) > at and _is_read_before(one, old, quoted) for old in leading)


def _is_quoted(one: Ranked, quotes: Mapping[str, Quote], matcher: Matcher) -> bool:
    """Whether what a message is found by can be read in its quote."""
    quote = quotes.get(one.row.ref)
    if quote is None:
        return False
    there = matcher.find(quote.text).spans
    return all(spans or not found for found, spans in zip(one.matches.spans, there, strict=True))
