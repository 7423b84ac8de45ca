"""What a request asks for, if it asks for anything that can be looked for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lcm_plugin.recall.query import ParsedQuery, parse_query

LONG_CHARS = 600
MOST_QUESTIONS, MOST_NAMES = 3, 5

_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
# A sign within a word, as in 1.74.4 or a.py, ends no sentence.
_QUESTION = re.compile(r"(?:[^.!?\n。！？]|[.!](?=\S))*[?？]")
_OPENS_QUESTION = re.compile(r"\W*(?:who|whom|whose|what|when|where|which|why|how)\b", re.IGNORECASE)
_REMINDING = re.compile(
    r"\A\W*(?:(?:hey|hi|hello|ok|okay|so|and|also|please)\W+)*"
    r"(?:(?:can|could|would|will)\s+you\s+(?:please\s+)?(?:remind|tell)\s+me|(?:please\s+)?(?:remind|tell)\s+me|"
    r"do\s+you\s+(?:still\s+)?(?:remember|recall|know)|(?:can|could)\s+you\s+(?:please\s+)?(?:recall|look\s+up))\b\W*",
    re.IGNORECASE,
)
_TO_THE_READER = re.compile(r"\b(?:you|your|yours|yourself)\b", re.IGNORECASE)
_OF_THE_PAST = re.compile(
    r"\b(?:i|me|my|mine|we|us|our|ours|said|say|tell|told|mention(?:ed)?|suggest(?:ed)?|recommend(?:ed)?|promised?|"
    r"wrote|showed|earlier|before|again|remember|last)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Asked:
    """The words to look for. ``of_the_past``: they ask for something that may have been said."""

    words: str
    of_the_past: bool


def read_request(text: str) -> Asked:
    """What a request asks, without fenced code and the words it is introduced with.

    Where it asks questions these count, with what the other sentences call by a name such as ``EHGLP3``; of a long
    text the questions alone. A question put to the reader ("do you like it?") asks for nothing that was said, unless it
    speaks of the asker or of earlier.
    """
    plain = _FENCED.sub(" ", text)
    is_long = len(plain) > LONG_CHARS
    words = " ".join(map(str.strip, _QUESTION.findall(plain)[-MOST_QUESTIONS:]))[-LONG_CHARS:]
    is_question = bool(words) or (not is_long and bool(_OPENS_QUESTION.match(plain)))
    words = words or ("" if is_long else plain)
    bare = _REMINDING.sub("", words).strip()
    reminds = bare != words.strip()
    to_the_reader = _TO_THE_READER.search(bare) is not None and not _OF_THE_PAST.search(bare)
    names = [] if is_long else [unit.text for unit in parse_query(plain).units if unit.is_identifier]
    missing = [name for name in names[:MOST_NAMES] if name not in bare.lower()]
    return Asked(" ".join([bare, *missing]).strip(), reminds or (is_question and not to_the_reader))


def without_questions(text: str) -> str:
    """The text without its questions."""
    return _QUESTION.sub(" ", text)


def asks_enough(query: ParsedQuery) -> bool:
    """Whether there are several words to look for, or one that names a thing."""
    return len(query.units) >= 2 or any(unit.is_identifier or unit.kind == "cjk" for unit in query.units)
