"""What a delegate's reply says and rests on: the answer, the ids it cites, quotes for them, within a cap."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from lcm_plugin.errors import InputError
from lcm_plugin.recall.fitting import Count, cost_of, fitting_head, take, widest
from lcm_plugin.recall.match import Matcher
from lcm_plugin.recall.query import ParsedQuery, parse_query
from lcm_plugin.recall.scope import parse_refs

QUOTE_CHARS = 300
_BETWEEN_SENTENCES = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_TEXT_KEYS = frozenset({"content", "text", "snippet", "exploration", "parts", "base64"})


def read_reply(text: str) -> tuple[str, list[str]]:
    """The answer and the ids it cites, from JSON or from plain text with ids in it."""
    body = text.strip()
    fenced = re.fullmatch(r"```(?:json)?\s*(.*?)\s*```", body, re.DOTALL)
    start = body.find("{")
    for candidate in (fenced[1] if fenced else body, body[start : body.rfind("}") + 1] if start >= 0 else ""):
        try:
            reply = json.loads(candidate)
        except ValueError:
            continue
        if isinstance(reply, dict) and isinstance(reply.get("answer"), str):
            cited = reply.get("cited_ids", [])
            ids = _ids(" ".join(map(str, cited))) if isinstance(cited, list) else []
            return reply["answer"].strip(), ids or _ids(reply["answer"])
    return body, _ids(body)


def _ids(text: str) -> list[str]:
    try:
        return [ref.text for ref in parse_refs(text)]
    except InputError:
        return []


def within(result: dict[str, Any], cap: int, count: Count) -> dict[str, Any]:
    """A result cut to a cap as sent: the last quotes go first, then what stands beside the answer, then its end."""
    evidence = list(result["evidence"])
    while evidence and cost_of(result | {"evidence": evidence}, count) > cap:
        evidence.pop()
    whole = result["answer"]
    beside = {key: value for key, value in result.items() if key != "answer"} | {"evidence": evidence}
    head = fitting_head(beside, ("error", "error_code", "extractive", "truncated"), cap, count)

    def make(tokens: int) -> dict[str, Any]:
        piece = take(whole, 0, tokens, count)
        cut = {"truncated": True} if piece.end < len(whole) else {}
        return {"answer": piece.text} | head | cut

    return widest(make, cap, count)


def best_quote(text: str, query: ParsedQuery, width: int = QUOTE_CHARS) -> str:
    """A short text as it is, of a longer one the sentence that holds most of the query's units, cut at ``width``."""
    if len(text.strip()) <= width:
        return text.strip()
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
    """The ids of everything whose text a tool's answer showed, in order; the hits of a search first."""
    found: list[str] = []
    if isinstance(answer, dict):
        found += [hit["id"] for hit in answer.get("hits", ())]
    _collect(answer, found)
    return list(dict.fromkeys(found))


def _collect(value: Any, found: list[str]) -> None:
    if isinstance(value, dict):
        if isinstance(value.get("id"), str) and not _TEXT_KEYS.isdisjoint(value):
            found.append(value["id"])
        for inner in value.values():
            _collect(inner, found)
    elif isinstance(value, list):
        for inner in value:
            _collect(inner, found)
