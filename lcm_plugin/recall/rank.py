"""Which of the rows that hold some words answer a question best.

The score starts from Okapi BM25 over the words of the question and is shaped by what holds for any
conversation, with no weight learned from data:

- *coverage*: a row with all the words beats one that repeats a rare one; neighbouring words of the
  question that stand close together count a little more;
- *context*: a short turn means little without the turns round it, so it takes a share of their scores,
  the less the longer it is;
- *who speaks*: a question that names one speaker is answered by that speaker; turns that are questions
  rarely hold answers; where replies are much longer than what users write, facts come from users, and
  so they do when the question says "I" or "my";
- *when, how many*: a question for a time or a number is answered by turns that hold one, a question with a date by turns
  of that time, and by those that name it soon after;
- *echoes*: what only repeats the question hardly counts;
- *which one*: an identifier names its thing, so rows that hold it beat those beside them;
- *meaning*, where vectors are stored: how close a row comes to what is asked is added, at most 0.4 of what a row has that
  holds every word.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, nlargest
from itertools import accumulate, pairwise
from typing import NamedTuple

from lcm_plugin.recall.match import Matches
from lcm_plugin.recall.query import MAX_CHARS, WORD, ParsedQuery, fold, is_function_word
from lcm_plugin.recall.times import NO_TIMES, AskedTimes
from lcm_plugin.store.search import SearchRow, Stretch

K1, B = 0.8, 0.8
COVERAGE = 0.7
CLOSE_WORDS, CLOSE_CHARS = 0.15, 30
NEIGHBOURS = {-1: 0.5, 1: 0.3, -2: 0.2, 2: 0.15, -3: 0.1, 3: 0.1}
_NEIGHBOURS = tuple(NEIGHBOURS.items())
REACH = 3
SURROUNDINGS, SURROUNDINGS_REACH = 0.4, 10
SELF_CONTAINED_TOKENS = 80
SPEAKER, QUESTION, USER, IDENTIFIER, THEN = 2.0, 0.6, 1.5, 2.0, 3.0
# What is asked for: a time, or a number.
WANTED = 1.3
BESIDE_BETTER = 0.9
LONG_REPLIES = 2.0
SPEAKER_SHARE = 0.1
EXPANDED = 60
HYBRID_HALF_DAYS = 30.0
MEANING = 0.4
ECHO = 0.1

_TIME_WORDS = re.compile(
    r"\b(?:yesterday|today|tomorrow|tonight|ago|last|next|week|weekend|month|year|years|morning|recently|since|"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|may|june|july|august|september|"
    r"october|november|december|spring|summer|fall|autumn|winter|\d{4}|\d{1,2}(?:st|nd|rd|th|:\d\d))\b"
)
_NUMBERS = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|couple|few|half|once|twice|hundred|"
    r"thousand|first|second|third)\b"
)
_ASKS_WHEN = re.compile(
    r"^(?:\w+ ){0,2}when\b|\b(?:what|which) (?:year|month|date|day|time|season|week)\b|\bhow long\b"
)
_ASKS_HOW_MANY = re.compile(r"^(?:\w+ ){0,3}how (?:many|much|long|old|often|far)\b")
_SPEAKER_PREFIX = re.compile(r"(?m)^([^\W\d_][\w .'-]{0,30}): ")

_ABOUT_THE_USER = frozenset({"i", "me", "my", "mine", "myself", "user"})

Around = Callable[[Sequence[Stretch]], Iterable[SearchRow]]
Closeness = Callable[[Sequence[int]], Mapping[int, float]]


class Candidate(NamedTuple):
    """A row and where the query's units stand in it."""

    row: SearchRow
    matches: Matches


class Ranked(NamedTuple):
    """A candidate and its score. ``nearby``: it holds none of the words, only its neighbours do."""

    row: SearchRow
    matches: Matches
    score: float
    nearby: bool = False


@dataclass(frozen=True, slots=True)
class Corpus:
    """What is known of all rows searched: how many there are, and in which share each unit occurs.

    ``times``: those that the question names.
    """

    total: int
    shares: Sequence[float]
    senders: Sequence[str] = ()
    times: AskedTimes = NO_TIMES


def rank(
    query: ParsedQuery,
    candidates: Sequence[Candidate],
    corpus: Corpus,
    around: Around,
    find: Callable[[SearchRow], Matches],
    closeness: Closeness | None = None,
    expanded: int = EXPANDED,
    wanted: int | None = None,
) -> list[Ranked]:
    """Candidates best first; a question also gets the turns round the ``expanded`` best ones.

    ``around`` gives the messages of some stretches of conversations, ``find`` the matches in a row,
    ``closeness`` how near rows come to what the query means, 0 to 1, as far as it is known; None without vectors.
    Of the turns round hits only those are read that may come among the first ``wanted``; None for all.
    """
    if not candidates:
        return []
    scorer = _Scorer(query, candidates, corpus)
    if not query.is_phrase_like:
        ranked = [Ranked(c.row, c.matches, scorer.own(c)) for c in candidates]
        return sorted(ranked, key=_best_first)
    own = {c.row.row_id: (c, scorer.own(c)) for c in candidates}
    placed = _placed(own.values())
    ranked = scorer.in_context(own.values(), placed) if closeness is None else []
    added: dict[int, tuple[Candidate, float]] = {}
    if query.is_question:
        best = sorted(own.values(), key=lambda pair: -pair[1])[:expanded]
        near = [_stretch(candidate.row) for candidate, _ in best]
        if wanted is not None and closeness is None:
            known = {(c.row.conversation_id, c.row.position) for c in candidates}
            near = _worth_reading(near, known, placed, _least_of(ranked, wanted) / scorer.most)
        for row in around(near):
            if row.row_id not in own:
                one = Candidate(row, find(row))
                added[row.row_id] = (one, scorer.own(one))
    if closeness is not None:
        own = _with_meaning(scorer, own | added, closeness)
        ranked = scorer.in_context(own.values(), _placed(own.values()))
    elif any(score for _, score in added.values()):
        own |= added
        ranked = scorer.in_context(own.values(), _placed(own.values()))
    else:
        ranked += scorer.in_context(added.values(), placed)
    return sorted(ranked, key=_best_first)


def _least_of(ranked: Iterable[Ranked], wanted: int) -> float:
    """What a row must have at least to come among the first ``wanted``, also after `spread`."""
    best = nlargest(wanted, (one.score for one in ranked))
    return best[-1] * BESIDE_BETTER**2 if len(best) == wanted else 0.0


def _worth_reading(
    stretches: Iterable[Stretch], known: Set[tuple[int, int]], placed: _Placed, least: float
) -> list[Stretch]:
    """The places in some stretches, without the known ones, whose neighbours alone give them at least so much."""
    places = {(here, at) for here, first, last in stretches for at in range(first, last + 1)} - known
    return [(here, at, at) for here, at in sorted(places) if placed.around(here, at) >= least]


def spread(ranked: Sequence[Ranked], wanted: int) -> list[Ranked]:
    """The same rows, where one right beside a better one gives way a little: that one is shown with its neighbours.

    The order of the first ``wanted`` is right; the others follow as they come.
    """
    waiting = [(-one.score, place) for place, one in enumerate(ranked)]
    heapify(waiting)
    taken: set[tuple[int, int]] = set()
    kept: list[Ranked] = []
    while waiting and len(kept) < wanted:
        score, place = heappop(waiting)
        one = ranked[place]
        here, at = one.row.conversation_id, one.row.position
        better = ((here, at - 1) in taken) + ((here, at + 1) in taken)
        now = -one.score * BESIDE_BETTER**better
        if now > score:
            heappush(waiting, (now, place))
            continue
        taken.add((here, at))
        kept.append(one._replace(score=-now) if better else one)
    return kept + [ranked[place] for _, place in sorted(waiting)]


def by_recency_too(ranked: Sequence[Ranked]) -> list[Ranked]:
    """The same rows with every score halved per 30 days of age, counted from the newest of them."""
    newest = max((one.row.until for one in ranked), default=0)
    day = 86_400_000.0
    aged = [
        Ranked(
            one.row,
            one.matches,
            one.score * 0.5 ** ((newest - one.row.until) / day / HYBRID_HALF_DAYS),
            one.nearby,
        )
        for one in ranked
    ]
    return sorted(aged, key=_best_first)


class _Scorer:
    """The scores of single rows for one query."""

    def __init__(self, query: ParsedQuery, candidates: Sequence[Candidate], corpus: Corpus) -> None:
        self._words = query.words
        self._is_question = query.is_question
        self._idf = unit_weights(query, corpus)
        self._idf_sum = sum(self._idf) or 1.0
        self._average = sum(c.row.tokens for c in candidates) / len(candidates) or 1.0
        self._identifiers = [index for index, unit in enumerate(query.units) if unit.is_identifier]
        self._times = corpus.times
        asked = " ".join(query.words)
        self._wanted = [
            pattern
            for asks, pattern in ((_ASKS_WHEN, _TIME_WORDS), (_ASKS_HOW_MANY, _NUMBERS))
            if asks.search(asked)
        ]
        # A single word says nothing of who is asked.
        speaks = query.is_phrase_like
        self._named = _named_speaker(query.words, candidates, corpus.senders) if speaks else None
        self._user_factor = _user_factor(query.words, candidates) if self._named is None else 1.0

    @property
    def whole(self) -> float:
        """About what a row of usual length has that holds every word once."""
        return self._idf_sum

    @property
    def most(self) -> float:
        """The largest factor that a row without any of the words can have."""
        speaks = SPEAKER if self._named is not None else 1.0
        return (
            speaks
            * max(1.0, self._user_factor)
            * (THEN if self._times.spans else 1.0)
            * WANTED ** len(self._wanted)
        )

    def in_context(self, scored: Iterable[tuple[Candidate, float]], placed: _Placed) -> list[Ranked]:
        """Rows with their final scores, those that have any."""
        return [
            Ranked(c.row, c.matches, score * self.shape(c), not c.matches)
            for c, own in scored
            if (score := own + _share(c.row) * placed.around(c.row.conversation_id, c.row.position)) > 0
        ]

    def own(self, candidate: Candidate) -> float:
        """BM25 with coverage and closeness, of the row alone."""
        if not candidate.matches:
            return 0.0
        length = K1 * (1 - B + B * candidate.row.tokens / self._average)
        score = covered = 0.0
        for idf, spans in zip(self._idf, candidate.matches.spans, strict=True):
            if spans:
                score += idf * len(spans) * (K1 + 1) / (len(spans) + length)
                covered += idf
        score *= 1 - COVERAGE + COVERAGE * covered / self._idf_sum
        score *= self.novelty(candidate)
        return score * (1 + CLOSE_WORDS) ** _close_pairs(candidate.matches)

    def novelty(self, candidate: Candidate) -> float:
        """1, or little for a row that only repeats the question."""
        if not self._is_question or not candidate.matches.all_units:
            return 1.0
        row = candidate.row
        repeats = len(row.text) <= MAX_CHARS and tuple(WORD.findall(fold(row.text))) == self._words
        return ECHO if repeats else 1.0

    def shape(self, candidate: Candidate) -> float:
        """The factor that a row's speaker and kind give."""
        row, factor = candidate.row, 1.0
        if self._identifiers and any(candidate.matches.spans[index] for index in self._identifiers):
            factor *= IDENTIFIER
        if self._named is not None and speaker_of(row) == self._named:
            factor *= SPEAKER
        if row.text.rstrip()[-1:] in ("?", "？"):
            factor *= 1 - (1 - QUESTION) * _share(row)
        if row.role == "user":
            factor *= self._user_factor
        if self._times.spans and self._times.are_of(row.text, row.at, row.until):
            factor *= THEN
        for pattern in self._wanted:
            if pattern.search(row.text.lower()):
                factor *= WANTED
        return factor


def unit_weights(query: ParsedQuery, corpus: Corpus) -> list[float]:
    """What each unit of a query weighs: the rarer, the more."""
    return [
        unit.weight * _inverse_frequency(share, corpus.total)
        for unit, share in zip(query.units, corpus.shares, strict=True)
    ]


def _inverse_frequency(share: float, total: int) -> float:
    """Robertson's idf of a unit, never below a small weight."""
    count = share * total
    return max(0.05, math.log((total - count + 0.5) / (count + 0.5)))


def speaker_of(row: SearchRow) -> str | None:
    """Who wrote a message: the host's word, or a ``Name: `` at its beginning; folded."""
    if row.sender:
        return fold(row.sender)
    if not _SPEAKER_PREFIX.match(row.text):
        return None
    prefixes = {fold(name) for name in _SPEAKER_PREFIX.findall(row.text)}
    return prefixes.pop() if len(prefixes) == 1 else None


def _named_speaker(
    words: Sequence[str], candidates: Sequence[Candidate], senders: Sequence[str]
) -> str | None:
    """The one speaker whom the question names; None for none and for several."""
    known = {fold(sender) for sender in senders} | _written_speakers(candidates)
    asked = {word for word in words if not is_function_word(word)}
    named = {one for one in known if one and asked.intersection(WORD.findall(one))}
    return named.pop() if len(named) == 1 else None


def _written_speakers(candidates: Sequence[Candidate]) -> set[str | None]:
    """Who begins many messages with a name and a colon; a lone ``Error: `` is no speaker."""
    counts = Counter(speaker_of(c.row) for c in candidates)
    return {speaker for speaker, count in counts.items() if count >= SPEAKER_SHARE * len(candidates)}


def _user_factor(words: Sequence[str], candidates: Sequence[Candidate]) -> float:
    """What a user's message counts: a question in the first person, or about the user, is about what users said."""
    if not _ABOUT_THE_USER.isdisjoint(words):
        return SPEAKER
    return USER if _replies_are_long(candidates) else 1.0


def _replies_are_long(candidates: Sequence[Candidate]) -> bool:
    users = [c.row.tokens for c in candidates if c.row.role == "user"]
    others = [c.row.tokens for c in candidates if c.row.role != "user"]
    if len(users) < 5 or len(others) < 5:
        return False
    return sum(others) / len(others) >= LONG_REPLIES * sum(users) / len(users)


def _close_pairs(matches: Matches) -> int:
    """How many neighbouring units of the question stand close together in the row."""
    pairs = 0
    for left, right in pairwise(matches.spans):
        if left and right:
            pairs += any(
                a_start - b_end <= CLOSE_CHARS and b_start - a_end <= CLOSE_CHARS
                for a_start, a_end in left[:20]
                for b_start, b_end in right[:20]
            )
    return pairs


def _stretch(row: SearchRow) -> Stretch:
    return (row.conversation_id, row.position - REACH, row.position + REACH)


class _Placed:
    """The scores of rows by their places; only rows that have one are kept."""

    def __init__(self, rows: Iterable[tuple[int, int, float]]) -> None:
        self._scores: dict[int, dict[int, float]] = {}
        for conversation_id, position, score in rows:
            if score:
                self._scores.setdefault(conversation_id, {})[position] = score
        self._positions = {here: sorted(scores) for here, scores in self._scores.items()}
        self._sums = {
            here: list(accumulate((self._scores[here][at] for at in positions), initial=0.0))
            for here, positions in self._positions.items()
        }

    def near(self, here: int, at: int) -> float:
        """The weighted scores of the next rows on either side."""
        scores, near = self._scores.get(here, {}), 0.0
        for step, weight in _NEIGHBOURS:
            if at + step in scores:
                near += weight * scores[at + step]
        return near

    def around(self, here: int, at: int) -> float:
        """What stands round a place gives it, when it leans on that."""
        return self.near(here, at) + SURROUNDINGS * self.mean(here, at)

    def mean(self, here: int, at: int) -> float:
        """The mean score of the rows within `SURROUNDINGS_REACH`, this one included."""
        positions, sums = self._positions.get(here, []), self._sums.get(here, [0.0])
        first = bisect_left(positions, at - SURROUNDINGS_REACH)
        end = bisect_right(positions, at + SURROUNDINGS_REACH)
        return (sums[end] - sums[first]) / (2 * SURROUNDINGS_REACH + 1)


def _placed(scored: Iterable[tuple[Candidate, float]]) -> _Placed:
    return _Placed((c.row.conversation_id, c.row.position, score) for c, score in scored)


def _share(row: SearchRow) -> float:
    """How much a row leans on what stands round it: all when it is short, less the longer it is."""
    return min(1.0, SELF_CONTAINED_TOKENS / max(row.tokens, 1))


def _with_meaning(
    scorer: _Scorer, own: Mapping[int, tuple[Candidate, float]], closeness: Closeness
) -> dict[int, tuple[Candidate, float]]:
    """The scores with the rows' closeness added; a row whose meaning is not known yet gets the mean of the others."""
    near = closeness(list(own))
    usual = sum(near.values()) / len(near) if near else 0.0
    most = MEANING * scorer.whole
    return {
        row_id: (c, score + most * near.get(row_id, usual) * scorer.novelty(c))
        for row_id, (c, score) in own.items()
    }


def _best_first(one: Ranked) -> tuple[float, int]:
    return (-one.score, -one.row.row_id)
