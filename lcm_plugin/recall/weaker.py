"""What is looked for in place of a word that no row holds.

Each unit of a query is judged by itself. One that rows hold stays as it is. For another the steps below are taken in
turn until one finds something; each weaker step weighs less when rows are ranked, and is named in the answer.

- a word: the name of a sender; one letter away (Damerau's distance, see F. J. Damerau, "A technique for computer
  detection and correction of spelling errors", 1964); other forms of it; inside longer words; parts of a compound;
- a word with signs: as a piece of a longer one (``1.74.4`` in ``v1.74.4``); its words without the signs;
- a run of Chinese, Japanese or Korean: its pairs of characters.

Russian and Arabic words always stand for their other forms too, which the index of words does not bring together.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from itertools import chain, islice
from typing import Any

from lcm_plugin.recall.match import Matcher
from lcm_plugin.recall.query import MAX_UNITS, WORD, ParsedQuery, Unit, fold, is_function_word, plain_units
from lcm_plugin.recall.textsearch import is_indexed
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.search import Clause, Filter, IndexUnusable, RowKind, SearchRow, Substring, WordQuery

MAX_NOTES = 5
FORMS, SIGNLESS, PAIRS, INSIDE, ONE_LETTER, PARTS = 0.8, 0.8, 0.8, 0.7, 0.6, 0.4
# Of a word's letters, how many another form begins with; and the shortest words that are taken apart.
SHARED_BEGINNING, MIN_BEGINNING = 0.6, 4
MIN_INSIDE, MIN_MISSPELT, MAX_MISSPELT = 3, 5, 20
MIN_COMPOUND, MIN_PART, PART_SHARE = 8, 4, 0.35
MAX_FORMS = 12
_ROWS_READ = 40
_ROWS_CHECKED = 300
_LATIN, _CYRILLIC = "abcdefghijklmnopqrstuvwxyz", "абвгдежзийклмнопрстуфхцчшщъыьэюяё"
_CYRILLIC_WORD = re.compile("[\u0400-\u04ff]+")
_ARABIC_WORD = re.compile("[\u0620-\u064a\u0671-\u06d3]+")
_ARABIC_BEGINNINGS = ("", "ال", "لل", "وال", "بال", "كال", "فال", "ل", "ب", "و", "ف")
_ALEFS = "اأإآ"


@dataclass(frozen=True, slots=True)
class Resolved:
    """A query whose units rows hold, as far as any do, and what was put in the place of others."""

    query: ParsedQuery
    notes: tuple[str, ...] = ()


def resolve(
    query: ParsedQuery, reader: Reader, kind: RowKind, rows: Filter, most: int = MAX_UNITS
) -> Resolved:
    """The query with weaker units in place of those that no row of the filter's conversations holds, at most ``most``."""
    within = replace(rows, roles=None, tool_name=None, since=None, before=None, spans=None)
    try:
        return _Resolver(reader, kind, within, most).resolve(query)
    except IndexUnusable:
        return Resolved(query)


@dataclass(slots=True)
class _Resolver:
    reader: Reader
    kind: RowKind
    rows: Filter
    left: int
    notes: list[str] = field(default_factory=list)
    _names: list[str] | None = None
    _waiting: list[SearchRow] | None = None

    def resolve(self, query: ParsedQuery) -> Resolved:
        units: list[Unit] = []
        weakened = False
        asked = [self._with_inflections(unit) for unit in query.units]
        counts = self._counts([unit for unit in asked if unit.kind != "exact"])
        for unit in asked:
            instead: list[Unit] = []
            if self.left and not self._holds(unit, counts):
                self.left -= 1
                instead = self._instead(unit)
            weakened |= bool(instead)
            units += instead or [unit]
        kept = tuple(dict.fromkeys(units))
        return Resolved(
            replace(query, units=kept, all_of=query.all_of and not weakened), tuple(self.notes[:MAX_NOTES])
        )

    def _instead(self, unit: Unit) -> list[Unit]:
        steps: Sequence[tuple[Callable[[Unit], list[Unit]], str]]
        if unit.kind == "word":
            steps = (
                (self._sender, "it is a sender's name"),
                (self._one_letter, "words one letter away were taken"),
                (self._forms, "other forms were taken"),
                (self._inside, "longer words that hold it were taken"),
                (self._parts, "parts of it were taken"),
            )
        elif unit.kind == "cjk":
            steps = ((self._pairs, "pairs of its characters were taken"),)
        else:
            steps = (
                (self._inside, "longer ones that hold it were taken"),
                (self._signless, "its words were taken"),
            )
        for step, why in steps:
            if found := step(unit):
                words = ", ".join(dict.fromkeys(form for one in found for form in one.forms))
                self.notes.append(f"no row holds {unit.text!r}; {why}{f': {words}' if words else ''}")
                return found
        return []

    # -- what rows hold

    def _holds(self, unit: Unit, counts: Iterator[int] | None = None) -> bool:
        """Whether a row holds a unit. When the index was asked before, its answer comes next in ``counts``."""
        if unit.kind == "exact":
            return self._stands(unit)
        with suppress(IndexUnusable):
            if next(counts or self._counts([unit]), 0):
                return True
        matcher = Matcher(ParsedQuery((unit,), False, (), False))
        return any(matcher.find(row.text) for row in self._unindexed)

    def _counts(self, units: Iterable[Unit]) -> Iterator[int]:
        """For each unit 1 when the index has a row with it, else 0."""
        clauses = (Clause("cjk" if one.kind == "cjk" else "word", one.text, one.forms) for one in units)
        return self.reader.count_each(self.kind, [WordQuery((one,)) for one in clauses], self.rows, 1)

    @property
    def _unindexed(self) -> list[SearchRow]:
        """Rows that the index does not hold yet."""
        if self._waiting is None:
            self._waiting = list(islice(self.reader.unindexed_rows(self.kind, self.rows), _ROWS_CHECKED))
        return self._waiting

    def _stands(self, unit: Unit) -> bool:
        """Whether a text holds a unit as written, among the rows that an index proposes for it."""
        longest = max(unit.text.split(), key=len, default="")
        if len(longest) < MIN_INSIDE:
            return True  # too short for the index; the search itself reads the rows
        matcher = Matcher(ParsedQuery((unit,), False, (), False))
        rows = (
            self._with_phrase(unit)
            if is_indexed(unit)
            else self.reader.scan(self.kind, self.rows, Substring(longest))
        )
        return any(matcher.find(row.text) for row in islice(rows, _ROWS_CHECKED))

    def _with_phrase(self, unit: Unit) -> Iterator[SearchRow]:
        phrase = WordQuery((Clause("word", unit.text),))
        found = self.reader.find_words(self.kind, phrase, self.rows, order="recency", limit=_ROWS_CHECKED)
        yield from self.reader.search_rows(self.kind, [one.row_id for one in found]).values()
        yield from self._unindexed

    def _words_like(
        self, fits: Callable[[str], bool], words: Iterable[str] = (), beginnings: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """Words that fit, of rows with one of these words or beginnings; the most frequent first."""
        found = self.reader.rows_with_words(self.kind, tuple(words), beginnings, self.rows, _ROWS_READ)
        rows = self.reader.search_rows(self.kind, found).values()
        held = Counter(chain.from_iterable(set(WORD.findall(fold(row.text))) for row in rows))
        counts = {word: count for word, count in held.items() if fits(word)}
        return tuple(sorted(counts, key=lambda word: (-counts[word], word))[:MAX_FORMS])

    # -- steps

    def _sender(self, unit: Unit) -> list[Unit]:
        if self.kind != "message":
            return []
        if self._names is None:
            self._names = self.reader.message_senders(self.rows.conversation_ids)
        names = tuple(name for name in self._names if unit.text in WORD.findall(fold(name)))
        return [replace(unit, kind="sender", forms=names)] if names else []

    def _forms(self, unit: Unit) -> list[Unit]:
        shared = max(MIN_BEGINNING, -int(-len(unit.text) * SHARED_BEGINNING // 1))
        if len(unit.text) < shared or not unit.text.isalpha():
            return []
        beginning = unit.text[:shared]
        most = len(unit.text) + max(3, len(unit.text) // 2)
        found = self._words_like(
            lambda word: word.startswith(beginning) and len(word) <= most, beginnings=(beginning,)
        )
        return self._as_forms(unit, found, FORMS)

    def _inside(self, unit: Unit) -> list[Unit]:
        if unit.inside or unit.quoted or len(unit.text) < MIN_INSIDE:
            return []
        piece = replace(unit, kind="exact", forms=(), inside=True, weight=INSIDE)
        return [piece] if self._stands(piece) else []

    def _one_letter(self, unit: Unit) -> list[Unit]:
        # A digit off is another thing, not a slip.
        if not MIN_MISSPELT <= len(unit.text) <= MAX_MISSPELT or not unit.text.isalpha():
            return []
        near = self._words_like(lambda word: is_one_edit(unit.text, word), _one_edit_away(unit.text))
        return self._as_forms(unit, near, ONE_LETTER)

    def _parts(self, unit: Unit) -> list[Unit]:
        text = unit.text
        if len(text) < MIN_COMPOUND or not text.isalpha():
            return []
        least = max(MIN_PART, round(len(text) * PART_SHARE))
        parts = {text[:end] for end in range(least, len(text))} | {
            text[at:] for at in range(1, len(text) - least + 1)
        }
        parts = {part for part in parts if not is_function_word(part)}
        held = self._words_like(parts.__contains__, sorted(parts))
        return self._as_forms(unit, held, PARTS)

    def _signless(self, unit: Unit) -> list[Unit]:
        words = [replace(one, weight=SIGNLESS) for one in plain_units(unit.text)]
        return [one for one in words if self._holds(one)]

    def _pairs(self, unit: Unit) -> list[Unit]:
        pairs = [unit.text[at : at + 2] for at in range(len(unit.text) - 1)]
        units = [replace(unit, text=pair, weight=PAIRS) for pair in dict.fromkeys(pairs)]
        return [one for one in units if self._holds(one)]

    def _as_forms(self, unit: Unit, forms: tuple[str, ...], weight: float) -> list[Unit]:
        return [replace(unit, forms=(*unit.forms, *forms), weight=weight)] if forms else []

    def _with_inflections(self, unit: Unit) -> Unit:
        if unit.kind != "word" or len(unit.text) < 3:
            return unit
        if _CYRILLIC_WORD.fullmatch(unit.text):
            stem, written = _russian_stem, {unit.text}
            beginnings = [stem(unit.text)]
        elif _ARABIC_WORD.fullmatch(unit.text):
            # A word's own letters at its end are taken for a suffix now and then.
            stem, written = _arabic_stem, set(_arabic_beginnings(unit.text))
            beginnings = sorted(written | set(_arabic_beginnings(stem(unit.text))))
        else:
            return unit
        own = stem(unit.text)
        if len(own) < 2:
            return unit
        forms = self._words_like(lambda word: word in written or stem(word) == own, beginnings=beginnings)
        return replace(unit, forms=forms)


def is_one_edit(one: str, other: str) -> bool:
    """Whether one letter put in, left out, changed, or swapped with the next makes one word of the other."""
    if len(one) > len(other):
        one, other = other, one
    if len(other) - len(one) > 1 or one == other:
        return False
    at = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))
    if len(one) < len(other):
        return one[at:] == other[at + 1 :]
    swapped = one[at : at + 2] == other[at : at + 2][::-1] and one[at + 2 :] == other[at + 2 :]
    return one[at + 1 :] == other[at + 1 :] or swapped


def _one_edit_away(word: str) -> Iterator[str]:
    """Every word that is one edit away, in the letters of its script."""
    letters = (
        _LATIN
        if word.isascii()
        else _CYRILLIC
        if _CYRILLIC_WORD.fullmatch(word)
        else "".join(sorted(set(word)))
    )
    made: Iterable[str] = (
        form
        for at in range(len(word) + 1)
        for form in (
            word[:at] + word[at + 1 :],
            word[:at] + word[at : at + 2][::-1] + word[at + 2 :],
            *(word[:at] + letter + word[at + 1 :] for letter in letters),
            *(word[:at] + letter + word[at:] for letter in letters),
        )
    )
    return (form for form in dict.fromkeys(made) if form != word)


def _arabic_beginnings(own: str) -> list[str]:
    """How words with a stem may begin: with the article and particles, and with the letter alef as it is also written."""
    heads = [alef + own[1:] for alef in _ALEFS] if own[:1] in _ALEFS and own else [own]
    return [before + head for before in _ARABIC_BEGINNINGS for head in heads]


@lru_cache(maxsize=50_000)
def _russian_stem(word: str) -> str:
    return str(_stemmer("russian").stemWord(word))


@lru_cache(maxsize=50_000)
def _arabic_stem(word: str) -> str:
    return str(_stemmer("arabic").stemWord(word))


@cache
def _stemmer(language: str) -> Any:
    import snowballstemmer  # type: ignore[import-untyped]

    return snowballstemmer.stemmer(language)
