"""From what somebody typed to what is looked for.

There is no operator syntax, so nothing can be written by accident: every input is a list of units.

- A plain word stands for all its forms (stemmed, diacritics folded).
- A word with signs inside it or stuck to it (``my-proxy``, ``10:30``, ``src/a/b.py``, ``C++``, ``foo_bar``)
  and a "quoted phrase" are looked for as written, whatever their case.
- A run of Chinese, Japanese or Korean is looked for as it stands, down to one character.

Function words are dropped unless there is nothing else. Rows with any unit match; a query that holds
a run of Chinese, Japanese or Korean asks for all its units, as such queries are written.

Folding keeps the length of a text, so that an offset in the folded text is one in the original. Stems are Porter's
(the algorithm that the full-text index uses too).
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, Literal

CJK = (
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff"
)
WORD = re.compile(rf"[^\W_{CJK}]+")
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
CJK_RUN = re.compile(rf"[{CJK}]+")

_STOP_WORDS = frozenset(
    """
    a about above after again against all am an and any are aren as at be because been before being below
    between both but by can cannot could couldn d did didn do does doesn doing don down during each few for
    from further had hadn has hasn have haven having he her here hers herself him himself his how i if in
    into is isn it its itself just ll m may me might more most must my myself no nor not now of off on once
    only or other our ours ourselves out over own re s same shall she should shouldn so some such t than that
    the their theirs them themselves then there these they this those through to too under until up ve very
    was wasn we were weren what when where which while who whom whose why will with won would wouldn you your
    yours yourself yourselves
    """.split()  # noqa: SIM905 - a list of quoted words could not be read
)
# Forms that no suffix rule brings together.
_IRREGULAR = """
    begin began begun/bite bit bitten/blow blew blown/break broke broken/bring brought/build built/buy bought
    catch caught/child children/choose chose chosen/come came/dream dreamt/draw drew drawn/drink drank drunk
    drive drove driven/eat ate eaten/fall fell fallen/feel felt/fight fought/find found/fly flew flown
    forget forgot forgotten/freeze froze frozen/get got gotten/give gave given/go goes went gone/grow grew grown
    hang hung/hear heard/hide hid hidden/hold held/keep kept/know knew known/lead led/learn learnt/leave left
    lend lent/lose lost/make made/man men/mean meant/meet met/pay paid/person people/ride rode ridden
    rise rose risen/run ran/say said/see saw seen/sell sold/send sent/shake shook shaken/shoot shot
    sing sang sung/sit sat/sleep slept/speak spoke spoken/spend spent/stand stood/steal stole stolen
    stick stuck/strike struck/swim swam swum/swing swung/take took taken/teach taught/tear tore torn/tell told
    think thought/throw threw thrown/understand understood/wake woke woken/wear wore worn/win won/woman women
    write wrote written/foot feet/tooth teeth/mouse mice/wife wives/life lives
"""

MAX_CHARS = 2_000
MAX_UNITS = 40

UnitKind = Literal["word", "exact", "cjk", "sender"]

_QUOTES = str.maketrans(
    {"\u201c": '"', "\u201d": '"', "\u201e": '"', "\u00ab": '"', "\u00bb": '"', "\u2013": " ", "\u2014": " "}
)
_QUOTED = re.compile(r'"([^"]*)"')
_EDGES = ".,;:!?()[]{}<>'\"`*&|^~=…、。，！？；：（）「」『』【】《》"
_LEADING = "-_/\\+=@#$~"
_TRAILING = "-_/\\+=@$~"
_CONTRACTION = re.compile(r"[^\W\d_]+'[^\W\d_]{1,2}")
_KEPT_TAILS = re.compile(r"[^\W_]{1,3}(?:\+\+|#)$")
_LETTERS_AND_DIGITS = re.compile(r"(?=.*\d)(?=.*[^\W\d_]).+")
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th|s|am|pm|k|m|h|d|w)")
_IDENTIFIER_SIGN = re.compile(r"[\d_/\\.:@#+=]")
# fmt: off
_INTERROGATIVES = frozenset({
    "who", "whom", "whose", "what", "when", "where", "which", "why", "how", "did", "does", "do", "is", "are", "was",
    "were", "has", "have", "had", "can", "could", "would", "will", "should",
})
# fmt: on
_REGEX_SIGNS = re.compile(
    r"\.[*+]|\\[dwsbDWSBAzpP.()\[\]]|\w\|\w|\[\^?[^\]\s]+-[^\]\s]+\]|\(\?|^\^\S|\)[*+?|]|\{\d+,?\d*\}"
)


@dataclass(frozen=True, slots=True)
class Unit:
    """One thing to look for. ``text`` is folded; ``forms`` are further words that count as this one.

    ``inside``: it may stand within a longer word. ``weight``: what a match counts, less than 1 for what stands in the
    place of a word that no row holds. A ``sender`` is matched by who wrote a row; its ``forms`` are the full names.
    """

    kind: UnitKind
    text: str
    forms: tuple[str, ...] = ()
    quoted: bool = False
    inside: bool = False
    weight: float = 1.0

    @property
    def is_identifier(self) -> bool:
        """Whether it names one thing: ``EHGLP3``, ``foo_bar``, ``src/a.py``, but not ``5th`` or ``well-being``."""
        if self.kind == "word":
            return bool(_LETTERS_AND_DIGITS.fullmatch(self.text)) and not _ORDINAL.fullmatch(self.text)
        return self.kind == "exact" and not self.quoted and bool(_IDENTIFIER_SIGN.search(self.text))


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """What to look for. ``words`` are all folded words of the input, function words too."""

    units: tuple[Unit, ...]
    all_of: bool
    words: tuple[str, ...]
    looks_like_regex: bool
    asks: bool = False

    @property
    def plain(self) -> tuple[Unit, ...]:
        """The plain words, in order."""
        return tuple(unit for unit in self.units if unit.kind == "word")

    @property
    def is_phrase_like(self) -> bool:
        """Whether there is enough language in it to rank by more than its words."""
        return len(self.plain) >= 2

    @property
    def is_prose(self) -> bool:
        """Whether it is language throughout: no quoted phrase, no identifier or other thing to be found as written."""
        return self.is_phrase_like and all(
            unit.kind in ("word", "sender") or unit.inside for unit in self.units
        )

    @property
    def is_question(self) -> bool:
        """Whether it asks something, so that the answer may stand beside the words."""
        return self.is_phrase_like and (self.asks or not _INTERROGATIVES.isdisjoint(self.words))


def parse_query(text: str) -> ParsedQuery:
    """The units of an input; none when it holds nothing that can be looked for. Never raises."""
    source = text[:MAX_CHARS].translate(_QUOTES)
    pieces = [(piece.strip(), index % 2 == 1) for index, piece in enumerate(_QUOTED.split(source))]
    pieces = [(piece, quoted) for piece, quoted in pieces if piece]
    # Beside other words a quoted phrase lifts its rows but must not hide those that lack it.
    beside = any(not quoted or not _is_phrase(piece) for piece, quoted in pieces) and len(pieces) > 1
    units: list[Unit] = []
    for piece, quoted in pieces:
        if not quoted or beside:
            units += [unit for token in piece.split() for unit in _token_units(token)]
        if quoted and (_is_phrase(piece) or not beside):
            units.append(Unit("exact", fold(piece), quoted=True))
    kept = _without_function_words(list(dict.fromkeys(units)))[:MAX_UNITS]
    return ParsedQuery(
        units=tuple(kept),
        all_of=any(unit.kind == "cjk" for unit in kept),
        words=tuple(WORD.findall(fold(source))),
        looks_like_regex=bool(_REGEX_SIGNS.search(text[:MAX_CHARS])),
        asks="?" in source or "？" in source,
    )


def plain_units(text: str) -> list[Unit]:
    """The words of a piece without its signs and quotes; function words only when there is nothing else."""
    return _without_function_words([unit for word in WORD.findall(fold(text)) for unit in _token_units(word)])


def any_of(query: ParsedQuery) -> ParsedQuery:
    """The same query content with any one unit."""
    return replace(query, all_of=False)


def _token_units(token: str) -> list[Unit]:
    folded = fold(token)
    core = folded.strip(_EDGES)
    stuck = _KEPT_TAILS.search(folded.rstrip(".,;:!?)\"'"))
    if stuck:
        return [Unit("exact", stuck.group())]
    if not core:
        return _sign_units(folded)
    if core[-1] in _TRAILING and core.strip(_LEADING + _EDGES):
        core = core.strip(_LEADING + _EDGES)
    if CJK_RUN.search(core):
        return _mixed_units(core)
    if _CONTRACTION.fullmatch(core):
        return _contraction_units(core)
    words = WORD.findall(core)
    if not words:
        return _sign_units(folded)
    if len(words) == 1 and words[0] == core:
        return [_word(core)]
    return [Unit("exact", core)]


def _sign_units(folded: str) -> list[Unit]:
    """Emoji, arrows and other signs that stand for themselves; plain punctuation stands for nothing."""
    if all(character in _EDGES for character in folded) or (len(folded) == 1 and folded.isascii()):
        return []
    return [Unit("exact", folded)]


def _mixed_units(core: str) -> list[Unit]:
    units: list[Unit] = []
    for piece in re.split(f"({CJK_RUN.pattern})", core):
        if CJK_RUN.fullmatch(piece):
            units.append(Unit("cjk", piece))
        elif piece:
            units += _token_units(piece)
    return units


def _contraction_units(core: str) -> list[Unit]:
    stem, _, tail = core.partition("'")
    if tail == "s":
        return [_word(stem)]
    if is_function_word(stem):
        return [Unit("exact", core)]
    return [_word(stem)]


def _word(text: str) -> Unit:
    return Unit("word", text, sibling_forms(text))


def _is_phrase(piece: str) -> bool:
    """Whether quotes round a piece say more than the piece itself: it has several words."""
    return len(WORD.findall(piece)) > 1


def _without_function_words(units: list[Unit]) -> list[Unit]:
    content = [unit for unit in units if not _is_function(unit)]
    return content or units


def _is_function(unit: Unit) -> bool:
    if unit.quoted or unit.kind == "cjk":
        return False
    return is_function_word(unit.text.partition("'")[0])


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """The Porter stem of a folded word; words of one or two letters are their own, as in the full-text index."""
    return str(_porter().stemWord(word)) if len(word) > 2 else word


def is_function_word(word: str) -> bool:
    """Whether a folded English word carries no content of its own."""
    return word in _STOP_WORDS


def sibling_forms(word: str) -> tuple[str, ...]:
    """Other forms of an irregular word (``went`` for ``go``), folded and unstemmed."""
    return _sibling_table().get(stem(word), ())


def fold(text: str) -> str:
    """Lower case without diacritics, character by character."""
    if text.isascii():
        return text.lower()
    return _BEYOND_ASCII.sub(_fold_run, text).lower()


def _fold_run(run: re.Match[str]) -> str:
    return "".join(map(_fold_character, run.group()))


@lru_cache(maxsize=10_000)
def _fold_character(character: str) -> str:
    if character in "\u2018\u2019\u02bc":
        return "'"
    # As the indexes do: marks are taken off Latin letters alone.
    base = unicodedata.normalize("NFD", character)[0]
    return (base if base.isascii() else character).lower()[:1] or character


@cache
def _porter() -> Any:
    import snowballstemmer  # type: ignore[import-untyped]

    return snowballstemmer.stemmer("porter")


@cache
def _sibling_table() -> dict[str, tuple[str, ...]]:
    table: dict[str, tuple[str, ...]] = {}
    for group in _IRREGULAR.replace("\n", "/").split("/"):
        forms = group.split()
        for form in forms:
            table[stem(form)] = tuple(other for other in forms if stem(other) != stem(form))
    return table
