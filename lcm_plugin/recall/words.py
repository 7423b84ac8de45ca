"""Words as searches see them: folded, split, stemmed, and told apart from function words.

Folding keeps the length of a text, so that an offset in the folded text is one in the original.
Stems are Porter's (the algorithm that the full-text index uses too). Chinese, Japanese and Korean
are written without blanks, so their runs are matched as they stand, down to one character.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from typing import Any

CJK = (
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff"
)
WORD = re.compile(rf"[^\W_{CJK}]+")
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
    lowered = text.lower()
    if lowered.isascii():
        return lowered
    return "".join(map(_fold_character, text))


@lru_cache(maxsize=10_000)
def _fold_character(character: str) -> str:
    if character in "\u2018\u2019\u02bc":
        return "'"
    base = unicodedata.normalize("NFD", character)[0] if not CJK_RUN.match(character) else character
    return base.lower()[:1] or character


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
