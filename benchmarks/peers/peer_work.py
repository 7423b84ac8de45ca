"""What every engine of the comparison is given: a talk with canaries in it, odd messages, and how it is judged."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

from lcm_plugin.evaluation.canaries.planting import script
from lcm_plugin.evaluation.corpus import Corpus
from lcm_plugin.messages.tokens import TokenCounter

WINDOW, SMALL_WINDOW = 128_000, 64_000
NEWEST = "And what is next on the list?"
_FILLING, _FILLING_CHARS = 100, 3_600
_LINE = "The crew moved crate {} from quay {} to shed {} before noon. "

Row = dict[str, Any]


def work(size: int, chats: list[Row]) -> Row:
    """The whole task as JSON: turns, canaries, odd messages, and chats to ask questions about."""
    plan = script(1)
    turns, messages = list[Row](), 0
    for number, exchange in enumerate([*plan.planting, *islice(plan.others, size)]):
        if messages >= size and number >= len(plan.planting):
            break
        rows = exchange.messages(f"call_{number}")
        messages += len(rows)
        turns.append({"messages": rows, "taken_back": exchange.taken_back})
    return {
        "window": WINDOW,
        "turns": turns,
        "canaries": [
            {"kind": one.kind, "question": one.question, "right": one.right, "wrong": one.wrong}
            for one in plan.canaries
        ],
        "summary": " ".join(Corpus(1).sentences()[:70]),
        "small_window": SMALL_WINDOW,
        "odd": {
            name: [_user("Good morning."), _said(), _user("Read the list."), *rows]
            for name, rows in odd().items()
        },
        "filling": [line for number in range(_FILLING) for line in _filling(number)],
        "newest": NEWEST,
        "chats": chats,
    }


def odd() -> dict[str, list[Row]]:
    """Messages that hosts have handed over, and after which some engine failed for good, by name.

    The last two names are faults of the model that writes the summaries.
    """
    call = _call("call_1", '{"path": "a.txt"}')
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBORw0KGgoA" * 20_000}}
    return {
        "nothing odd": [_assistant(call), _tool("call_1", "one"), _said()],
        "half a surrogate pair": [_user("A broken emoji: \ud83d.")],
        "NUL": [_user("before\x00after")],
        "result larger than the window": [_assistant(call), _tool("call_1", _text(480_000)), _said()],
        "arguments that are no JSON": [
            _assistant(_call("call_1", '{"path": ')),
            _tool("call_1", "error"),
            _said(),
        ],
        "result without a call": [_tool("call_9", "late"), _said()],
        "call without a result": [_assistant(call)],
        "call id used twice": [_assistant(call), _tool("call_1", "one"), _said()] * 2,
        "image of 240 KB": [{"role": "user", "content": [{"type": "text", "text": "Look:"}, image]}, _said()],
        "empty answer": [{"role": "assistant", "content": ""}, _user("Hello?"), _said()],
        "200 calls at once": [
            _assistant(*(_call(f"call_{n}", "{}") for n in range(200))),
            *(_tool(f"call_{n}", f"result {n}") for n in range(200)),
            _said(),
        ],
        "summaries are empty": [],
        "the summary model fails": [],
    }


def fault(sent: list[Row] | str) -> str:
    """Why a model could not answer what an engine hands over after an odd message; empty when it could."""
    if isinstance(sent, str):
        return sent or "an exception"
    texts = [json.dumps(message.get("content"), ensure_ascii=False) for message in sent]
    if not sent or NEWEST not in texts[-1]:
        return "the newest message is not the last"
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return "no UTF-8"
    waiting: set[str] = set()
    for message in sent:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return "a result without its call"
            waiting.discard(message["tool_call_id"])
            continue
        if waiting:
            return "a call without its result"
        waiting = {call["id"] for call in message.get("tool_calls") or ()}
    tokens = sum(TokenCounter().message(message) for message in sent)
    return f"{tokens:,} tokens" if tokens > SMALL_WINDOW else ""


def _text(chars: int) -> str:
    lines = (_LINE.format(n, 7 * n % 31, 11 * n % 17) for n in range(chars // len(_LINE)))
    return "".join(lines)


def _filling(number: int) -> list[Row]:
    text = _text(_FILLING_CHARS)
    return [
        _user(f"Shift {number}: {text}"),
        {"role": "assistant", "content": f"Shift {number} is noted: {text[:400]}"},
    ]


def _user(text: str) -> Row:
    return {"role": "user", "content": text}


def _said() -> Row:
    return {"role": "assistant", "content": "Done."}


def _call(name: str, arguments: str) -> Row:
    return {"id": name, "type": "function", "function": {"name": "read", "arguments": arguments}}


def _assistant(*calls: Row) -> Row:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def _tool(name: str, text: str) -> Row:
    return {"role": "tool", "tool_call_id": name, "name": "read", "content": text}
