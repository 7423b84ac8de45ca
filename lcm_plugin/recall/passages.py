"""The best passages for a question, word for word: what a delegate starts from and what remains without one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from lcm_plugin.recall.match import Matcher
from lcm_plugin.recall.query import ParsedQuery, parse_query

QUOTE_CHARS = 300
_BETWEEN_SENTENCES = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")


def best_quote(text: str, query: ParsedQuery, width: int = QUOTE_CHARS) -> str:
    """The sentence of a text that holds most of the query's units; never changed, only cut at ``width``."""
    matcher = Matcher(query)
    best, most = "", -1
    for part in _BETWEEN_SENTENCES.split(text):
        sentence = part.strip()
        held = sum(bool(spans) for spans in matcher.find(sentence).spans) if sentence else -1
        if held > most:
            best, most = sentence, held
    return (best or text.strip())[:width]


def make_evidence(question: str, texts: Iterable[tuple[str, str]], limit: int) -> list[dict[str, str]]:
    """Quotes from (id, text) pairs, at most one per id."""
    query = parse_query(question)
    quotes: dict[str, dict[str, str]] = {}
    for ref, text in texts:
        if ref not in quotes and text.strip():
            quotes[ref] = {"id": ref, "quote": best_quote(text, query)}
        if len(quotes) == limit:
            break
    return list(quotes.values())


def ids_shown(answer: object) -> list[str]:
    """The ids of everything whose text a tool's answer showed, in order."""
    found: list[str] = []
    _collect(answer, found)
    return found


def _collect(value: Any, found: list[str]) -> None:
    if isinstance(value, dict):
        if isinstance(value.get("id"), str) and not _TEXT_KEYS.isdisjoint(value):
            found.append(value["id"])
        for inner in value.values():
            _collect(inner, found)
    elif isinstance(value, list):
        for inner in value:
            _collect(inner, found)


_TEXT_KEYS = frozenset({"content", "text", "snippet", "exploration", "parts", "base64"})
