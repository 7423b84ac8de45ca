"""tau-bench transcripts: recorded runs of a customer service agent, played as one long session.

Each line is a run with its ``messages``. The recordings hold no questions, so questions are made from them: an
identifier that stands in only one message of all runs is asked for by name. Its evidence is the identifier with some
characters round it, word for word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from lcm_plugin.errors import InputError
from lcm_plugin.evaluation.loaders.files import files_of, rows_of
from lcm_plugin.evaluation.records import Evidence, Question, Talk
from lcm_plugin.messages.blocks import text_of
from lcm_plugin.types import Message

_IDENTIFIER = re.compile(r"\b(?=\w*\d)(?=\w*[A-Za-z])\w{6,}\b")
_MOST_QUESTIONS = 200
_ROUND = 30


def load(path: Path) -> Iterator[Talk]:
    """All runs as one talk, the system message of the first in front."""
    runs = [row.get("messages") for file in files_of(path) for row in rows_of(file)]
    messages = [message for run in runs for message in run or ()]
    if not messages:
        raise InputError(f"{path}: these are no tau-bench transcripts: their objects have no 'messages'")
    system = [message for message in messages if message["role"] == "system"][:1]
    talk = system + [message for message in messages if message["role"] != "system"]
    yield Talk("tau", talk, tuple(_questions(talk)))


def _questions(talk: Sequence[Message]) -> Iterator[Question]:
    texts = [text_of(message) if message["role"] != "system" else "" for message in talk]
    names = [set(_IDENTIFIER.findall(text)) for text in texts]
    often = Counter(name for found in names for name in found)
    once = [
        (place, min(own)) for place, found in enumerate(names) if (own := {n for n in found if often[n] == 1})
    ]
    for place, name in once[:: max(1, len(once) // _MOST_QUESTIONS)]:
        at = texts[place].index(name)
        passage = texts[place][max(0, at - _ROUND) : at + len(name) + _ROUND]
        yield Question(
            f"tau/{name}", f"What was {name} about?", (Evidence(place, passage),), kind="identifier"
        )
