"""BEAM (Tavakoli et al., 2025): chats of 100,000 to ten million tokens with probing questions of ten kinds.

Read are the rows of the published data set as JSON (``conversation_id``, ``chat``, ``probing_questions``), and the
folders of its repository (``chats/100K/1/chat.json`` with ``probing_questions/probing_questions.json`` beside it). A
question's ``source_chat_ids`` are the evidence: the ids of turns, as a list or in lists by their part in the question.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lcm_plugin.errors import InputError
from lcm_plugin.evaluation.loaders.files import files_of, rows_of
from lcm_plugin.evaluation.records import Question, Talk, whole_messages
from lcm_plugin.types import Message

_ANSWERS = ("ideal_response", "ideal_answer", "ideal_summary", "answer", "expected_compliance")
_PROBES = Path("probing_questions", "probing_questions.json")
_DATES = ("%B %d %Y", "%b %d %Y", "%Y %m %d", "%d %B %Y")


def load(path: Path) -> Iterator[Talk]:
    """The chats of a file of rows, or of a folder of the repository."""
    chats = sorted(path.rglob("chat.json")) if path.is_dir() else []
    for file in chats:
        if (probes := file.parent / _PROBES).is_file():
            asked = json.loads(probes.read_text(encoding="utf-8"))
            yield _talk(file.parent.name, json.loads(file.read_text(encoding="utf-8")), asked)
    if chats:
        return
    for file in files_of(path):
        for row in rows_of(file):
            if "chat" not in row:
                raise InputError(f"{file}: this is no BEAM file: its objects have no 'chat'")
            yield _talk(str(row.get("conversation_id", "")), row["chat"], _parsed(row["probing_questions"]))


def _talk(name: str, chat: Any, asked: Mapping[str, Sequence[Mapping[str, Any]]]) -> Talk:
    rows: list[Message] = []
    places: dict[str, int] = {}
    at = ""
    for turn in _turns(chat):
        at = _time(turn.get("time_anchor")) or at
        places[str(turn.get("id", len(rows)))] = len(rows)
        rows.append({"role": turn["role"], "content": turn["content"], **({"created_at": at} if at else {})})
    questions = [
        Question(
            f"{name}/{kind}/{number}",
            item["question"],
            whole_messages(rows, [places[one] for one in _ids(item.get("source_chat_ids")) if one in places]),
            next((str(item[key]) for key in _ANSWERS if item.get(key)), ""),
            kind,
            tuple(map(str, item.get("rubric") or ())),
        )
        for kind, items in asked.items()
        for number, item in enumerate(items)
        if item.get("question")
    ]
    return Talk(name, rows, tuple(questions))


def _turns(node: Any) -> Iterator[Mapping[str, Any]]:
    """The turns of a chat, however deep it is nested: sessions, batches, or plans of batches."""
    if isinstance(node, dict) and "role" in node and "content" in node:
        yield node
    elif isinstance(node, list | dict):
        for child in node.values() if isinstance(node, dict) else node:
            yield from _turns(child)


def _ids(source: Any) -> Iterator[str]:
    """The ids in a list, or in lists under names."""
    if isinstance(source, dict):
        source = list(source.values())
    if isinstance(source, list):
        for one in source:
            yield from _ids(one)
    elif source is not None:
        yield str(source)


def _parsed(probes: Any) -> Mapping[str, Any]:
    """The probing questions: an object, or its text as JSON or as a Python literal."""
    if isinstance(probes, str):
        try:
            probes = json.loads(probes)
        except ValueError:
            probes = ast.literal_eval(probes)
    if not isinstance(probes, dict):
        raise InputError("the probing questions of a BEAM chat must be an object")
    return probes


def _time(anchor: str | None) -> str:
    """``March-15-2024`` as an ISO date; empty for anything else."""
    text = re.sub(r"[-_,\s]+", " ", anchor or "").strip()
    for form in _DATES:
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC).isoformat()
        except ValueError:
            continue
    return ""
