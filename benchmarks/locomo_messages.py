"""Turns the LoCoMo chats into messages that ``lcm replay`` plays.

    python benchmarks/locomo_messages.py PATH/locomo_dev.json > locomo.jsonl

One line a chat: ``session`` and ``messages``. The first speaker becomes the user and the second the
assistant; ``name`` keeps who spoke, ``id`` the dataset's turn (``conv-1/D3:11``) and ``created_at`` the time
of its session. A shared photo is kept by its caption.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Message = dict[str, Any]


def chats(path: str | Path) -> Iterator[tuple[str, list[Message]]]:
    """Each chat's id and its messages in order."""
    for sample in json.loads(Path(path).read_text(encoding="utf-8")):
        yield sample["sample_id"], list(messages(sample))


def messages(sample: dict[str, Any]) -> Iterator[Message]:
    """The messages of one chat."""
    conversation = sample["conversation"]
    roles = {conversation["speaker_a"]: "user", conversation["speaker_b"]: "assistant"}
    number = 1
    while f"session_{number}_date_time" in conversation:
        at = session_time(conversation[f"session_{number}_date_time"])
        for turn in conversation.get(f"session_{number}", ()):
            yield {
                "role": roles[turn["speaker"]],
                "content": _text(turn),
                "name": turn["speaker"],
                "id": f"{sample['sample_id']}/{turn['dia_id']}",
                "created_at": at.isoformat(),
            }
        number += 1


def session_time(text: str) -> datetime:
    """``1:56 pm on 8 May, 2023`` as a time; the dataset names no zone, so it is taken as UTC."""
    return datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)


def _text(turn: dict[str, Any]) -> str:
    caption = turn.get("blip_caption")
    return f"{turn['text']} [photo: {caption}]" if caption else str(turn["text"])


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit((__doc__ or "").strip())
    for session, rows in chats(sys.argv[1]):
        print(json.dumps({"session": session, "messages": rows}, ensure_ascii=False))


if __name__ == "__main__":
    main()
