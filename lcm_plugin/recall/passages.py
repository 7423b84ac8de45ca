"""The best passages for a question, word for word: what a delegate starts from and what remains without one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from lcm_plugin.recall.matching import Matcher
from lcm_plugin.recall.query import ParsedQuery, parse_query

QUOTE_CHARS = 300
_SENTENCE = re.compile(r"[^\n.!?。！？]+(?:[.!?。！？]+|\n|$)")


def best_quote(text: str, query: ParsedQuery, width: int = QUOTE_CHARS) -> str:
    """The sentence of a text that holds most of the query's units; never changed, only cut at ``width``."""
    matcher = Matcher(query)
    best, most = "", -1
    for match in _SENTENCE.finditer(text):
        sentence = match.group().strip()
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


def texts_in(answer: object) -> list[tuple[str, str]]:
    """Every (id, text) that a tool's answer showed."""
    found: list[tuple[str, str]] = []
    _collect(answer, found)
    return found


def _collect(value: Any, found: list[tuple[str, str]]) -> None:
    if isinstance(value, dict):
        ref = value.get("id")
        if isinstance(ref, str):
            found += [(ref, text) for text in _own_texts(value) if text]
        for inner in value.values():
            _collect(inner, found)
    elif isinstance(value, list):
        for inner in value:
            _collect(inner, found)


def _own_texts(item: dict[str, Any]) -> Sequence[str]:
    texts = [
        item[key] for key in ("content", "text", "snippet", "exploration") if isinstance(item.get(key), str)
    ]
    parts = item.get("parts")
    if isinstance(parts, list):
        texts.append("\n".join(part["text"] for part in parts if isinstance(part, dict) and "text" in part))
    return texts
