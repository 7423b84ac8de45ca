"""OOLONG (Bertsch et al., 2025): counts and comparisons over a long text, in which every line matters.

The rows of the published data set as JSON lines: ``context_window_text``, ``question``, ``answer``. The text is given to
the agent in messages of some lines each. No passage is evidence by itself, so that only the bill, the room and, with
a model, the answers are measured. An answer is scored by the data set's own rule.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lcm_plugin.errors import InputError
from lcm_plugin.evaluation.loaders.files import Row, files_of, rows_of
from lcm_plugin.evaluation.records import Question, Talk
from lcm_plugin.types import Message

LINES_A_MESSAGE = 40
_SCORE = 0.75
_TAKEN: Message = {"role": "assistant", "content": "Noted."}


def load(path: Path) -> Iterator[Talk]:
    """One talk for each text, with all questions about it."""
    texts: dict[str, list[Row]] = {}
    for file in files_of(path):
        for row in rows_of(file):
            if "context_window_text" not in row:
                raise InputError(f"{file}: this is no OOLONG file: its objects have no 'context_window_text'")
            texts.setdefault(str(row.get("context_window_id", row["context_window_text"])), []).append(row)
    for number, rows in enumerate(texts.values()):
        yield Talk(
            f"text-{number}", list(_messages(rows[0]["context_window_text"])), tuple(map(_question, rows))
        )


def _messages(text: str) -> Iterator[Message]:
    lines = text.splitlines()
    for start in range(0, len(lines), LINES_A_MESSAGE):
        yield {"role": "user", "content": "\n".join(lines[start : start + LINES_A_MESSAGE])}
        yield dict(_TAKEN)


def _question(row: Mapping[str, Any]) -> Question:
    kind = str(row.get("task_group") or row.get("question_type") or "")
    return Question(str(row.get("id", "")), row["question"], (), _gold(row["answer"]), kind, scoring="oolong")


def _gold(answer: Any) -> str:
    """The answer alone: rows hold it as it is, or as the text of a list with one entry."""
    if isinstance(answer, str) and answer.startswith("["):
        answer = ast.literal_eval(answer)
    if isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]
    return str(answer)


def score(answer: str, truth: str) -> float:
    """0.75 to the power of a number's error; 1 or 0 for anything else, as the last line of an answer says it."""
    said = answer.strip().splitlines()[-1] if answer.strip() else ""
    if re.fullmatch(r"-?\d+", truth):
        numbers = re.findall(r"-?\d+", said.replace(",", ""))
        return _SCORE ** abs(int(numbers[-1]) - int(truth)) if numbers else 0.0
    return float(re.search(rf"\b{re.escape(truth.lower())}\b", said.lower()) is not None)
