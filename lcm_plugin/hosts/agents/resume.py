"""The resume pack: where the work stood, for an agent whose host has just compacted its context.

Made of the stored messages by rule, without a model: the last requests word for word, what the user laid down, the open
plan, decisions, the files that were touched, and the ids to read on from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lcm_plugin.compaction.plans import keeps_plan
from lcm_plugin.engine import Engine
from lcm_plugin.messages.blocks import Call, calls_of, text_of
from lcm_plugin.messages.markup import escape, format_time, resume_block
from lcm_plugin.messages.parts import rebuild
from lcm_plugin.store.protocol import Reader
from lcm_plugin.store.records import StoredMessage
from lcm_plugin.summarize.base import SourceBlock
from lcm_plugin.summarize.cues import CUE_WORDS, DECISION
from lcm_plugin.summarize.units import units
from lcm_plugin.types import Message, Session

MOST_CHARS = 8_000
_ROWS = 800
_LAST_CHARS, _EARLIER_CHARS, _EARLIER = 1_800, 300, 4
_ANSWER_CHARS, _PLAN_CHARS, _LINE_CHARS = 500, 1_200, 220
_MOST_RULES, _MOST_DECISIONS, _MOST_FILES = 10, 8, 20
_LAID_DOWN = re.compile(
    r"\b(?:must|never|always|do not|don't|only|without|avoid|at most|at least|make sure|keep|instead of|"
    r"nie|niemals|immer|nur|muss|müssen|keine?|jamais|toujours|nunca|siempre)\b|必须|不要|禁止",
    re.IGNORECASE,
)
_PATH_KEYS = ("file_path", "notebook_path", "path", "absolute_path", "filePath")
_CHANGES = re.compile(r"edit|write|patch|replace|notebook", re.IGNORECASE)
_PATCHED = re.compile(r"(?m)^\*\*\* (?:Add|Update|Delete) File: (.+)$")


@dataclass(frozen=True, slots=True)
class _Row:
    """A message that a person or a model wrote; ``asks`` when a user speaks in it."""

    ref: str
    at: int
    asks: bool
    role: str
    message: Message

    @property
    def text(self) -> str:
        return text_of(self.message).strip()


def resume_pack(engine: Engine, session: Session) -> str:
    """The pack as one marked block of at most `MOST_CHARS`; empty for a session of which nothing is stored."""
    with engine.store.read() as reader:
        conversation = reader.find_conversation(session)
        if conversation is None:
            return ""
        rows = list(_rows(reader, conversation.conversation_id))
        count = conversation.message_count
    if not any(row.asks for row in rows):
        return ""
    zone = engine.config.timezone
    sections = [
        _requests(rows, zone),
        _answer(rows),
        _plan(rows, engine.config.keep_latest_of),
        _listed("What the user laid down (newest last)", _laid_down(rows)),
        _listed("Decided on the way (newest last)", _decided(rows)),
        _listed("Files touched (newest first; * changed)", _files(rows)),
        f"Read on: {rows[0].ref} to {rows[-1].ref} are stored word for word, with all before them ({count:,} rows). "
        "lcm_grep finds words in them, lcm_describe reads an id.",
    ]
    return resume_block(_fitted([one for one in sections if one]))


def _rows(reader: Reader, conversation_id: int) -> Iterator[_Row]:
    heads = [head for head in reader.heads(conversation_id, limit=_ROWS, standing=True) if not head.hidden]
    stored = reader.messages_by_id([head.message_id for head in heads])
    for head in heads:
        found: StoredMessage | None = stored.get(head.message_id)
        if found is not None and head.role in ("user", "assistant"):
            yield _Row(head.ref, head.created_at, head.speaks, head.role, rebuild(found))


def _requests(rows: Sequence[_Row], zone: str) -> str:
    asked = [row for row in rows if row.asks and row.text]
    last = asked[-1]
    lines = [f"The last request ({last.ref}, {format_time(last.at, zone)}):", _quoted(last.text, _LAST_CHARS)]
    if earlier := asked[-1 - _EARLIER : -1]:
        lines.append("Requests before it:")
        lines += [f"- {row.ref}: {_quoted(_one_line(row.text), _EARLIER_CHARS)}" for row in earlier]
    return "\n".join(lines)


def _answer(rows: Sequence[_Row]) -> str:
    said = next((row for row in reversed(rows) if row.role == "assistant" and row.text), None)
    return (
        f"Your last words ({said.ref}): {_quoted(said.text[-_ANSWER_CHARS:], _ANSWER_CHARS)}" if said else ""
    )


def _plan(rows: Sequence[_Row], globs: Sequence[str]) -> str:
    for row, call in _calls(rows):
        if keeps_plan(globs, call.name):
            steps = list(_steps(_value(call.arguments)))
            text = "\n".join(steps) if steps else json.dumps(_value(call.arguments), ensure_ascii=False)
            return f"The plan, as of {row.ref} ({call.name}):\n{_quoted(text, _PLAN_CHARS)}"
    return ""


def _steps(value: Any) -> Iterator[str]:
    """A plan's steps, each with its state, however the tool names the two."""
    for item in value if isinstance(value, list) else ():
        if isinstance(item, Mapping):
            text = next(
                (str(item[key]) for key in ("content", "step", "description", "task") if item.get(key)), ""
            )
            if text:
                yield f"- [{item.get('status', '?')}] {_one_line(text)}"
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _steps(inner)


def _laid_down(rows: Sequence[_Row]) -> list[str]:
    found = [(row, text) for row in rows if row.asks for text in _sentences(row) if _LAID_DOWN.search(text)]
    return _lines(found[-_MOST_RULES:])


def _decided(rows: Sequence[_Row]) -> list[str]:
    found = [(row, text) for row in rows for text in _sentences(row) if _is_decision(text)]
    return _lines(found[-_MOST_DECISIONS:])


def _is_decision(text: str) -> bool:
    return any(CUE_WORDS.get(word.strip(".,;:!?()").lower(), 0) & DECISION for word in text.split())


def _sentences(row: _Row) -> Iterator[str]:
    block = SourceBlock(row.ref, row.role, row.text, row.at, row.at)
    return iter(units((block,)))


def _lines(found: Iterable[tuple[_Row, str]]) -> list[str]:
    texts = {_one_line(text): row.ref for row, text in found}
    return [f"- {ref}: {_quoted(text, _LINE_CHARS)}" for text, ref in texts.items()]


def _files(rows: Sequence[_Row]) -> list[str]:
    """Paths in the arguments of calls, newest first, those that were changed marked."""
    changed: dict[str, bool] = {}
    for _, call in _calls(rows):
        for path in _paths(call):
            changed[path] = changed.get(path, False) or bool(_CHANGES.search(call.name))
    return [
        f"- {'* ' if changed[path] else ''}{_quoted(path, _LINE_CHARS)}"
        for path in list(changed)[:_MOST_FILES]
    ]


def _paths(call: Call) -> Iterator[str]:
    given = _value(call.arguments)
    if isinstance(given, Mapping):
        yield from (str(given[key]) for key in _PATH_KEYS if isinstance(given.get(key), str))
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False).replace("\\n", "\n")
    yield from (match.group(1).strip() for match in _PATCHED.finditer(text))


def _calls(rows: Sequence[_Row]) -> Iterator[tuple[_Row, Call]]:
    for row in reversed(rows):
        for call in reversed(calls_of(row.message)):
            yield row, call


def _value(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _listed(title: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{title}:", *lines]) if lines else ""


def _quoted(text: str, most: int) -> str:
    return escape(text if len(text) <= most else f"{text[:most]} …")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _fitted(sections: Sequence[str]) -> str:
    """The sections in order; where they are too long together the longest in the middle give way, line by line."""
    kept = [section.splitlines() for section in sections]
    while sum(len(line) + 1 for section in kept for line in section) + len(kept) > MOST_CHARS - 400:
        longest = max(kept[1:-1] or kept, key=lambda section: sum(map(len, section)))
        longest.pop()
    return "\n\n".join("\n".join(section) for section in kept if section)
