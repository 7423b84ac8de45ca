"""Which of the messages that fit a request the model cannot read yet, or would read in the wrong order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from lcm_plugin.assembly.recalled import InView, Quote
from lcm_plugin.recall.active.fit import Later, asks_the_same, place_of
from lcm_plugin.recall.match import Matcher
from lcm_plugin.recall.query import ParsedQuery
from lcm_plugin.recall.rank import Ranked

# Of the best messages outside the view, so many are looked at for how much of the request they hold.
BEST = 3
MOST_LINES = 40
# How many messages in view, the best ones, are looked at for what they say again.
MOST_LATER = 8


def outside_of(
    ranked: Iterable[Ranked], view: InView, query: ParsedQuery
) -> tuple[float, list[Ranked], list[Ranked]]:
    """The best answer's score, those that the view does not hold, as many as could be shown, and those to show with them.

    The best ones are shown again where they stand as quotes beside earlier requests only: those follow the order of the
    requests, so that an old value may stand behind the one that replaced it. Where the view says how its quotes stand,
    only those are shown again that lack a word of the request, or behind which an older one stands; and with an older
    one that is shown now, those that it would stand behind.
    Not among them is what was said again later with another value, which the view holds: read behind it, the old value
    would pass for the newest. Where that cannot be told, as with a value of many words, the newer one that stands in the
    view is shown again behind the older: it holds every word of the request that the older holds.
    """
    rest, matcher = iter(ranked), Matcher(query)
    leading = list(islice(rest, BEST))
    outside, inside = list[Ranked](), list[Ranked]()
    for one in leading:
        shown = view.holds(one.row.ref, one.row.text) or _is_quoted(one, view.quotes, matcher, leading)
        (inside if shown else outside).append(one)
    for one in rest:
        if len(outside) == MOST_LINES:
            break
        quoted = one.row.ref in view.quoted_before or one.row.ref in view.quotes
        (inside if quoted or view.holds(one.row.ref, one.row.text) else outside).append(one)
    later = Later(inside[:MOST_LATER])
    outside = [one for one in outside if not later.says_again(one)]
    # A part of what was quoted can be read already: what cannot be read at all goes before it.
    outside.sort(key=lambda one: -one.score / (2 if one.row.ref in view.quotes else 1))
    older = [one for one in outside if one in leading and not one.row.hidden]
    again = [
        one
        for one in leading
        if one in inside and any(_is_read_before(one, old, one.row.ref in view.quotes) for old in older)
    ]
    # The request as it was asked before fits best of all, and answers nothing.
    best = next((one.score for one in leading if not asks_the_same(one, query)), 0.0)
    return best, outside, again


def _is_read_before(newer: Ranked, old: Ranked, quoted: bool) -> bool:
    """Whether a message of the view says the newer of two things about one, and a quote of the older would follow it.

    Of one that is only quoted in the view not every word of the request may be there.
    """
    if place_of(newer) <= place_of(old):
        return False
    pairs = zip(newer.matches.spans, old.matches.spans, strict=True)
    return quoted or all(bool(now) or not before for now, before in pairs)


def _is_quoted(one: Ranked, quotes: Mapping[str, Quote], matcher: Matcher, leading: Iterable[Ranked]) -> bool:
    """Whether what a message is found by can be read in its quote, and none of an older one that fits is read behind it."""
    quote = quotes.get(one.row.ref)
    if quote is None:
        return False
    there = matcher.find(quote.text).spans
    if any(found and not spans for found, spans in zip(one.matches.spans, there, strict=True)):
        return False
    older = (quotes.get(other.row.ref) for other in leading if place_of(other) < place_of(one))
    return all(other is None or other.at < quote.at for other in older)
