"""A program with a model loop of its own, for tests: sixty turns with a tool, a fact in the first, asked for in the last.

As a script it says its turns into a database and prints each as soon as it is stored:
``python loop.py talk.db 60``; it goes on where an earlier run was killed.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from typing import Any

from lcm_plugin import CompletionRequest, Memory

Message = dict[str, Any]
FACT = "The vault code is 4417-HERON."
QUESTION = "What exactly was the vault code?"
WINDOW = 6_000
LOOK = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Looks at a gauge.",
        "parameters": {"type": "object", "properties": {"gauge": {"type": "integer"}}, "required": ["gauge"]},
    },
}
_WORDS = ("pump", "valve", "ledger", "harbour", "copper", "lantern", "orchard", "gravel", "ferry", "socket")


def words(seed: int, count: int = 45) -> str:
    """Other words for another seed."""
    rng = random.Random(seed)
    return " ".join(rng.choice(_WORDS) for _ in range(count))


def request(turn: int, last: int) -> str:
    """What the user says in a turn, from 1 on."""
    if turn == 1:
        return f"{FACT} {words(1)}"
    return QUESTION if turn == last else f"Turn {turn}: {words(turn)}"


def model(messages: list[Message], turn: int) -> Message:
    """Looks at a gauge, then answers; asked for the code it searches, and says what it was shown."""
    newest = messages[-1]
    if newest["role"] == "user":
        if newest["content"] == QUESTION:
            return calling("lcm_grep", {"pattern": "vault code", "roles": ["user"]}, turn)
        return calling("look", {"gauge": turn}, turn)
    if "hits" in str(newest["content"]):
        found = [hit["snippet"].replace("**", "") for hit in json.loads(newest["content"])["hits"]]
        return {
            "role": "assistant",
            "content": next((text for text in found if "code is" in text), "unknown"),
        }
    return {"role": "assistant", "content": f"The gauge says: {newest['content']} {words(-turn)}"}


def calling(name: str, arguments: dict[str, Any], turn: int) -> Message:
    """An assistant's message with one call."""
    call = {
        "id": f"call_{turn}",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments)},
    }
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def vague(order: CompletionRequest) -> str:
    """A summary that keeps no fact, so that only a search can bring one back."""
    return "They read one gauge after the other, and talked about pumps, valves and ferries."


def say(memory: Memory, text: str, turn: int, watch: Callable[[list[Message]], None]) -> Message:
    """One turn of a loop as the page shows it."""
    memory.add(text)
    while True:
        messages = memory.context(overhead_tokens=memory.engine.count_tokens([LOOK]))
        watch(messages)
        answer = model(messages, turn)
        memory.add(answer)
        if not memory.run_tools(answer, lambda name, given: f"gauge {given['gauge']} stands at {turn * 7}"):
            break
    memory.end_turn({"prompt_tokens": memory.engine.count_tokens(messages), "completion_tokens": 20})
    return answer


def main(database: str, last: int) -> None:
    """Says what is missing of the turns."""
    with Memory(database, window=WINDOW) as memory:
        said = sum(1 for message in memory.messages() if message["role"] == "user")
        for turn in range(said + 1, last + 1):
            answer = say(memory, request(turn, last), turn, lambda messages: None)
            print(turn, answer["content"][:60], flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
