"""Small data sets, made up here in the layouts that their authors publish."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LONG = "On day {n} the ferry {n} stops at bridge {n} and waits there for {n} guests of the harbour. " * 2


def locomo(folder: Path, turns: int = 180) -> Path:
    """Ninety exchanges; one fact at the beginning and one at the end."""
    facts = {1: "My sister keeps an albatross.", turns - 1: "The harbour sells marzipan."}
    rows = [
        {
            "speaker": "Ann" if n % 2 else "Ben",
            "dia_id": f"D1:{n}",
            "text": f"{facts.get(n, '')} {LONG.format(n=n)}".strip(),
        }
        for n in range(1, turns + 1)
    ]
    rows[1]["blip_caption"] = "a boat"
    conversation = {
        "speaker_a": "Ann",
        "speaker_b": "Ben",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": rows,
        "session_2_date_time": "12:05 am on 9 May, 2023",
        "session_2": [],
    }
    questions = [
        {
            "question": "Who keeps an albatross?",
            "answer": "Ann's sister",
            "evidence": ["D1:1"],
            "category": 4,
        },
        {"question": "What is sold?", "answer": "marzipan", "evidence": [f"D1:{turns - 1}"], "category": 4},
        {"question": "Not judged", "evidence": ["D1:2"], "category": 5},
    ]
    return written(
        folder / "locomo.json", [{"sample_id": "c", "conversation": conversation, "qa": questions}]
    )


def realtalk(folder: Path) -> Path:
    """A folder with one chat."""
    turn = {
        "clean_text": "I moved to Lund",
        "speaker": "Emi",
        "date_time": "29.12.2023, 15:04:05",
        "dia_id": "D1:1",
    }
    answer = {"clean_text": "Nice", "speaker": "Elise", "date_time": "30.12.2023, 09:00:00", "dia_id": "D1:2"}
    written(
        folder / "Chat_1.json",
        {
            "name": {"speaker_1": "Emi", "speaker_2": "Elise"},
            "session_1": [turn, answer],
            "session_1_date_time": "29.12.2023, 15:04:05",
            "events_session_1": {},
            "qa": [{"question": "Where to?", "answer": "Lund", "evidence": ["D1:1"], "category": 1}],
        },
    )
    return folder


def longmemeval(folder: Path) -> Path:
    """A question with two sessions out of order, and one that nothing answers."""
    row: dict[str, Any] = {
        "question_id": "q1",
        "question_type": "single-session-user",
        "question": "What is my dog called?",
        "answer": "Rex",
        "question_date": "2023/05/30 (Tue) 10:00",
        "haystack_dates": ["2023/05/21 (Sun) 09:00", "2023/05/20 (Sat) 02:21"],
        "haystack_session_ids": ["b", "a"],
        "haystack_sessions": [
            [{"role": "user", "content": "Later."}, {"role": "assistant", "content": "Yes."}],
            [
                {"role": "user", "content": "My dog is called Rex.", "has_answer": True},
                {"role": "assistant", "content": "A good name."},
            ],
        ],
        "answer_session_ids": ["a"],
    }
    return written(folder / "longmemeval_s.json", [row, {**row, "question_id": "q2_abs"}])


def beam_rows(folder: Path) -> Path:
    """A row as the published data set has it: sessions of turns, the questions as text."""
    chat = [
        [
            {
                "role": "user",
                "content": "The sprint ends on March 29.",
                "id": 0,
                "time_anchor": "March-15-2024",
            },
            {"role": "assistant", "content": "Noted.", "id": 1},
        ],
        [{"role": "user", "content": "It now ends on April 2.", "id": 2, "time_anchor": "March-20-2024"}],
    ]
    probes = {
        "knowledge_update": [
            {
                "question": "When does the sprint end?",
                "answer": "April 2",
                "source_chat_ids": {"original_info": [0], "updated_info": [2]},
                "rubric": ["it says April 2"],
            }
        ],
        "abstention": [{"question": "Who am I?", "ideal_response": "Not said.", "rubric": ["not said"]}],
    }
    return written(
        folder / "beam.json", [{"conversation_id": "7", "chat": chat, "probing_questions": str(probes)}]
    )


def beam_folder(folder: Path) -> Path:
    """A chat as the repository has it: batches of turns, the questions in a folder beside it."""
    place = folder / "chats" / "100K" / "7"
    (place / "probing_questions").mkdir(parents=True)
    [row] = json.loads(beam_rows(folder).read_text(encoding="utf-8"))
    (folder / "beam.json").unlink()
    batches = [{"batch_number": n, "turns": [session]} for n, session in enumerate(row["chat"], 1)]
    written(place / "chat.json", batches)
    written(place / "topic.json", {"topic": "a sprint"})
    probes = {"knowledge_update": [{"question": "When?", "answer": "April 2", "source_chat_ids": [2]}]}
    written(place / "probing_questions" / "probing_questions.json", probes)
    return folder / "chats"


def tau(folder: Path) -> Path:
    """Two runs with the same instructions; each names an identifier of its own."""
    lines = []
    for run, name in enumerate(("ZFA04Y", "QX77KM")):
        call = {"id": f"c{run}", "type": "function", "function": {"name": "get", "arguments": "{}"}}
        messages = [
            {"role": "system", "content": "# Policy of 2024a1"},
            {"role": "user", "content": f"Please look at my booking {name} for tomorrow."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{run}", "name": "get", "content": "nothing unusual"},
            {"role": "assistant", "content": "All is well."},
        ]
        lines.append(json.dumps({"session": f"run-{run}", "messages": messages}))
    path = folder / "tau.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def oolong(folder: Path) -> Path:
    """One text with two questions."""
    text = "\n".join(f"Date: Jan {n:02}, 2025 || User: 1 || Instance: text {n}" for n in range(1, 90))
    rows = [
        {
            "id": 1,
            "context_window_id": 5,
            "context_window_text": text,
            "question": "How many?",
            "answer": "[7]",
        },
        {
            "id": 2,
            "context_window_id": 5,
            "context_window_text": text,
            "question": "Which?",
            "answer": "['food']",
        },
    ]
    path = folder / "oolong.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def written(path: Path, value: Any) -> Path:
    """The path of a new JSON file."""
    path.write_text(json.dumps(value), encoding="utf-8")
    return path
