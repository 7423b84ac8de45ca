"""LoCoMo (Maharana et al., 2024) and REALTALK (Lee et al., 2025): long chats of two people, with questions.

The first speaker becomes the user and the second the assistant; ``name`` keeps who spoke, ``id`` the data set's turn
(``conv-1/D3:11``) and ``created_at`` its time. A shared photo is kept by its caption. Questions of LoCoMo's category 5
have no answer in the chat and are left out, as are those that name no evidence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lcm_plugin.errors import InputError
from lcm_plugin.evaluation.loaders.files import files_of, rows_of
from lcm_plugin.evaluation.records import Question, Talk, whole_messages
from lcm_plugin.types import Message

_UNANSWERABLE = 5
_KINDS = {1: "several hops", 2: "time", 3: "open domain", 4: "one hop"}
_REALTALK_KINDS = {1: "several hops", 2: "time", 3: "common sense"}


def load(path: Path) -> Iterator[Talk]:
    """The chats of a LoCoMo file."""
    for file in files_of(path):
        for sample in rows_of(file):
            yield locomo_talk(sample)


def load_realtalk(path: Path) -> Iterator[Talk]:
    """The chats of REALTALK, one file each."""
    for file in files_of(path):
        for sample in rows_of(file):
            rows = list(realtalk_messages(file.stem, sample))
            yield Talk(
                file.stem, rows, tuple(_questions(file.stem, rows, sample.get("qa", ()), _REALTALK_KINDS))
            )


def locomo_talk(sample: Mapping[str, Any]) -> Talk:
    """One chat of LoCoMo with its questions."""
    if "conversation" not in sample:
        raise InputError("this is no LoCoMo file: its objects have no 'conversation'")
    name, rows = sample["sample_id"], list(messages(sample))
    return Talk(name, rows, tuple(_questions(name, rows, sample.get("qa", ()), _KINDS)))


def messages(sample: Mapping[str, Any]) -> Iterator[Message]:
    """The messages of one chat of LoCoMo."""
    conversation = sample["conversation"]
    roles = {conversation["speaker_a"]: "user", conversation["speaker_b"]: "assistant"}
    number = 1
    while f"session_{number}_date_time" in conversation:
        at = session_time(conversation[f"session_{number}_date_time"])
        for turn in conversation.get(f"session_{number}", ()):
            yield _message(sample["sample_id"], turn, roles, turn["text"], at)
        number += 1


def realtalk_messages(name: str, sample: Mapping[str, Any]) -> Iterator[Message]:
    """The messages of one chat of REALTALK."""
    if "name" not in sample:
        raise InputError(f"{name}: this is no REALTALK file: it has no 'name' with the speakers")
    roles = {sample["name"]["speaker_1"]: "user", sample["name"]["speaker_2"]: "assistant"}
    number = 1
    while f"session_{number}" in sample:
        for turn in sample[f"session_{number}"]:
            at = datetime.strptime(turn["date_time"], "%d.%m.%Y, %H:%M:%S").replace(tzinfo=UTC)
            yield _message(name, turn, roles, turn["clean_text"], at)
        number += 1


def session_time(text: str) -> datetime:
    """``1:56 pm on 8 May, 2023`` as a time; the data set names no zone, so it is taken as UTC."""
    return datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)


def _message(
    chat: str, turn: Mapping[str, Any], roles: Mapping[str, str], text: str, at: datetime
) -> Message:
    caption = turn.get("blip_caption")
    return {
        "role": roles[turn["speaker"]],
        "content": f"{text} [photo: {caption}]" if caption else str(text),
        "name": turn["speaker"],
        "id": f"{chat}/{turn['dia_id']}",
        "created_at": at.isoformat(),
    }


def _questions(
    chat: str, rows: Sequence[Message], asked: Iterable[Mapping[str, Any]], kinds: Mapping[int, str]
) -> Iterator[Question]:
    places = {str(row["id"]).rpartition("/")[2]: place for place, row in enumerate(rows)}
    for number, item in enumerate(asked):
        category = int(item.get("category", 0))
        evidence = evidence_of(item.get("evidence") or (), places)
        if category != _UNANSWERABLE and evidence:
            yield Question(
                f"{chat}/q{number}",
                str(item["question"]),
                whole_messages(rows, sorted(evidence)),
                str(item.get("answer", "")),
                kinds.get(category, ""),
                when=str(rows[-1]["created_at"])[:10],
            )


def evidence_of(names: Iterable[str], places: Mapping[str, int]) -> frozenset[int]:
    """The places of the turns that a question names as its evidence (``D3:11``, also several in one text)."""
    keys = {f"D{int(a)}:{int(b)}" for name in names for a, b in re.findall(r"D:?(\d+):(\d+)", str(name))}
    return frozenset(places[key] for key in keys if key in places)
