"""How well messages fit what is asked, and which of them may be quoted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lcm_plugin.messages.blocks import is_instruction
from lcm_plugin.recall.query import CJK_RUN, WORD, ParsedQuery, fold
from lcm_plugin.recall.rank import Ranked
from lcm_plugin.recall.textsearch import Found
from lcm_plugin.recall.tools import is_recall_tool
from lcm_plugin.store.search import SearchRow
from lcm_plugin.summarize.directives import is_directive

NEW_WORDS, LOOKED_AT = 2, 1_000
# A sentence is said again with another value when so many of its words come back, and at most so many do not.
SAME_WORDS, OTHER_WORDS = 5, 3
_SENTENCE = re.compile(r"[^.!?\n]+")


def shares_held(ranked: Sequence[Ranked], found: Found) -> list[float]:
    """How much of what is asked each row holds, with the turns beside it: the share of the words' weight."""
    total = sum(found.weights) or 1.0
    placed = {(one.row.conversation_id, one.row.position): one.matches.spans for one in ranked}
    shares = []
    for one in ranked:
        here, at = one.row.conversation_id, one.row.position
        beside = [spans for step in (-1, 0, 1) if (spans := placed.get((here, at + step))) is not None]
        held = (weight for index, weight in enumerate(found.weights) if any(spans[index] for spans in beside))
        shares.append(sum(held) / total)
    return shares


def names_it(query: ParsedQuery, one: Ranked) -> bool:
    """Whether a row holds an identifier of the request, which names one thing."""
    return any(
        unit.is_identifier and spans for unit, spans in zip(query.units, one.matches.spans, strict=True)
    )


def gives_orders(row: SearchRow) -> bool:
    """Whether it is a tool's output that orders its reader about."""
    return row.is_tool_output and is_directive(row.text)


def may_be_quoted(row: SearchRow, query: ParsedQuery) -> bool:
    """Whether a message says more than the request itself, and is neither an instruction nor a recall tool's answer."""
    if is_instruction(row.role) or is_recall_tool(row.tool_name):
        return False
    asked = {*query.words, *"".join(unit.text for unit in query.units if unit.kind == "cjk")}
    new = set[str]()
    for word in _words(row.text[:LOOKED_AT]):
        if word not in asked:
            new.add(word)
            # One number that was not asked with can be the whole answer.
            if len(new) == NEW_WORDS or any(map(str.isdigit, word)):
                return True
    return False


def is_said_again(old: Ranked, new: Ranked) -> bool:
    """Whether a newer message has the sentence that an older one was found by, but for a value."""
    if (new.row.at, new.row.row_id) <= (old.row.at, old.row.row_id):
        return False
    said, later = set(_words(_sentence_found(old))), set(_words(new.row.text[:LOOKED_AT]))
    same, other = said & later, said - later
    asked = _words(" ".join(old.row.text[start:end] for start, end in old.matches.sorted_spans))
    few = len(other) <= min(OTHER_WORDS, len(same) // 2)
    return len(same) >= SAME_WORDS and few and other.isdisjoint(asked)


def _sentence_found(one: Ranked) -> str:
    """The sentence with most of what was looked for."""
    spans = one.matches.sorted_spans
    sentences = list(_SENTENCE.finditer(one.row.text[:LOOKED_AT]))
    held = [sum(found.start() <= start < found.end() for start, _ in spans) for found in sentences]
    return sentences[held.index(max(held))][0] if sentences else ""


def _words(text: str) -> Iterator[str]:
    """The words of a text, and each Chinese, Japanese or Korean character as one."""
    folded = fold(text)
    yield from (match.group() for match in WORD.finditer(folded))
    yield from (character for match in CJK_RUN.finditer(folded) for character in match.group())
