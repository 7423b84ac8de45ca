"""How well messages fit what is asked, and which of them may be quoted."""

from __future__ import annotations

from collections.abc import Sequence

from lcm_plugin.messages.blocks import is_instruction
from lcm_plugin.recall.query import WORD, ParsedQuery, fold
from lcm_plugin.recall.rank import Ranked
from lcm_plugin.recall.textsearch import Found
from lcm_plugin.recall.tools import is_recall_tool
from lcm_plugin.store.search import SearchRow
from lcm_plugin.summarize.directives import is_directive

NEW_WORDS = 2


def sureness(ranked: Sequence[Ranked], found: Found) -> float:
    """How much of what is asked one of the best rows holds, with the turns beside it: the share of the words' weight."""
    total = sum(found.weights)
    if not total:
        return 0.0
    placed = {(one.row.conversation_id, one.row.position): one for one in ranked}
    best = 0.0
    for one in ranked[:3]:
        here, at = one.row.conversation_id, one.row.position
        beside = [placed[here, at + step] for step in (-1, 0, 1) if (here, at + step) in placed]
        held = sum(
            weight
            for index, weight in enumerate(found.weights)
            if any(other.matches.spans[index] for other in beside)
        )
        best = max(best, held / total)
    return best


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
    return len(set(WORD.findall(fold(row.text))).difference(query.words)) >= NEW_WORDS
