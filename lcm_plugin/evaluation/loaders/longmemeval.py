"""LongMemEval (Wu et al., 2024): each question has a history of its own, made of many sessions.

The turns marked ``has_answer`` are the evidence; a question whose id ends in ``_abs`` has none, since nothing in its
history answers it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lcm_plugin.errors import InputError
from lcm_plugin.evaluation.loaders.files import files_of, rows_of
from lcm_plugin.evaluation.records import Question, Talk, whole_messages
from lcm_plugin.types import Message


def load(path: Path) -> Iterator[Talk]:
    """One talk for each question of the file."""
    for file in files_of(path):
        for row in rows_of(file):
            if "haystack_sessions" not in row:
                raise InputError(
                    f"{file}: this is no LongMemEval file: its objects have no 'haystack_sessions'"
                )
            yield _talk(row)


def _talk(row: Mapping[str, Any]) -> Talk:
    rows: list[Message] = []
    evidence: list[int] = []
    sessions = zip(row["haystack_dates"], row["haystack_sessions"], strict=True)
    for at, session in sorted(sessions, key=lambda one: _time(one[0])):
        for turn in session:
            if turn.get("has_answer"):
                evidence.append(len(rows))
            rows.append(
                {"role": turn["role"], "content": turn["content"], "created_at": _time(at).isoformat()}
            )
    name = str(row["question_id"])
    found = () if name.endswith("_abs") else whole_messages(rows, evidence)
    question = Question(
        name,
        row["question"],
        found,
        str(row["answer"]),
        str(row.get("question_type", "")),
        when=str(row.get("question_date", "")),
    )
    return Talk(name, rows, (question,))


def _time(text: str) -> datetime:
    """``2023/05/20 (Sat) 02:21``, with or without the day's name."""
    words = [word for word in text.split() if not word.startswith("(")]
    return datetime.strptime(" ".join(words), "%Y/%m/%d %H:%M").replace(tzinfo=UTC)
